"""Cases of diffusers: the blocks of its U-Nets and transformers, and whole small ones."""

import torch

from cases import Case, seed_weights, tensors

X, TIME, TEXT = (2, 32, 8, 8), (2, 64), (2, 7, 32)


def unet(**options):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        cross_attention_dim=32,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **options,
    )


def blocks():
    """Name: how to make it, shapes of its inputs (an int is an id below 100, drawn once)."""
    import diffusers
    from diffusers.models import attention, resnet
    from diffusers.models.attention_processor import Attention
    from diffusers.models.transformers import transformer_2d
    from diffusers.models.unets import unet_2d_blocks as parts

    coder = dict(
        sample_size=16,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    channels = dict(in_channels=32, temb_channels=64)
    return {
        "ResnetBlock2D": (lambda: resnet.ResnetBlock2D(groups=8, **channels), dict(x=X, temb=TIME)),
        "ResnetBlock2D scale_shift": (
            lambda: resnet.ResnetBlock2D(groups=8, time_embedding_norm="scale_shift", **channels),
            dict(x=X, temb=TIME),
        ),
        "ResnetBlock2D down": (lambda: resnet.ResnetBlock2D(groups=8, down=True, **channels), dict(x=X, temb=TIME)),
        "ResnetBlock2D up": (lambda: resnet.ResnetBlock2D(groups=8, up=True, **channels), dict(x=X, temb=TIME)),
        "Downsample2D": (lambda: resnet.Downsample2D(32, use_conv=True), dict(x=X)),
        "Upsample2D": (lambda: resnet.Upsample2D(32, use_conv=True), dict(x=X)),
        "Attention": (
            lambda: Attention(32, heads=4, dim_head=8, norm_num_groups=8, residual_connection=True, bias=True),
            dict(x=X),
        ),
        "Attention cross": (
            lambda: Attention(32, cross_attention_dim=32, heads=4, dim_head=8),
            dict(x=(2, 64, 32), context=TEXT),
        ),
        "BasicTransformerBlock": (
            lambda: attention.BasicTransformerBlock(32, 4, 8, cross_attention_dim=32),
            dict(x=(2, 64, 32), attention_mask=None, encoder_hidden_states=TEXT),
        ),
        "FeedForward geglu": (lambda: attention.FeedForward(32, activation_fn="geglu"), dict(x=(2, 64, 32))),
        "Transformer2DModel": (
            lambda: transformer_2d.Transformer2DModel(4, 8, in_channels=32, norm_num_groups=8, cross_attention_dim=32),
            dict(x=X, context=TEXT),
        ),
        "UNetMidBlock2D": (
            lambda: parts.UNetMidBlock2D(attention_head_dim=8, resnet_groups=8, **channels),
            dict(x=X, temb=TIME),
        ),
        "UNetMidBlock2DCrossAttn": (
            lambda: parts.UNetMidBlock2DCrossAttn(
                resnet_groups=8, num_attention_heads=4, cross_attention_dim=32, **channels
            ),
            dict(x=X, temb=TIME, context=TEXT),
        ),
        "CrossAttnDownBlock2D": (
            lambda: parts.CrossAttnDownBlock2D(
                out_channels=32, resnet_groups=8, num_attention_heads=4, cross_attention_dim=32, **channels
            ),
            dict(x=X, temb=TIME, context=TEXT),
        ),
        "AttnDownBlock2D": (
            lambda: parts.AttnDownBlock2D(out_channels=32, resnet_groups=8, attention_head_dim=8, **channels),
            dict(x=X, temb=TIME),
        ),
        "AutoencoderKL": (lambda: diffusers.AutoencoderKL(**coder), dict(x=(2, 3, 16, 16))),
        "AutoencoderKL encoder": (lambda: diffusers.AutoencoderKL(**coder).encoder, dict(x=(2, 3, 16, 16))),
        "AutoencoderKL decoder": (lambda: diffusers.AutoencoderKL(**coder).decoder, dict(x=(2, 4, 8, 8))),
        "AutoencoderTiny": (
            lambda: diffusers.AutoencoderTiny(
                encoder_block_out_channels=(16, 16, 16, 16),
                decoder_block_out_channels=(16, 16, 16, 16),
                num_encoder_blocks=(1, 1, 1, 1),
                num_decoder_blocks=(1, 1, 1, 1),
            ),
            dict(x=(2, 3, 16, 16)),
        ),
        "VQModel": (
            lambda: diffusers.VQModel(
                block_out_channels=(16, 32),
                norm_num_groups=8,
                num_vq_embeddings=12,
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
            ),
            dict(x=(2, 3, 16, 16)),
        ),
        "UNet2DModel": (
            lambda: diffusers.UNet2DModel(
                sample_size=16,
                block_out_channels=(16, 32),
                layers_per_block=1,
                norm_num_groups=8,
                attention_head_dim=8,
                down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            ),
            dict(x=(2, 3, 16, 16), timestep=2),
        ),
        "UNet2DConditionModel": (unet, dict(x=(2, 4, 8, 8), timestep=2, context=TEXT)),
        "UNet2DConditionModel linear": (
            lambda: unet(use_linear_projection=True),
            dict(x=(2, 4, 8, 8), timestep=2, context=TEXT),
        ),
        "DiTTransformer2DModel": (
            lambda: diffusers.DiTTransformer2DModel(
                num_attention_heads=4,
                attention_head_dim=8,
                in_channels=4,
                num_layers=2,
                sample_size=8,
                patch_size=2,
                num_embeds_ada_norm=100,
                norm_num_groups=8,
            ),
            dict(x=(2, 4, 8, 8), timestep=2, class_labels=2),
        ),
        "PixArtTransformer2DModel": (
            lambda: diffusers.PixArtTransformer2DModel(
                num_attention_heads=4,
                attention_head_dim=8,
                num_layers=2,
                sample_size=8,
                cross_attention_dim=32,
                caption_channels=32,
                norm_num_groups=8,
                use_additional_conditions=False,
            ),
            dict(x=(2, 4, 8, 8), encoder_hidden_states=TEXT, timestep=2),
        ),
        "SD3Transformer2DModel": (
            lambda: diffusers.SD3Transformer2DModel(
                sample_size=8,
                in_channels=4,
                num_layers=2,
                attention_head_dim=8,
                num_attention_heads=4,
                joint_attention_dim=32,
                caption_projection_dim=32,
                pooled_projection_dim=64,
                out_channels=4,
                pos_embed_max_size=8,
            ),
            dict(x=(2, 4, 8, 8), encoder_hidden_states=TEXT, pooled_projections=TIME, timestep=2),
        ),
        "FluxTransformer2DModel": (
            lambda: diffusers.FluxTransformer2DModel(
                in_channels=4,
                num_layers=1,
                num_single_layers=1,
                attention_head_dim=16,
                num_attention_heads=2,
                joint_attention_dim=32,
                pooled_projection_dim=64,
                axes_dims_rope=(4, 4, 8),
            ),
            dict(
                hidden_states=(2, 16, 4),
                encoder_hidden_states=TEXT,
                pooled_projections=TIME,
                timestep=(2,),
                img_ids=(16, 3),
                txt_ids=(7, 3),
            ),
        ),
        "ControlNetModel": (
            lambda: diffusers.ControlNetModel(
                in_channels=4,
                block_out_channels=(16, 32),
                layers_per_block=1,
                norm_num_groups=8,
                cross_attention_dim=32,
                attention_head_dim=8,
                conditioning_embedding_out_channels=(8, 16),
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            ),
            dict(x=(2, 4, 8, 8), timestep=2, context=TEXT, controlnet_cond=(2, 3, 16, 16)),
        ),
    }


# How the forward of some names what a case calls by its role.
RENAMED = {
    "BasicTransformerBlock": {"x": "hidden_states"},
    "Transformer2DModel": {"x": "hidden_states", "context": "encoder_hidden_states"},
    "UNetMidBlock2D": {"x": "hidden_states"},
    "UNetMidBlock2DCrossAttn": {"x": "hidden_states", "context": "encoder_hidden_states"},
    "CrossAttnDownBlock2D": {"x": "hidden_states", "context": "encoder_hidden_states"},
    "AttnDownBlock2D": {"x": "hidden_states"},
    "Attention": {"x": "hidden_states"},
    "Attention cross": {"x": "hidden_states", "context": "encoder_hidden_states"},
    "ResnetBlock2D": {"x": "input_tensor"},
    "ResnetBlock2D scale_shift": {"x": "input_tensor"},
    "ResnetBlock2D down": {"x": "input_tensor"},
    "ResnetBlock2D up": {"x": "input_tensor"},
    "Downsample2D": {"x": "hidden_states"},
    "Upsample2D": {"x": "hidden_states"},
    "FeedForward geglu": {"x": "hidden_states"},
    "DiTTransformer2DModel": {"x": "hidden_states"},
    "PixArtTransformer2DModel": {"x": "hidden_states"},
    "SD3Transformer2DModel": {"x": "hidden_states"},
    "AutoencoderKL encoder": {"x": "sample"},
    "AutoencoderKL decoder": {"x": "sample"},
}


class Called(torch.nn.Module):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        return tensors(self.model(**dict(zip(self.names, values))))


def names():
    return list(blocks())


def cases(name):
    make, shapes = blocks()[name]
    torch.manual_seed(0)
    model = seed_weights(make())
    renamed = {"x": "sample", "context": "encoder_hidden_states"} | RENAMED.get(name, {})
    given = {}
    for role, shape in shapes.items():
        if shape is None:
            continue
        if isinstance(shape, int):
            value = torch.randint(0, 100, (shape,))
        else:
            value = torch.rand(shape) if role == "timestep" else torch.randn(shape)
        given[renamed.get(role, role)] = value
    yield Case("plain", Called(model, list(given)), given)
