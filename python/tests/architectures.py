"""Architectures of transformers from small configurations, for the tests of the torch backend."""

import torch
import transformers

transformers.logging.set_verbosity_error()

_TEXT = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_IDS = torch.randint(3, 500, (2, 17), device="cpu", generator=torch.Generator().manual_seed(1))


def _decoder(name, **sizes):
    """A decoder with rotary embeddings and shared heads of keys and values."""

    def make():
        config = getattr(transformers, f"{name}Config")(
            **_TEXT | _TOKENS | {"num_key_value_heads": 2, "max_position_embeddings": 256} | sizes
        )
        return getattr(transformers, f"{name}ForCausalLM")(config)

    return make, {"input_ids": _IDS}


def _model(name, inputs, **sizes):
    return lambda: getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes)), inputs


def _images(*shape):
    return torch.randn(*shape, device="cpu", generator=torch.Generator().manual_seed(2))


_MASKED = {"input_ids": _IDS, "attention_mask": torch.ones_like(_IDS)}
_PADDED = {"input_ids": _IDS, "attention_mask": (torch.arange(17) >= torch.tensor([[5], [0]])).long()}  # On the left.
_BOTH = {"input_ids": _IDS, "decoder_input_ids": _IDS[:, :7]}

ARCHITECTURES = {
    "llama": _decoder("Llama"),
    "llama_padded": (_decoder("Llama")[0], _PADDED),  # Rows that see nothing.
    "qwen3": _decoder("Qwen3", head_dim=16),  # Norms of queries and keys.
    "gemma2": _decoder("Gemma2", head_dim=16, sliding_window=8),  # Soft caps, windows in every other layer.
    "mistral": _decoder("Mistral", sliding_window=8),
    "mixtral": _decoder("Mixtral"),  # Experts, which torch runs.
    "phi3": _decoder("Phi3"),  # Products that are merged already.
    "gpt2": (
        lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=512, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
        ),
        {"input_ids": _IDS},
    ),
    "bert": _model("Bert", _MASKED, **_TEXT),
    "modernbert": _model(
        "ModernBert", _MASKED, **_TEXT | _TOKENS | {"num_hidden_layers": 4, "cls_token_id": 3, "sep_token_id": 4}
    ),
    "vit": _model(
        "ViT", {"pixel_values": _images(2, 3, 32, 32)}, image_size=32, patch_size=8,
        **{name: size for name, size in _TEXT.items() if name != "vocab_size"},
    ),
    "t5": _model("T5", _BOTH, vocab_size=512, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
    "whisper": _model(
        "Whisper", {"input_features": _images(2, 16, 60), "decoder_input_ids": _IDS[:, :7]}, vocab_size=512, d_model=64,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_source_positions=30, max_target_positions=40, num_mel_bins=16,
        decoder_start_token_id=1, **_TOKENS,
    ),
}  # fmt: skip


def make(name, dtype=torch.float32):
    """The model, the same weights each time, and its inputs."""
    torch.manual_seed(0)
    build, inputs = ARCHITECTURES[name]
    return build().to(dtype).eval(), inputs_as(dtype, inputs)


def inputs_as(dtype, inputs):
    device = torch.get_default_device()
    return {name: x.to(device, dtype if x.is_floating_point() else x.dtype) for name, x in inputs.items()}


def in_f64(name, model):
    """The model's first output in f64."""
    wide = model.to(torch.float64)
    wide.config._experts_implementation = "eager"  # The grouped products of experts have no f64.
    return first(wide(**inputs_as(torch.float64, ARCHITECTURES[name][1])))


def first(outputs):
    return outputs.logits if hasattr(outputs, "logits") else outputs[0]
