#!/usr/bin/env python3
"""ONNX files of encoder layers to time: one of BERT-large, which norms behind its additions, and one of ViT-L, which norms
in front. What bench/peers/blocks_torch.py times through torch as BertLayer_B16_S512 and ViTLayer_B32_S257.

Usage: encoders.py FOLDER, which gets bert_layer.onnx and vit_layer.onnx; bench/blocks/compare.py times them with
--encoders FOLDER. bf16, 16 heads of 64, weights as inputs.
"""
import pathlib
import sys

from onnx import TensorProto, helper, numpy_helper, save
import numpy as np

BF16 = TensorProto.BFLOAT16
HIDDEN, HEADS, WIDE = 1024, 16, 4096


class Layer:
    """Nodes one by one; each `emit` gives its result's name."""

    def __init__(self, batch, tokens):
        self.batch, self.tokens = batch, tokens
        self.nodes, self.inputs, self.constants = [], [self.info("x", [batch, tokens, HIDDEN])], []

    @staticmethod
    def info(name, shape):
        return helper.make_tensor_value_info(name, BF16, shape)

    def emit(self, op, *operands, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        return name

    def parameter(self, name, *shape):
        self.inputs.append(self.info(name, shape))
        return name

    def shape(self, *sizes):
        name = f"shape{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(sizes, np.int64), name))
        return name

    def linear(self, x, name, inner, outer):
        product = self.emit("MatMul", x, self.parameter(f"{name}_weight", inner, outer))
        return self.emit("Add", product, self.parameter(f"{name}_bias", outer))

    def norm(self, x, name):
        return self.emit("LayerNormalization", x, self.parameter(f"{name}_weight", HIDDEN),
                         self.parameter(f"{name}_bias", HIDDEN), axis=-1, epsilon=1e-5)

    def attention(self, x):
        size = HIDDEN // HEADS
        q, k, v = (
            self.emit("Transpose",
                      self.emit("Reshape", self.linear(x, name, HIDDEN, HIDDEN),
                                self.shape(self.batch, self.tokens, HEADS, size)), perm=order)
            for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        )
        scale = helper.make_tensor("scale", BF16, [], [size**-0.5])
        self.constants.append(scale)
        weights = self.emit("Softmax", self.emit("Mul", self.emit("MatMul", q, k), "scale"), axis=-1)
        merged = self.emit("Transpose", self.emit("MatMul", weights, v), perm=[0, 2, 1, 3])
        return self.linear(self.emit("Reshape", merged, self.shape(self.batch, self.tokens, HIDDEN)), "o", HIDDEN, HIDDEN)

    def feed_forward(self, x):
        return self.linear(self.emit("Gelu", self.linear(x, "up", HIDDEN, WIDE)), "down", WIDE, HIDDEN)

    def model(self, y):
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        outputs = [self.info("y", [self.batch, self.tokens, HIDDEN])]
        graph = helper.make_graph(self.nodes, "layer", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def bert(batch, tokens):
    layer = Layer(batch, tokens)
    x = layer.norm(layer.emit("Add", "x", layer.attention("x")), "n1")
    return layer.model(layer.norm(layer.emit("Add", x, layer.feed_forward(x)), "n2"))


def vit(batch, tokens):
    layer = Layer(batch, tokens)
    x = layer.emit("Add", "x", layer.attention(layer.norm("x", "n1")))
    return layer.model(layer.emit("Add", x, layer.feed_forward(layer.norm(x, "n2"))))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    save(bert(16, 512), folder / "bert_layer.onnx")
    save(vit(32, 257), folder / "vit_layer.onnx")


if __name__ == "__main__":
    main()
