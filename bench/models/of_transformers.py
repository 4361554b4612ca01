"""Cases of transformers: each architecture of its lists, small."""

import inspect

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cases import Case, Refused, seed_weights, tensors
from inputs import BATCH, CONSTANT, candidates, find, tokens
from small_config import declared, small

# The head that an architecture is exported with: the first of these lists that has it.
LISTS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING",
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING",
    "MODEL_FOR_CTC_MAPPING",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING",
    "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING",
    "MODEL_MAPPING",
    "MODEL_FOR_PRETRAINING_MAPPING",
    "MODEL_FOR_BACKBONE_MAPPING",
    "MODEL_FOR_IMAGE_TO_IMAGE_MAPPING",
)
PAST, CAPACITY = 6, 16  # Rows of a cache that grows, and of one that does not.
MOST_WEIGHTS = 4_000_000

POPULAR = (
    "bert roberta distilbert llama mistral qwen2 qwen3 gpt2 vit t5 bart whisper clip gemma2 gemma3_text phi3 mixtral qwen3_moe "
    "wav2vec2 dinov2 deberta-v2 modernbert xlm-roberta electra albert mpnet opt gpt_neox falcon bloom deit swin convnext resnet "
    "beit siglip mbart marian m2m_100 pegasus led longformer hubert gemma cohere olmo2 granite smollm3 deepseek_v3 gpt_oss "
    "mamba mamba2 jamba segformer detr layoutlm layoutlmv3 clap sam audio-spectrogram-transformer blip"
).split()


def architectures():
    """Names of configurations, what most people use first."""
    names = list(modeling_auto.MODEL_MAPPING_NAMES)
    return [name for name in POPULAR if name in names] + [name for name in names if name not in POPULAR]


SPECIAL = {
    "align": {"projection_dim": 80},
    "cvt": {"depth": [1, 2, 3]},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 4, "topk_method": "greedy"},
    "dots1": {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1},
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [16, 16, 32, 32]},
    "encodec": {"num_filters": 4},
    "esm": {"vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1},
    "gemma3n_text": {
        "intermediate_size": [48, 48],
        "activation_sparsity_pattern": [0.95, 0.0],
        "num_kv_shared_layers": 0,
    },
    "glm5_next_text": {"index_topk": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl_text": {"head_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "ministral": {"head_dim": 8},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 2},
}


def special(name, kind):
    """Values that the names of a configuration do not tell."""
    if name in SPECIAL:
        return SPECIAL[name]
    if name in ("autoformer", "informer", "time_series_transformer"):
        return {"prediction_length": 4, "context_length": 12, "num_time_features": 2, "lags_sequence": [1, 2, 3]}
    if name.startswith(("glm", "qwen2_vl", "qwen2_5_vl")) and name.endswith("_text"):
        sections = [1, 1, 0] if "moe" in name else [2, 1, 1]  # They add up to half of what rotates in a head
        return {"rope_parameters": (kind().rope_parameters or {}) | {"mrope_section": sections}}
    if "backbone_config" in declared(kind) and getattr(kind().backbone_config, "model_type", "") in (
        "timm_backbone",
        "",
    ):
        stages = transformers.ResNetConfig(
            embedding_size=16,
            hidden_sizes=[16, 24, 32, 48],
            depths=[1, 1, 1, 1],
            out_features=["stage2", "stage3", "stage4"],
        )
        return {"backbone_config": stages, "use_timm_backbone": False, "backbone": None}
    return {}


def model_class(config):
    for name in LISTS:
        mapping = getattr(modeling_auto, name)
        if name == "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING" and hasattr(config, "text_config"):
            continue  # It takes words and images: both go in.
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    raise Refused("no class of its configuration in the lists")


def build(name):
    """A model and inputs that it runs with."""
    kind = CONFIG_MAPPING[name]
    reasons = []
    for level in range(3):
        try:
            config = small(kind, level, **special(name, kind))
            config.use_cache = False
            chosen = model_class(config)
            with torch.device("meta"):
                weights = sum(parameter.numel() for parameter in make(chosen, config).parameters())
            if weights > MOST_WEIGHTS:
                raise Refused(f"{weights / 1e6:.0f} million weights")
            torch.manual_seed(0)
            model = seed_weights(make(chosen, small(kind, level, **special(name, kind))))
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        for given in candidates(model):
            try:
                if all(tensor.isfinite().any() for tensor in outputs_of(model, given)):
                    return model, given
                reasons.append("outputs are not finite")
            except Exception as error:
                reasons.append(f"{type(error).__name__}: {error}")
        if not any(True for _ in candidates(model)):
            reasons.append(f"no inputs are known for {model.main_input_name}")
    raise Refused(reasons[0])


def make(chosen, config):
    try:
        return chosen._from_config(config, experts_implementation="batched_mm")
    except (TypeError, ValueError):
        return chosen._from_config(config)


def outputs_of(model, given):
    with torch.no_grad():
        takes = inspect.signature(model.forward).parameters
        off = {"use_cache": False} if "use_cache" in takes else {}
        found = tensors(model(**given, **off))
        assert found, "no outputs"
        return found


class Plain(torch.nn.Module):
    def __init__(self, model, given):
        super().__init__()
        self.model = model
        self.names = [name for name in given if name not in CONSTANT]
        self.constants = {name: value for name, value in given.items() if name in CONSTANT}
        self.off = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def forward(self, *values):
        return tensors(self.model(**dict(zip(self.names, values)), **self.constants, **self.off))


class WithPast(torch.nn.Module):
    """One step of a decoder whose cache of keys and values comes and goes as tensors, two a layer."""

    def __init__(self, model, argument):
        super().__init__()
        self.model, self.argument = model, argument

    def forward(self, input_ids, attention_mask, *past):
        cache = transformers.DynamicCache(config=self.model.config)
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=True, **{self.argument: cache})
        return (out.logits, *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))


class WithStaticCache(torch.nn.Module):
    """One step of a decoder that writes its keys and values at a position of a cache of fixed size."""

    def __init__(self, model, argument):
        super().__init__()
        self.model, self.argument = model, argument

    def forward(self, input_ids, position, *buffers):
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=CAPACITY)
        for place, layer in enumerate(cache.layers):
            layer.keys, layer.values = buffers[2 * place].clone(), buffers[2 * place + 1].clone()
            layer.device, layer.is_initialized = torch.device("cpu"), True
            layer.batch_size, layer.num_heads = layer.keys.shape[:2]
            layer.cumulative_length = position.clone()
        positions = position.reshape(1, 1).expand(input_ids.shape)
        out = self.model(input_ids=input_ids, position_ids=positions, use_cache=True, **{self.argument: cache})
        return (out.logits, *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))


def with_caches(model):
    """Cases of a decoder with each kind of cache that it runs with."""
    takes = inspect.signature(model.forward).parameters
    argument = next((name for name in ("cache", "past_key_values") if name in takes), None)
    if not argument or "attention_mask" not in takes or getattr(model.config, "is_encoder_decoder", False):
        return
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=tokens(model.config, PAST), use_cache=True, **{argument: cache})
    layers = cache.layers
    if not all(
        type(layer) in (transformers.cache_utils.DynamicLayer, transformers.cache_utils.DynamicSlidingWindowLayer)
        and layer.is_initialized
        for layer in layers
    ):
        return
    names = [f"{layer}.{name}" for layer in range(len(layers)) for name in ("key", "value")]
    past = [tensor.contiguous() for layer in layers for tensor in (layer.keys, layer.values)]
    step = {"input_ids": tokens(model.config, 1)}
    mask = {"attention_mask": torch.ones(BATCH, PAST + 1, dtype=torch.int64)}
    yield Case(
        "past",
        WithPast(model, argument),
        step | mask | {f"past_key_values.{name}": value for name, value in zip(names, past)},
        ("logits", *(f"present.{name}" for name in names)),
    )
    if "position_ids" not in takes or find(model.config, "sliding_window"):
        return
    buffers = [torch.nn.functional.pad(value, (0, 0, 0, CAPACITY - value.shape[2])) for value in past]
    yield Case(
        "static",
        WithStaticCache(model, argument),
        step | {"position": torch.tensor(PAST)} | {f"cache.{name}": value for name, value in zip(names, buffers)},
        ("logits", *(f"updated.{name}" for name in names)),
    )


def cases(name):
    model, given = build(name)
    yield Case("plain", Plain(model, given), {key: value for key, value in given.items() if key not in CONSTANT})
    heads = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if name in POPULAR and type(model.config) in heads:
        torch.manual_seed(0)
        head = seed_weights(make(heads[type(model.config)], model.config))
        yield Case("head", Plain(head, given), given)
    if type(model).__name__.endswith("ForCausalLM") or type(model).__name__.endswith("LMHeadModel"):
        try:
            yield from with_caches(model)
        except Exception:
            return  # A decoder whose cache is of another kind: the plain one stands for it.
