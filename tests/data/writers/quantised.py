"""Weights and activations in 8, 4 and 2 bits. Expected are NumPy's numbers, in f64 from the integers on, and where ONNX
Runtime has a CPU kernel it must agree."""
import numpy as np
from onnx import TensorProto, helper

from writers.cases import Cases, by_runtime
from writers.model import F32, info, node, noise, rng, tensor, write

CONTRIB = "com.microsoft"


def small_integers(bits, *shape, signed=False):
    low = -(1 << bits - 1) if signed else 0
    return rng.integers(low, low + (1 << bits), shape)


def packed(values, bits):
    """Rows of integers in bytes, the first in the low bits of its byte."""
    per_byte = 8 // bits
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % per_byte)]
    parts = np.pad(values, padding).reshape(*values.shape[:-1], -1, per_byte)
    return (parts << (np.arange(per_byte) * bits)).sum(-1).astype(np.uint8)


def of_type(name, values, kind):
    """A tensor of an ONNX type that NumPy lacks."""
    return helper.make_tensor(name, kind, values.shape, values.flatten().tolist())


def spread(blocks, sizes, shape):
    """One value for each element of `shape` from one for each block of `sizes`."""
    for axis, size in enumerate(sizes):
        blocks = np.repeat(blocks, size, axis)
    return blocks[tuple(slice(0, size) for size in shape)]


class QuantisedCases(Cases):
    """Cases whose operands may be tensors of any ONNX type, compared with ONNX Runtime."""

    def check(self, name, nodes, expected, result="y", runs=True, near=1e-5, **operands):
        tensors = [value if isinstance(value, TensorProto) else tensor(key, value) for key, value in operands.items()]
        if runs:
            found = by_runtime(nodes, result, tensors, self.opset)
            assert np.allclose(found, expected, near, near), (name, np.abs(found - expected).max())
        self.append(name, nodes, tensors, expected, result)


def dequantize(cases):
    def add(name, q, scales, zeros, sizes, kind, runs=True, **flags):
        operands = dict(q=of_type("q", q, kind), s=scales)
        inputs = ["q", "s"]
        zero = 0
        if zeros is not None:
            operands["z"] = of_type("z", zeros, kind)
            inputs.append("z")
            zero = spread(zeros.reshape(scales_shape(scales, sizes, q.shape)), sizes, q.shape)
        wide = spread(scales.reshape(scales_shape(scales, sizes, q.shape)).astype(np.float64), sizes, q.shape)
        cases.check(f"DequantizeLinear_{name}", [node("DequantizeLinear", inputs, ["y"], **flags)], (q - zero) * wide, runs=runs, **operands)

    def scales_shape(scales, sizes, shape):
        return [-(-extent // size) for extent, size in zip(shape, sizes)]

    for kind, bits, signed in (("UINT8", 8, False), ("INT8", 8, True), ("UINT4", 4, False), ("INT4", 4, True)):
        type_number = getattr(TensorProto, kind)

        def q(*shape):
            return small_integers(bits, *shape, signed=signed)

        add(f"{kind}_tensor", q(3, 5), noise(1)[0].reshape(()), q(1)[0].reshape(()), (3, 5), type_number)
        add(f"{kind}_axis", q(3, 5), noise(3), q(3), (1, 5), type_number, axis=0)
        add(f"{kind}_last", q(2, 3, 5), noise(5), None, (2, 3, 1), type_number, axis=-1)
        add(f"{kind}_blocks", q(3, 7, 2), noise(3, 3, 2), q(3, 3, 2), (1, 3, 1), type_number, runs=False, axis=1, block_size=3)
        add(f"{kind}_groups", q(5, 32), noise(5, 2), q(5, 2), (1, 16), type_number, axis=1, block_size=16)
    bias = rng.integers(-100, 100, 5).astype(np.int32)
    cases.check("DequantizeLinear_INT32", [node("DequantizeLinear", ["q", "s"], ["y"], axis=0)], bias * np.float64(scale := noise(5)), q=bias, s=scale)
    # Weights as exporters write them: along K, transposed in front of the product.
    w, s, x = small_integers(4, 6, 32, signed=True), noise(6, 2), noise(3, 32)
    full = w * spread(s.astype(np.float64), (1, 16), w.shape)
    nodes = [node("DequantizeLinear", ["q", "s"], ["d"], axis=1, block_size=16), node("Transpose", ["d"], ["t"], perm=[1, 0])]
    cases.check("MatMul_of_int4", [*nodes, node("MatMul", ["x", "t"], ["y"])], x @ full.T, q=of_type("q", w, TensorProto.INT4), s=s, x=x)
    w, s, z = small_integers(8, 32, 6), noise(6), small_integers(8, 6)
    c = noise(6)
    s = s / 64
    full = (w - z) * s.astype(np.float64)
    cases.check("Gemm_of_uint8", [node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1), node("Gemm", ["x", "d", "c"], ["y"])], x @ full + c,
                q=w.astype(np.uint8), s=s, z=z.astype(np.uint8), x=x, c=c)


def activations(cases):
    x = np.concatenate([noise(4, 6) * 40, [[-1e9, 1e9, 0, 0.5, 1.5, 2.5]]]).astype(np.float32)
    for kind, dtype in (("UINT8", np.uint8), ("INT8", np.int8)):
        ends = np.iinfo(dtype)
        for name, scale, zero, flags in (("tensor", np.float32(0.25), dtype(3), {}), ("axis", noise(6) / 8 + 0.25, small_integers(8, 6, signed=dtype == np.int8), dict(axis=1))):
            zero = np.asarray(zero).astype(dtype)
            steps = np.clip(np.round((x / np.float32(scale)).astype(np.float32)) + zero, ends.min, ends.max)
            cases.check(f"QuantizeLinear_{kind}_{name}", [node("QuantizeLinear", ["x", "s", "z"], ["q"], **flags), node("Cast", ["q"], ["y"], to=F32)], steps,
                        x=x, s=scale, z=zero)
            pair = [node("QuantizeLinear", ["x", "s", "z"], ["q"], **flags), node("DequantizeLinear", ["q", "s", "z"], ["y"], **flags)]
            cases.check(f"QuantizeLinear_{kind}_{name}_pair", pair, (steps - zero.astype(np.float64)) * scale, x=x, s=scale, z=zero)
    for name, x in (("both", noise(5, 9)), ("positive", np.abs(noise(5, 9)) + 1), ("zeros", np.zeros((2, 3), np.float32))):
        low, high = min(0, x.min()), max(0, x.max())
        scale = np.float32(np.float32(high - low) / np.float32(255)) if high > low else np.float32(1)
        zero = np.clip(np.round(-low / scale), 0, 255)
        expected = np.clip(np.round(x / scale) + zero, 0, 255)
        dynamic = node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
        cases.check(f"DynamicQuantizeLinear_{name}", [dynamic, node("Cast", ["q"], ["y"], to=F32)], expected, x=x)
        cases.check(f"DynamicQuantizeLinear_{name}_scale", [dynamic, node("Identity", ["scale"], ["y"])], scale, runs=name != "zeros", x=x)
        cases.check(f"DynamicQuantizeLinear_{name}_zero", [dynamic, node("Cast", ["zero"], ["y"], to=F32)], zero, x=x)


def integer_products(cases):
    # 700 terms of up to 255 x 255 are more than f32 adds exactly.
    a, b = small_integers(8, 3, 700), small_integers(8, 700, 5, signed=True)
    rows, columns = small_integers(8, 3), small_integers(8, 5, signed=True)
    a[:, :] = 255 - a[:, :] % 3
    divided = [node("Cast", ["i"], ["f"], to=F32), node("Mul", ["f", "small"], ["y"])]
    small = np.float32(2**-24)
    for name, inputs, zero_a, zero_b in (("plain", ["a", "b"], 0, 0), ("zeros", ["a", "b", "za", "zb"], 7, -3), ("columns", ["a", "b", "za", "zb"], 7, columns)):
        operands = dict(a=a.astype(np.uint8), b=b.astype(np.int8), small=small)
        if len(inputs) > 2:
            operands.update(za=np.uint8(zero_a), zb=np.asarray(zero_b).astype(np.int8))
        product = (a - zero_a).astype(np.int64) @ (b - zero_b)
        # ONNX Runtime saturates pairs of such products in 16 bits where the CPU has no VNNI.
        cases.check(f"MatMulInteger_{name}", [node("MatMulInteger", inputs, ["i"]), *divided], product * np.float64(small), runs=False, **operands)
    # Differences from the exact sums, which f32 would not hold.
    exact = (a.astype(np.int64) @ b).astype(np.int32)
    cases.check("MatMulInteger_exact", [node("MatMulInteger", ["a", "b"], ["i"]), node("Sub", ["i", "e"], ["d"]), node("Cast", ["d"], ["y"], to=F32)],
                np.zeros((3, 5)), runs=False, a=a.astype(np.uint8), b=b.astype(np.int8), e=exact)
    batch = small_integers(8, 2, 3, 40)
    weights = small_integers(8, 40, 4)
    cases.check("MatMulInteger_batch", [node("MatMulInteger", ["a", "b", "za"], ["i"]), *divided], ((batch - 9) @ weights) * np.float64(small),
                a=batch.astype(np.uint8), b=weights.astype(np.uint8), za=np.uint8(9), small=small)


def blocks(cases):
    for bits in (2, 4, 8):
        for name, k, n, size, zeros, more in (("symmetric", 64, 7, 32, None, ()), ("zeros", 96, 5, 32, "packed", ("bias",)), ("floats", 64, 3, 16, "floats", ()),
                                              ("rest", 40, 6, 16, "packed", ()), ("order", 64, 5, 16, "packed", ("g_idx",))):
            count = -(-k // size)
            q, s = small_integers(bits, n, count * size), noise(n, count) / (1 << bits - 1)
            z = np.full((n, count), 1 << bits - 1)
            x = noise(2, 3, k)
            operands = dict(x=x, q=packed(q, bits).reshape(n, count, -1), s=s)
            inputs = ["x", "q", "s", "", "", ""]
            if zeros == "packed":
                z = small_integers(bits, n, count)
                operands["z"] = packed(z, bits)
            elif zeros == "floats":
                z = (noise(n, count) * (1 << bits)).astype(np.float32)
                operands["z"] = z
            if zeros:
                inputs[3] = "z"
            wide_s, wide_z = (np.repeat(one.astype(np.float64), size, 1) for one in (s, z))
            if "g_idx" in more:
                operands["g"] = rng.permutation(np.arange(k) // size).astype(np.int32)
                inputs[4] = "g"
                wide_s, wide_z = s.astype(np.float64)[:, operands["g"]], z[:, operands["g"]]
            full = ((q - wide_z) * wide_s)[:, :k]
            expected = x @ full.T
            if "bias" in more:
                operands["b"] = noise(n)
                inputs[5] = "b"
                expected = expected + operands["b"]
            while not inputs[-1]:
                inputs.pop()
            flags = dict(K=k, N=n, block_size=size, bits=bits)
            runs = bits != 2 and zeros != "floats" and "g_idx" not in more
            cases.check(f"MatMulNBits_{bits}_{name}", [node("MatMulNBits", inputs, ["y"], domain=CONTRIB, **flags)], expected, runs=runs, near=1e-4, **operands)
    index = np.array([[5, 0, 2], [-1, 3, 3]])
    for bits in (4, 8):
        for name, zeros in (("symmetric", False), ("zeros", True)):
            q, s, z = small_integers(bits, 6, 48), noise(6, 3), np.full((6, 3), 1 << bits - 1)
            operands = dict(q=packed(q, bits), i=index % 6, s=s)
            if zeros:
                z = small_integers(bits, 6, 3)
                operands["z"] = packed(z, bits)
            full = (q - np.repeat(z, 16, 1)) * np.repeat(s.astype(np.float64), 16, 1)
            gather = node("GatherBlockQuantized", ["q", "i", "s", *("z" if zeros else "")], ["y"], domain=CONTRIB, block_size=16, bits=bits)
            cases.check(f"GatherBlockQuantized_{bits}_{name}", [gather], full[index % 6], **operands)
    q, s = small_integers(4, 5, 32, signed=True), noise(5, 2)
    gather = node("GatherBlockQuantized", ["q", "i", "s"], ["y"], domain=CONTRIB, block_size=16)
    cases.check("GatherBlockQuantized_int4", [gather], (q * np.repeat(s.astype(np.float64), 16, 1))[[4, 1]], q=of_type("q", q, TensorProto.INT4), i=np.array([4, 1]), s=s)
    # A table that the last product reads, too.
    q, s, x = small_integers(4, 6, 32), noise(6, 2) / 8, noise(2, 32)
    full = (q - 8) * np.repeat(s.astype(np.float64), 16, 1)
    tied = [node("GatherBlockQuantized", ["q", "i", "s"], ["e"], domain=CONTRIB, block_size=16, bits=4),
            node("MatMulNBits", ["e", "q", "s"], ["y"], domain=CONTRIB, K=32, N=6, block_size=16, bits=4)]
    cases.check("tied", tied, full[[2, 3]] @ full.T, runs=False, q=packed(q, 4), i=np.array([2, 3]), s=s)


def ops():
    cases = QuantisedCases(opset=21, domains=[CONTRIB])
    for part in (dequantize, activations, integer_products, blocks):
        part(cases)
    cases.write("ops_quantised")


def along_n():
    """Products whose weights [K, N] lie along N, as exporters write them in front of MatMul."""
    cases = QuantisedCases(opset=21)
    x = noise(3, 48)

    def add(name, kind, bits, signed, scales, zeros, sizes, op="MatMul", **flags):
        q = small_integers(bits, 48, 10, signed=signed)
        operands = dict(x=x, q=of_type("q", q, getattr(TensorProto, kind)), s=scales / (1 << bits))
        inputs, zero = ["q", "s"], 0
        if zeros is not None:
            operands["z"] = of_type("z", zeros, getattr(TensorProto, kind))
            inputs.append("z")
            zero = spread(zeros.reshape(-(-48 // sizes[0]), -(-10 // sizes[1])), sizes, q.shape)
        wide = spread(operands["s"].astype(np.float64).reshape(-(-48 // sizes[0]), -(-10 // sizes[1])), sizes, q.shape)
        nodes = [node("DequantizeLinear", inputs, ["d"], **flags), node(op, ["x", "d"], ["y"])]
        cases.check(name, nodes, x @ ((q - zero) * wide), **operands)

    add("int4_blocks", "INT4", 4, True, noise(3, 10), None, (16, 1), axis=0, block_size=16)
    add("uint4_blocks", "UINT4", 4, False, noise(3, 10), small_integers(4, 3, 10), (16, 1), axis=0, block_size=16)
    add("uint8_blocks", "UINT8", 8, False, noise(2, 10), small_integers(8, 2, 10), (32, 1), axis=0, block_size=32)
    add("int8_columns", "INT8", 8, True, noise(10), small_integers(8, 10, signed=True), (48, 1), op="Gemm", axis=1)
    add("int8_all", "INT8", 8, True, noise(1), None, (48, 10))
    cases.write("ops_along_n")


def halves():
    """A quotient that is 40.502 in f32 and 40.5 in f16, divided in the type of the scale, and in the one that is named.
    And 15 less 125 / 1024, a zero point in f16: the difference in f16 is another, and so is its product with 1.4375."""
    x, f16 = info("x", TensorProto.FLOAT16, [1]), TensorProto.FLOAT16
    nodes = [node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["y"]),
             node("QuantizeLinear", ["x", "s"], ["wide"], precision=F32), node("DequantizeLinear", ["wide", "s"], ["z"])]
    write("quantised_halves", nodes, [x], [info("y", f16, [1]), info("z", f16, [1])], [tensor("s", 0.7, np.float16)], 23)
    product = node("MatMulNBits", ["x", "q", "s", "z"], ["y"], domain=CONTRIB, K=16, N=1, block_size=16, bits=4)
    weights = [tensor("q", np.full((1, 1, 8), 255, np.uint8)), tensor("s", [1.4375], np.float16), tensor("z", [125 / 1024], np.float16)]
    write("nbits_halves", [product], [info("x", f16, [1, 16])], [info("y", f16, [1, 1])], weights, 21, domains=[CONTRIB])


def single_products():
    """Integers that lie across bytes in a file, and products that are refused."""
    odd = small_integers(4, 3, 5)
    write("int4_rows", [node("Cast", ["q"], ["y"], to=F32)], [], [info("y", F32, None)], [of_type("q", odd, TensorProto.UINT4)], 21)
    prepacked = node("MatMulNBits", ["x", "q", "s"], ["y"], name="product", domain=CONTRIB, K=32, N=4, block_size=16, bits=4, weight_prepacked=1)
    nbits = [tensor("q", np.zeros((4, 2, 8), np.uint8)), tensor("s", noise(4, 2))]
    write("nbits_prepacked", [prepacked], [info("x", F32, [2, 32])], [info("y", F32, [2, 4])], nbits, 21, domains=[CONTRIB])
    short = node("MatMulNBits", ["x", "q", "s"], ["y"], name="product", domain=CONTRIB, K=32, N=5, block_size=16, bits=4)
    write("nbits_short", [short], [info("x", F32, [2, 32])], [info("y", F32, [2, 5])], [nbits[0], tensor("s", noise(5, 2))], 21, domains=[CONTRIB])
    lone = node("MatMulNBits", ["x", "q", "s", "", "g"], ["y"], name="product", domain=CONTRIB, K=32, N=4, block_size=16, bits=4)
    write("nbits_groups", [lone], [info("x", F32, [2, 32])], [info("y", F32, [2, 4])], [*nbits, tensor("g", np.zeros(32, np.int32))], 21, domains=[CONTRIB])
