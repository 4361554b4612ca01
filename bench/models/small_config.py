"""Small configurations of transformers' architectures, by the names that its configurations share.

Every architecture of transformers has a configuration of its own, but they name the same things alike: widths, heads,
layers, vocabularies, images. `small(kind, level)` gives these small sizes and leaves the rest (activations, norms, kinds of
layers, biases) as the architecture has it. Level 0 gives every width the same size, level 1 divides the architecture's own,
for those whose widths depend on each other, and level 2 only takes layers away.
"""

import dataclasses
import re

WIDTH, INNER, HEADS, HEAD_WIDTH, VOCABULARY, POSITIONS, DEPTH = 32, 48, 4, 8, 99, 64, 2

# What is not a size although its name looks like one, or has to stay as it is.
KEPT = re.compile(
    r"kernel|stride|dilation|num_channels|in_chans|image_channels|audio_channels|input_channels|chunk_size_feed_forward|"
    r"type_vocab_size|num_labels|num_feat_extract_layers|mask_|_loss|_cost|scale|ratio|_token_idx|mel_dim|"
    r"reduction_factor|upsample|feature_layer|temporal_patch|merge|reassemble|sampling_rate|sample_rate|hop_length"
)
LISTS_OF_DEPTHS = re.compile(
    r"^depths$|depth$|layers$|num_blocks|layer_depths|stage_num|blocks_per_stage|repeats|numb_of_layers"
)
WIDTHS = re.compile(
    r"hidden|embed|embd|dim$|dims$|_dim_|d_model|d_inner|width|channels|proj|lora_rank|rank|_size$|_sizes$|units|features|filters"
)
INNERS = re.compile(r"intermediate|ffn|mlp_dim|d_ff|n_inner|inner_dim|feed_forward|ffw")
LAYERS = re.compile(
    r"(^|_)layers$|^n_layers?$|^depth$|_depth$|num_encoder_blocks|^layers$|num_layers|num_blocks|num_res_blocks"
)
PERIODS = re.compile(
    r"sliding_window_pattern|full_attention_interval|layer_period|attn_every|every_n|no_rope_layer_interval|_freq$|_frequency$"
)
KINDS_OF_LAYERS = (
    "layer_types",
    "layers_block_type",
    "block_types",
    "layers_types",
    "mlp_layer_types",
    "indexer_types",
)


def fixed(name, value):
    """The size at level 0 of an int by its name, None for one that stays."""
    if name.endswith("_token_id") or name.endswith("_token_index") or name.endswith("_token_idx"):
        return {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.get(name, 80 + sum(map(ord, name)) % 15)
    if name == "upsample_groups":  # As many as channels
        return WIDTH
    if KEPT.search(name):
        return None
    if "vocab" in name:
        return VOCABULARY if value > VOCABULARY else None
    if re.search(
        r"max_.*position|n_positions|^n_ctx$|context_length|max_seq|seq_len|num_position_embeddings|max_pos", name
    ):
        return min(value, POSITIONS)
    if name in ("max_source_positions",):
        return 32
    if name in ("n_group", "topk_group", "mamba_n_groups", "n_groups", "num_groups"):
        return 1
    if re.search(r"experts_per_tok|top_?k|moe_k$|top_k_experts", name):
        return min(value, 2)
    if re.search(r"shared_expert", name) and not INNERS.search(name):
        return min(value, 1)
    if re.search(r"experts$|moe_num_experts", name):
        return min(value, 4)
    if name == "mamba_d_ssm":
        return 64
    if re.search(r"mamba.*heads|ssm.*heads", name):
        return 8
    if re.search(r"(mamba|ssm).*(state|d_head|head_dim)|state_size", name):
        return 8
    if re.search(r"head_dim|dim_head|^d_kv$|head_size|^d_head$|attention_head_dim|rotary_dim|head_width", name):
        return HEAD_WIDTH if value >= HEAD_WIDTH else None
    if re.search(r"(key_value|kv)_heads|key_heads|num_kv|n_head_kv|kv_n_heads|attention_groups", name):
        return 2 if value > 1 else None
    if re.search(r"heads?$", name):
        return min(value, HEADS)
    if name == "num_pos_feats":
        return WIDTH // 2
    if name.endswith("_offset"):
        return min(value, 1)
    if re.search(r"image_size|img_size|input_size|resolution", name):
        return 32 if value > 32 else None
    if "patch" in name and "size" in name:
        return min(value, 8)
    if name in (
        "num_mel_bins",
        "feature_size",
        "num_mel_bands",
        "input_feat_per_channel",
        "n_mels",
        "feature_projection_input_dim",
    ):
        return min(value, 32)
    if re.search(r"window|attention_chunk|local_attention|block_size|chunk_size|index_topk", name):
        return min(value, 4)
    if PERIODS.search(name):
        return min(value, 2)
    if name in ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"):
        return min(value, 1)
    if name in ("num_conv_pos_embeddings",):
        return 16
    if name in ("num_conv_pos_embedding_groups", "conv_pos_groups"):
        return 4
    if re.search(
        r"codebook_size|num_embeddings|num_codevectors|num_queries|num_query_tokens|n_latents|num_latents|num_points",
        name,
    ):
        return min(value, 16)
    if INNERS.search(name):
        return INNER if value > INNER else None
    if LAYERS.search(name):
        return min(value, DEPTH)
    if WIDTHS.search(name):
        return WIDTH if value > WIDTH else None
    return None


def divided(name, value, factor=16):
    """The size at level 1: widths and their heads over one factor."""
    known = fixed(name, value)
    if known is None or name.endswith(("_token_id", "_token_index")):
        return known
    if re.search(r"heads?$", name):
        return max(1, value // 4) if value >= 4 else value
    if re.search(r"head_dim|dim_head|^d_kv$|head_size", name):
        return max(4, value * 4 // factor)
    if (WIDTHS.search(name) or INNERS.search(name)) and not re.search("image|patch|vocab|position|window", name):
        return max(8, value // factor)
    return known


def only_layers(name, value):
    """Level 2."""
    if LAYERS.search(name) and not KEPT.search(name):
        return min(value, 2)
    return VOCABULARY if "vocab_size" in name and not KEPT.search(name) and value > VOCABULARY else None


def small_list(name, values, size):
    """A list of sizes: depths become 1, heads small powers of two, widths keep their ratios."""
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values) or not values:
        return None
    if LISTS_OF_DEPTHS.search(name) and not KEPT.search(name):
        return [min(value, 1) for value in values]
    if "heads" in name:
        return [2 ** min(stage, 2) for stage in range(len(values))]
    if KEPT.search(name):
        return None
    if re.search("image|img|input_size|resolution", name):
        return [min(value, 32) for value in values]
    if "patch" in name:
        return [min(value, 8) for value in values]
    if "window" in name:
        return [min(value, 4) for value in values]
    if WIDTHS.search(name) and max(values) > WIDTH:
        if len(set(values)) == 1:
            return [WIDTH] * len(values)
        factor = 16 if name.startswith(("stage_", "stem_")) or max(values) >= 1024 else max(values) / 64
        return [value if value <= 4 else max(8, int(value / factor) // 8 * 8) for value in values]
    return None


def picks(layers):
    """Which layers stay: one of each kind, in order, four at most."""
    found = sorted({str(kind): place for place, kind in reversed(list(enumerate(layers)))}.values())[:4]
    return found if len(found) > 1 else list(range(min(DEPTH, len(layers))))


def attribute(whole, name, default=None):
    """An attribute of a configuration; the default where it differs from layer to layer."""
    try:
        return getattr(whole, name, default)
    except Exception:
        return default


def declared(kind):
    """Fields of a configuration class and their defaults; None for those that the class works out itself."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    return {
        name: field.default
        if field.default is not dataclasses.MISSING
        else (field.default_factory() if field.default_factory is not dataclasses.MISSING else None)
        for name, field in fields.items()
    }


def small(kind, level=0, **overrides):
    """A configuration of class `kind`."""
    return kind(**small_values(kind(), level) | overrides)


def small_values(whole, level):
    size = (fixed, divided, only_layers)[level]
    defaults = declared(type(whole))
    values = {}
    count_name = next(
        (name for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if name in defaults), None
    )
    count = attribute(whole, count_name) if count_name else None
    kept = None
    for name in KINDS_OF_LAYERS:
        kinds = attribute(whole, name)
        if isinstance(kinds, (list, tuple)) and len(kinds) == count and len(set(map(str, kinds))) > 1:
            kept = picks(kinds if kept is None else [kinds[place] for place in range(count)])
            break
    for name, default in defaults.items():
        value = attribute(whole, name, default)
        if hasattr(value, "to_dict") and hasattr(type(value), "model_type"):
            values[name] = small_values(value, level) | {"model_type": value.model_type}
        elif (
            isinstance(value, (list, tuple))
            and count
            and len(value) == count
            and not KEPT.search(name)
            and default is None
            or (name in KINDS_OF_LAYERS and isinstance(value, (list, tuple)) and len(value) == count)
        ):
            values[name] = [value[place] for place in (kept or range(min(DEPTH, count)))]
        elif isinstance(value, (bool, str, float)) or default is None and not isinstance(value, (list, tuple)):
            continue
        elif isinstance(value, int):
            new = size(name, value)
            if new is not None:
                values[name] = new
        elif isinstance(value, (list, tuple)) and level < 2:
            new = small_list(name, list(value), size)
            if new is not None:
                values[name] = type(value)(new)
    if count_name and count:
        values[count_name] = len(kept) if kept else min(DEPTH, count)
    heads = attribute(whole, "num_attention_heads")
    if heads and attribute(whole, "num_key_value_heads") == heads and "num_attention_heads" in values:
        values["num_key_value_heads"] = values["num_attention_heads"]
    if "depths" in defaults and level < 2:  # Halves its images from stage to stage.
        for name, edge in (("image_size", 64), ("window_size", 2)):
            if isinstance(attribute(whole, name), int) and name in defaults:
                values[name] = edge
    if attribute(whole, "out_features"):  # A backbone, which hands out what these stages give.
        values["out_features"] = [f"stage{values[count_name]}"] if count_name in values else list(whole.out_features)
    rope = attribute(whole, "rope_parameters") or {}
    if "mrope_section" in rope and "head_dim" in values or "mrope_section" in rope and level == 0:
        values["rope_parameters"] = rope | {"mrope_section": [2, 1, 1]}  # Half of HEAD_WIDTH in three parts.
    if "fullatt_block_indexes" in defaults:
        values |= {"window_size": 32, "fullatt_block_indexes": [1]}  # In pixels: two by two merged patches.
    if "width_coefficient" in defaults:  # All its widths times this.
        values = {name: value for name, value in values.items() if not isinstance(value, (list, tuple))}
        values |= {"width_coefficient": 0.25, "depth_coefficient": 0.1, "hidden_dim": 320}
    return values
