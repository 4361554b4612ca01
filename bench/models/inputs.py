"""Inputs of a model of transformers, from what its `forward` takes: seeded, of sizes that no tile divides."""

import inspect

import torch

from small_config import attribute

BATCH, TOKENS, DECODER_TOKENS = 2, 9, 5
CONSTANT = ("grid_thw", "image_grid_thw", "spatial_shapes")  # Sizes of images: part of the file, not inputs of it.


def find(config, *names, default=None):
    """The first of these attributes in a configuration or, behind it, in its parts."""
    for name in names:
        value = attribute(config, name)
        if value is not None:
            return value
    for part in vars(config).values():
        if hasattr(part, "to_dict"):
            value = find(part, *names)
            if value is not None:
                return value
    return default


def tokens(config, length, batch=BATCH):
    """Ids of words, none of a special token's."""
    return torch.randint(3, min(int(find(config, "vocab_size", default=99)), 79), (batch, length))


def padded_mask(length, batch=BATCH):
    """All rows but the last are whole; that one ends two tokens early."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -2:] = 0
    return mask


def image_size(config):
    size = find(config, "image_size", "img_size", "input_size", default=64)
    size = size if isinstance(size, (list, tuple)) else (size, size)
    return tuple(int(edge) for edge in size[-2:]) if size[0] else (64, 64)


def images(config, *size):
    channels = find(config, "num_channels", "in_channels", "in_chans", default=3)
    channels = channels if isinstance(channels, int) else 3
    return torch.randn(BATCH, channels, *(size or image_size(config)))


def of_images(config):
    height, width = image_size(config)
    frames = find(config, "num_frames", default=2)
    yield images(config)
    yield images(config, 64, 64)
    yield images(config, 32, 32)
    yield torch.randn(BATCH, frames, 3, height, width)
    yield torch.randn(BATCH, 3, frames, height, width)
    yield images(config, 128, 128)
    yield images(config, 224, 224)
    yield torch.randn(1, 1, 3, height, width)


def of_features(config):
    mels = find(
        config,
        "num_mel_bins",
        "feature_size",
        "input_feat_per_channel",
        "n_mels",
        "input_dim",
        "feature_projection_input_dim",
        default=80,
    )
    positions = find(config, "max_source_positions", default=32)
    yield torch.randn(BATCH, mels, 2 * positions)
    yield torch.randn(BATCH, 37, mels)
    yield torch.randn(BATCH, mels, 64)
    yield torch.randn(1, 100, mels)


def of_samples(config):
    yield torch.randn(BATCH, 1600)
    yield torch.randn(BATCH, 1, 1920)
    yield torch.randn(BATCH, find(config, "max_length", default=64), find(config, "num_mel_bins", default=16))
    yield torch.randn(BATCH, 8000)
    yield torch.randn(BATCH, 1, 8000)


def of_series(config):
    channels, length = find(config, "num_input_channels", default=1), find(config, "context_length", default=32)
    yield torch.randn(BATCH, length, channels)
    yield torch.randn(BATCH, length)
    yield torch.randn(BATCH, length + max(find(config, "lags_sequence", default=[0])))


def candidates(model):
    """Dictionaries of inputs to try, the likeliest first."""
    config, takes = model.config, inspect.signature(model.forward).parameters
    main = model.main_input_name
    decoder = {}
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        decoder["decoder_input_ids"] = tokens(config, DECODER_TOKENS)
    if "input_ids" in takes and main in ("input_ids", None):
        text = {"input_ids": tokens(config, TOKENS)}
        mask = {"attention_mask": padded_mask(TOKENS)} if "attention_mask" in takes else {}
        if "bbox" in takes:
            corners = torch.randint(0, 30, (BATCH, TOKENS, 2))
            mask["bbox"] = torch.cat([corners, corners + torch.randint(1, 30, corners.shape)], -1)
        if "pixel_values" in takes and "image_token_id" not in vars(config) and "image_token_index" not in vars(config):
            for pixels in of_images(config):
                yield text | mask | {"pixel_values": pixels} | decoder
        if "visual_feats" in takes:
            features = {
                "visual_feats": torch.randn(BATCH, 7, config.visual_feat_dim),
                "visual_pos": torch.rand(BATCH, 7, 4),
            }
            yield text | mask | features
        yield text | mask | decoder
        yield text | decoder
        if "input_features" in takes:
            for features in of_features(config):
                yield text | mask | {"input_features": features}
        longer = 64
        yield (
            {"input_ids": tokens(config, longer)} | ({"attention_mask": padded_mask(longer)} if mask else {}) | decoder
        )
        return
    more = {}
    if "task_inputs" in takes:
        more["task_inputs"] = tokens(config, TOKENS)
    if (
        "input_ids" in takes
        and takes["input_ids"].default is inspect.Parameter.empty
        or main == "pixel_values"
        and ("input_ids" in takes and hasattr(config, "text_config"))
    ):
        more |= {"input_ids": tokens(config, TOKENS), "attention_mask": padded_mask(TOKENS)}
    grid = next((name for name in ("grid_thw", "image_grid_thw") if name in takes), None)
    if grid and main == "pixel_values" or "hidden_states" in takes and grid:
        flat = find(config, "in_channels", "in_chans", "num_channels", default=3) * config.patch_size**2
        for width in (flat * find(config, "temporal_patch_size", default=2), flat):
            yield {next(iter(takes)): torch.randn(16, width), grid: torch.tensor([[1, 4, 4]])}
        return
    kinds = {
        "pixel_values": of_images,
        "pixel_values_videos": of_images,
        "input_features": of_features,
        "input_values": of_samples,
        "past_values": of_series,
        "audio_mel": of_features,
        "audio_values": of_samples,
        "latents": of_features,
    }
    main = main if main in kinds else next((name for name in takes if name in kinds), None)
    if not main:
        return
    for value in kinds[main](config):
        batch = value.shape[0]
        given = (
            {main: value}
            | {name: more[name][:batch] for name in more}
            | {name: decoder[name][:batch] for name in decoder}
        )
        if "noise" in takes and "mask_ratio" in vars(config):
            given["noise"] = torch.rand(
                batch, (value.shape[-1] // config.patch_size) * (value.shape[-2] // config.patch_size)
            )
        if main == "past_values":
            if "past_time_features" in takes:
                if value.ndim > 2:
                    continue
                features, ahead = config.num_time_features, config.prediction_length
                given |= {
                    "past_time_features": torch.randn(*value.shape, features),
                    "past_observed_mask": torch.ones_like(value),
                    "future_values": torch.randn(batch, ahead),
                    "future_time_features": torch.randn(batch, ahead, features),
                }
            yield given
            continue
        if "input_features_mask" in takes and main == "input_features":
            yield given | {"input_features_mask": torch.ones(batch, value.shape[-1], dtype=torch.int64)}
            yield given | {"input_features_mask": torch.ones(batch, value.shape[1], dtype=torch.int64)}
        yield given
    if main in ("pixel_values",) and "attention_mask" in takes and "spatial_shapes" in takes:
        patch, channels = config.patch_size, config.num_channels
        yield {
            "pixel_values": torch.randn(BATCH, 16, channels * patch * patch),
            "pixel_attention_mask" if "pixel_attention_mask" in takes else "attention_mask": torch.ones(
                BATCH, 16, dtype=torch.int64
            ),
            "spatial_shapes": torch.tensor([[4, 4]] * BATCH),
        }
