#!/usr/bin/env python3
"""ONNX files of convolutions to time, as exporters write them: what bench/peers/convolutions_torch.py times through cuDNN.

Usage: convolutions.py FOLDER, which gets NAME.onnx for each; then, on the machine to measure,

  for model in FOLDER/*.onnx; do kfuse bench block $model --json --params '*weight*' --params '*bias*'; done

NAME.nchw takes and gives images as PyTorch's channels-first tensors lie in memory; NAME.nhwc has them with their channels
last, which the Transposes around Conv say, as between the layers of a network. Patches become tokens [N, P, C] instead, in
front of a transformer. All in bf16, with bias.
"""
import pathlib
import sys

from onnx import TensorProto, helper, save

BF16 = TensorProto.BFLOAT16
# Name: images, channels, sizes, results, kernel, stride, pad, groups.
CONVOLUTIONS = {
    "patches_vit_l_14": (32, 3, (224, 224), 1024, 14, 14, 0, 1),
    "patches_vit_l_16": (32, 3, (224, 224), 1024, 16, 16, 0, 1),
    "resnet_56x56x64": (32, 64, (56, 56), 64, 3, 1, 1, 1),
    "resnet_28x28x128": (32, 128, (28, 28), 128, 3, 1, 1, 1),
    "resnet_14x14x256": (32, 256, (14, 14), 256, 3, 1, 1, 1),
    "resnet_7x7x512": (32, 512, (7, 7), 512, 3, 1, 1, 1),
    "whisper_stem_1": (1, 80, (3000,), 1024, 3, 1, 1, 1),
    "whisper_stem_2": (1, 1024, (3000,), 1024, 3, 2, 1, 1),
    "convnext_depthwise_7x7": (32, 96, (56, 56), 96, 7, 1, 3, 96),
    "mamba_causal_4": (1, 4096, (2048,), 4096, 4, 1, 3, 4096),
}


def info(name, shape):
    return helper.make_tensor_value_info(name, BF16, shape)


def convolution(images, channels, sizes, results, kernel, stride, pad, groups, moved_in=False, moved_out=False):
    """With its channels last on the way in, on the way out."""
    rank = len(sizes)
    first = [0, rank + 1, *range(1, rank + 1)]  # Channels to the front.
    last = [0, *range(2, rank + 2), 1]
    outputs = [(size + 2 * pad - kernel) // stride + 1 for size in sizes]
    x, y = [images, channels, *sizes], [images, results, *outputs]
    attributes = {
        "kernel_shape": [kernel] * rank,
        "strides": [stride] * rank,
        "pads": [pad] * 2 * rank,
        "group": groups,
    }
    names = ("moved" if moved_in else "x", "convolved" if moved_out else "y")
    nodes = [helper.make_node("Conv", [names[0], "weight", "bias"], [names[1]], **attributes)]
    if moved_in:
        x = [x[i] for i in last]
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["moved"], perm=first))
    if moved_out:
        y = [y[i] for i in last]
        nodes.append(helper.make_node("Transpose", ["convolved"], ["y"], perm=last))
    weights = [results, channels // groups, *[kernel] * rank]
    inputs = [info("x", x), info("weight", weights), info("bias", [results])]
    graph = helper.make_graph(nodes, "convolution", inputs, [info("y", y)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def product(rows, columns, depth):
    """What a patch embedding multiplies, of patches that lie in memory row by row."""
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    inputs = [info("x", [rows, depth]), info("weight", [depth, columns]), info("bias", [columns])]
    graph = helper.make_graph(nodes, "product", inputs, [info("y", [rows, columns])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def copy(elements):
    """The traffic of a depthwise convolution."""
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "copy", [info("x", [elements])], [info("y", [elements])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes in CONVOLUTIONS.items():
        save(convolution(*sizes), folder / f"{name}.nchw.onnx")
        if name.startswith("patches"):
            save(convolution(*sizes, moved_out=True), folder / f"{name}.tokens.onnx")
        else:
            save(convolution(*sizes, moved_in=True, moved_out=True), folder / f"{name}.nhwc.onnx")
    for patch in (14, 16):
        save(product(32 * (224 // patch) ** 2, 1024, 3 * patch * patch), folder / f"patches_vit_l_{patch}.product.onnx")
    save(copy(32 * 96 * 56 * 56), folder / "convnext_depthwise_7x7.copy.onnx")


if __name__ == "__main__":
    main()
