"""Cases of timm: its families, one or two blocks a stage."""

import importlib

import torch

from cases import Case, Refused, seed_weights, tensors

FAMILIES = {
    "vit_tiny_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "deit_tiny_distilled_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "deit3_small_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "beit_base_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "beitv2_base_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "eva02_tiny_patch14_224": dict(img_size=42, embed_dim=32, depth=2, num_heads=4),
    "vit_small_patch14_dinov2": dict(img_size=42, embed_dim=32, depth=2, num_heads=4),
    "vit_small_patch14_reg4_dinov2": dict(img_size=42, embed_dim=32, depth=2, num_heads=4),
    "vit_small_patch16_dinov3": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "vit_base_patch16_siglip_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "vit_relpos_small_patch16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "cait_xxs24_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "xcit_nano_12_p16_224": dict(img_size=48, embed_dim=32, depth=2, num_heads=4),
    "volo.VOLO": dict(
        img_size=64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2), stem_hidden_dim=8
    ),
    "swin_tiny_patch4_window7_224": dict(img_size=64, embed_dim=16, depths=(2, 2), num_heads=(2, 4), window_size=4),
    "swinv2_tiny_window8_256": dict(img_size=64, embed_dim=16, depths=(2, 2), num_heads=(2, 4), window_size=4),
    "twins_svt_small": dict(img_size=64, embed_dims=(16, 16, 32, 32), num_heads=(2, 2, 4, 4), depths=(1, 1, 1, 1)),
    "pvt_v2_b0": dict(depths=(1, 1, 1, 1), embed_dims=(8, 16, 32, 32), num_heads=(1, 2, 4, 4)),
    "test_maxvit": dict(img_size=64),
    "test_coatnet": dict(img_size=64),
    "convnext_atto": dict(depths=(1, 1, 1, 1), dims=(8, 16, 32, 64)),
    "convnextv2_atto": dict(depths=(1, 1, 1, 1), dims=(8, 16, 32, 64)),
    "focalnet.FocalNet": dict(depths=(1, 1, 1, 1), embed_dim=16),
    "metaformer.MetaFormer": dict(depths=(1, 1, 1, 1), dims=(8, 16, 32, 64)),
    "mlp_mixer.MlpMixer": dict(img_size=48, embed_dim=32, num_blocks=2),
    "gmlp_ti16_224": dict(img_size=48, embed_dim=32, num_blocks=2),
    "resnet18": dict(layers=(1, 1, 1, 1), channels=(8, 16, 32, 64)),
    "resnet50": dict(layers=(1, 1, 1, 1), channels=(8, 16, 16, 16)),
    "resnetv2_50": dict(layers=(1, 1, 1, 1), channels=(32, 32, 64, 64)),
    "resnext50_32x4d": dict(layers=(1, 1, 1, 1), channels=(32, 32, 32, 32)),
    "seresnet18": dict(layers=(1, 1, 1, 1), channels=(8, 16, 32, 64)),
    "regnety_002": {},
    "densenet121": dict(growth_rate=8, block_config=(2, 2, 2, 2)),
    "efficientnet_b0": dict(channel_multiplier=0.25, depth_multiplier=0.3),
    "test_efficientnet": {},
    "tf_efficientnet_lite0": dict(channel_multiplier=0.25, depth_multiplier=0.3),
    "mobilenetv2_050": {},
    "mobilenetv3_small_050": {},
    "mobilenetv4_conv_small_035": {},
    "mnasnet_small": {},
    "ghostnet_050": {},
    "mobileone_s0": {},
    "fastvit_t8": {},
    "mobilevit_xxs": {},
    "mobilevitv2_050": {},
    "edgenext_xx_small": {},
    "dla46_c": {},
    "res2net50_14w_8s": dict(layers=(1, 1, 1, 1), channels=(16, 16, 16, 16)),
    "hiera_tiny_224": dict(img_size=(64, 64), embed_dim=16, num_heads=1, stages=(1, 1, 1, 1)),
    "davit_tiny": dict(depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 64), num_heads=(2, 2, 2, 4)),
    "repvit_m0_9": {},
    "starnet_s1": {},
    "test_mambaout": {},
    "test_nfnet": {},
    "test_byobnet": {},
    "test_convnext3": {},
    "test_efficientnet_gn": {},
    "test_vit3": {},
}
MOST_WEIGHTS = 6_000_000


class Outputs(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return tensors(self.model(x))


def cases(name):
    import timm

    reasons = []
    for options in (FAMILIES[name], {key: value for key, value in FAMILIES[name].items() if key == "img_size"}, {}):
        try:
            torch.manual_seed(0)
            module, _, kind = name.partition(".")
            if kind:  # A class, whose functions do not let its sizes be chosen.
                model = getattr(importlib.import_module(f"timm.models.{module}"), kind)(num_classes=10, **options)
            else:
                model = timm.create_model(name, num_classes=10, **options)
            weights = sum(parameter.numel() for parameter in model.parameters())
            if weights > MOST_WEIGHTS:
                raise Refused(f"{weights / 1e6:.0f} million weights")
            edges = (options["img_size"],) if "img_size" in options else (64, 96, 224)
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        for edge in edges:
            edge = edge if isinstance(edge, int) else edge[0]
            x = torch.randn(2, 3, edge, edge)
            try:
                with torch.no_grad():
                    seed_weights(model)(x)
            except Exception as error:
                reasons.append(f"{type(error).__name__}: {error}")
                continue
            yield Case("plain", Outputs(model), {"x": x})
            return
    raise Refused(reasons[0])
