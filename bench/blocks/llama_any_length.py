#!/usr/bin/env python3
"""An ONNX file of a Llama-3.1-8B decoder block for any number of tokens: what bench/peers/blocks_torch.py times as
LlamaBlock. bf16, weights as inputs; the axis is named "tokens".

Usage: llama_any_length.py FILE [TOKENS], the latter for a file of one length.
"""
import sys

from onnx import TensorProto, helper, numpy_helper, save
import numpy as np

BF16 = TensorProto.BFLOAT16
HIDDEN, HEADS, SHARED, SIZE, WIDE = 4096, 32, 8, 128, 14336


class Block:
    """Nodes one by one; each `emit` gives its result's name."""

    def __init__(self, tokens):
        self.nodes, self.constants = [], []
        self.inputs = [self.info("x", [1, tokens, HIDDEN]), self.info("cos", [1, tokens, SIZE // 2]),
                       self.info("sin", [1, tokens, SIZE // 2])]

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

    def linear(self, x, name, inner, outer):
        """The weight as torch stores it, [outer, inner]."""
        weight = self.emit("Transpose", self.parameter(f"{name}_weight", outer, inner), perm=[1, 0])
        return self.emit("MatMul", x, weight)

    def norm(self, x, name):
        return self.emit("RMSNormalization", x, self.parameter(f"{name}_weight", HIDDEN), axis=-1, epsilon=1e-5)

    def heads(self, x, count):
        name = f"shape{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array([0, 0, count, SIZE], np.int64), name))
        return self.emit("Transpose", self.emit("Reshape", x, name), perm=[0, 2, 1, 3])

    def attention(self, x):
        q, k, v = (self.heads(self.linear(x, name, HIDDEN, count * SIZE), count)
                   for name, count in (("q", HEADS), ("k", SHARED), ("v", SHARED)))
        q, k = (self.emit("RotaryEmbedding", each, "cos", "sin") for each in (q, k))
        mixed = self.emit("Transpose", self.emit("Attention", q, k, v, is_causal=1), perm=[0, 2, 1, 3])
        self.constants.append(numpy_helper.from_array(np.array([0, 0, HIDDEN], np.int64), "rows"))
        return self.linear(self.emit("Reshape", mixed, "rows"), "o", HIDDEN, HIDDEN)

    def feed(self, x):
        gate = self.linear(x, "gate", HIDDEN, WIDE)
        gated = self.emit("Mul", self.emit("Mul", gate, self.emit("Sigmoid", gate)), self.linear(x, "up", HIDDEN, WIDE))
        return self.linear(gated, "down", WIDE, HIDDEN)


def main():
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else "tokens"
    block = Block(tokens)
    x = block.emit("Add", "x", block.attention(block.norm("x", "n1")))
    y = block.emit("Add", x, block.feed(block.norm(x, "n2")))
    graph = helper.make_graph(block.nodes, "llama_block", block.inputs, [Block.info(y, [1, tokens, HIDDEN])],
                              block.constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]), sys.argv[1])


if __name__ == "__main__":
    main()
