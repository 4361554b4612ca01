#!/usr/bin/env python3
"""Writes one Llama-shaped block three times with the same weights of 4 bits: llama_block.onnx, whose weights are inputs,
beside the checkpoints llama_gptq and llama_awq, which AutoGPTQ and AutoAWQ pack, and llama_nbits.onnx with ONNX Runtime's
MatMulNBits; and what ONNX Runtime's CPU provider computes of the last, llama_expected.safetensors. The files are committed.

Needs what write_checkpoints.py needs, onnx and onnxruntime. Usage: write_llama_block.py [FOLDER]
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from write_checkpoints import Folder

ROWS, HIDDEN, HEADS, KV_HEADS, SIZE, INNER, GROUP = 5, 64, 6, 2, 16, 160, 32
LINEARS = {"self_attn.q_proj": (HEADS * SIZE, HIDDEN), "self_attn.k_proj": (KV_HEADS * SIZE, HIDDEN), "self_attn.v_proj": (KV_HEADS * SIZE, HIDDEN),
           "self_attn.o_proj": (HIDDEN, HEADS * SIZE), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
NORMS = ("input_layernorm", "post_attention_layernorm")
rng = np.random.default_rng(33)


class Linear:
    """Codes, zeros and scales [N, K / GROUP]; 15 among the codes, whose words are negative."""

    def __init__(self, n, k):
        self.n, self.k = n, k
        self.codes = rng.integers(0, 16, (n, k))
        self.codes[:, 7::8] |= 8
        self.zeros = rng.integers(1, 16, (n, k // GROUP))
        self.scales = rng.uniform(0.004, 0.02, (n, k // GROUP)).astype(np.float16)

    def rounded(self):
        """The torch layer that packing finds these codes in."""
        layer = torch.nn.Linear(self.k, self.n, bias=False)
        steps = self.codes - np.repeat(self.zeros, GROUP, 1)
        layer.weight.data = torch.tensor(steps * np.repeat(self.scales, GROUP, 1).astype(np.float64)).float()
        return layer


class Block:
    """The block's graph; `project` says how a linear is written."""

    def __init__(self, linears, norms, project):
        self.nodes, self.initializers, self.inputs = [], [], [self.info("x", (ROWS, HIDDEN))]
        self.linears, self.norms, self.project = linears, norms, project

    @staticmethod
    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def op(self, kind, *operands, outputs=1, **attributes):
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, [self.value(one) for one in operands], names, **attributes))
        return names[0] if outputs == 1 else names

    def value(self, operand):
        return operand if isinstance(operand, str) else self.stored(f"c{len(self.initializers)}", operand)

    def stored(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return np.array(values, np.int64)

    def norm(self, x, name):
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.ints(-1), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, np.float32(1e-5)))
        return self.op("Mul", self.op("Div", x, root), self.norm_weight(f"{name}.weight"))

    def norm_weight(self, name):
        if self.project == "nbits":
            return self.stored(name, self.norms[name].astype(np.float32))
        self.inputs.append(self.info(name, (HIDDEN,)))
        return name

    def linear(self, x, name):
        linear = self.linears[name]
        if self.project == "inputs":
            self.inputs.append(self.info(f"{name}.weight", (linear.n, linear.k)))
            return self.op("MatMul", x, self.op("Transpose", f"{name}.weight", perm=[1, 0]))
        halves = linear.codes.reshape(linear.n, -1, GROUP // 2, 2)
        packed = (halves[..., 0] | halves[..., 1] << 4).astype(np.uint8)
        zeros = np.pad(linear.zeros, [(0, 0), (0, linear.zeros.shape[1] % 2)])
        zeros = (zeros[:, ::2] | zeros[:, 1::2] << 4).astype(np.uint8)
        operands = [self.stored(f"{name}.{part}", data) for part, data in
                    (("q", packed), ("s", linear.scales.astype(np.float32).reshape(-1)), ("z", zeros.reshape(-1)))]
        return self.op("MatMulNBits", x, *operands, domain="com.microsoft", K=linear.k, N=linear.n, bits=4, block_size=GROUP)

    def heads(self, x, count):
        return self.op("Transpose", self.op("Reshape", x, self.ints(ROWS, count, SIZE)), perm=[1, 0, 2])

    def rotated(self, x):
        angles = np.arange(ROWS)[:, None] * 10000.0 ** (-np.arange(0, SIZE, 2) / SIZE)
        angles = np.concatenate([angles, angles], 1).astype(np.float32)
        low, high = self.op("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = self.op("Concat", self.op("Neg", high), low, axis=-1)
        return self.op("Add", self.op("Mul", x, np.cos(angles)), self.op("Mul", turned, np.sin(angles)))

    def shared(self, x):
        """Each head of the keys beside itself, for the queries that read it."""
        return self.op("Gather", x, np.repeat(np.arange(KV_HEADS), HEADS // KV_HEADS), axis=0)

    def attention(self, x):
        q = self.rotated(self.heads(self.linear(x, "self_attn.q_proj"), HEADS))
        k = self.shared(self.rotated(self.heads(self.linear(x, "self_attn.k_proj"), KV_HEADS)))
        v = self.shared(self.heads(self.linear(x, "self_attn.v_proj"), KV_HEADS))
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 2, 1])), np.float32(SIZE**-0.5))
        mask = np.triu(np.full((ROWS, ROWS), -np.inf, np.float32), 1)
        rows = self.op("MatMul", self.op("Softmax", self.op("Add", scores, mask), axis=-1), v)
        return self.linear(self.op("Reshape", self.op("Transpose", rows, perm=[1, 0, 2]), self.ints(ROWS, HEADS * SIZE)), "self_attn.o_proj")

    def feed_forward(self, x):
        gate = self.linear(x, "mlp.gate_proj")
        inner = self.op("Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), self.linear(x, "mlp.up_proj"))
        return self.linear(inner, "mlp.down_proj")

    def model(self):
        x = self.op("Add", "x", self.attention(self.norm("x", NORMS[0])))
        y = self.op("Add", x, self.feed_forward(self.norm(x, NORMS[1])))
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        graph = helper.make_graph(self.nodes, "block", self.inputs, [self.info("y", (ROWS, HIDDEN))], self.initializers)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def packed_by_gptq(linear):
    from auto_gptq.nn_modules.qlinear.qlinear_cuda import QuantLinear

    packed = QuantLinear(4, GROUP, linear.k, linear.n, False)
    packed.pack(linear.rounded(), torch.tensor(linear.scales).float(), torch.tensor(linear.zeros).float())
    return dict(qweight=packed.qweight, qzeros=packed.qzeros, scales=packed.scales.half(), g_idx=packed.g_idx)


def packed_by_awq(linear):
    from awq.modules.linear.gemm import WQLinear_GEMM

    packed = WQLinear_GEMM.from_linear(linear.rounded(), 4, GROUP, scales=torch.tensor(linear.scales.T.copy()), zeros=torch.tensor(linear.zeros.T.copy()))
    return dict(qweight=packed.qweight, qzeros=packed.qzeros, scales=packed.scales)


def checkpoint(root, name, config, linears, norms, pack):
    folder = Folder(root / "checkpoints", name, config | {"bits": 4, "group_size": GROUP})
    for layer, linear in linears.items():
        folder.add(f"model.layers.0.{layer}", pack(linear), linear.rounded().weight.data.half())
    folder.tensors.update({f"model.layers.0.{norm}": torch.tensor(weight) for norm, weight in norms.items()})
    folder.expected = {}
    folder.write()
    (folder.path / "expected.safetensors").unlink()


def write(root):
    linears = {name: Linear(*shape) for name, shape in LINEARS.items()}
    norms = {f"{name}.weight": rng.uniform(0.5, 1.5, HIDDEN).astype(np.float16) for name in NORMS}
    checkpoint(root, "llama_gptq", {"quant_method": "gptq", "desc_act": False, "sym": False}, linears, norms, packed_by_gptq)
    checkpoint(root, "llama_awq", {"quant_method": "awq", "zero_point": True, "version": "gemm"}, linears, norms, packed_by_awq)
    onnx.save(Block(linears, norms, "inputs").model(), root / "llama_block.onnx")
    onnx.save(Block(linears, norms, "nbits").model(), root / "llama_nbits.onnx")
    x = rng.uniform(-1, 1, (ROWS, HIDDEN)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(root / "llama_nbits.onnx"), providers=["CPUExecutionProvider"])
    save_file({"x": x, "y": session.run(None, {"x": x})[0]}, root / "llama_expected.safetensors")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
