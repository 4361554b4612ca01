"""Convolutions, pools, resizing and sampling."""
import numpy as np
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from writers.cases import Cases
from writers.model import F32, info, model, node, noise, tensor


def windows():
    """Convolutions, pools, resizing and what else works on [N, C, S...]."""
    cases = Cases()
    line, image, pair, volume = noise(2, 6, 11), noise(1, 6, 9, 7), noise(2, 6, 5, 4), noise(1, 2, 5, 6, 4)

    def conv(name, x, results, kernel, group=1, bias=True, **attributes):
        operands = dict(x=x, w=noise(results, x.shape[1] // group, *kernel))
        if bias:
            operands["b"] = noise(results)
        cases.add(f"Conv_{name}", [node("Conv", list(operands), ["y"], group=group, **attributes)], **operands)

    conv("line", line, 5, [3], pads=[1, 1])
    conv("line_strided", line, 5, [3], pads=[1, 1], strides=[2])
    conv("line_patches", line, 4, [5], strides=[5])
    conv("line_gaps", line, 4, [2], strides=[3])
    conv("images", pair, 8, [3, 3], pads=[1, 1, 1, 1])
    conv("image_plain", image, 8, [3, 2], bias=False)
    conv("image_dilated", image, 8, [3, 3], pads=[2, 3, 2, 1], dilations=[2, 3], strides=[2, 1])
    conv("images_pointwise", pair, 8, [1, 1])
    conv("image_pointwise_strided", image, 8, [1, 1], strides=[2, 3])
    conv("image_patches", noise(2, 3, 8, 16), 8, [4, 8], strides=[4, 8])
    conv("image_patches_of_channels", noise(2, 8, 6, 4), 8, [2, 2], strides=[2, 2])
    conv("images_groups", pair, 4, [3, 3], group=2, pads=[1, 1, 1, 1])
    conv("image_groups_patches", image, 6, [3, 7], group=3, strides=[3, 7])
    conv("depthwise", pair, 6, [3, 3], group=6, pads=[1, 1, 1, 1], strides=[2, 1])
    conv("depthwise_twice", image, 12, [3, 3], group=6, pads=[0, 1, 2, 1])
    conv("depthwise_large", image, 6, [5, 3], group=6, pads=[2, 1, 2, 1], dilations=[1, 2])
    conv("causal", line, 6, [4], group=6, pads=[3, 0])
    conv("volume", volume, 3, [3, 2, 2], pads=[1, 0, 1, 1, 1, 0])
    conv("same_upper", image, 2, [4, 3], auto_pad="SAME_UPPER", strides=[2, 2])
    conv("same_lower", image, 2, [4, 3], auto_pad="SAME_LOWER", strides=[2, 2])
    conv("valid", image, 2, [4, 3], auto_pad="VALID")
    for name, kernel in {"small": [3, 2], "large": [5, 3]}.items():
        nodes = [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Conv", ["t", "w", "b"], ["y"], group=6, pads=[1, 1, 1, 0])]
        cases.add(f"depthwise_channels_last_{name}", nodes, x=pair.transpose(0, 2, 3, 1), w=noise(12, 1, *kernel), b=noise(12))
    weights, bias = noise(6, 4, 3, 2), noise(4)
    for name, attributes in {"plain": {}, "strided": dict(strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2]),
                             "dilated": dict(dilations=[2, 2], strides=[1, 2]), "cut": dict(pads=[3, 0, 2, 0])}.items():
        cases.add(f"ConvTranspose_{name}", [node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)], x=image, w=weights, b=bias)

    image, line = noise(1, 2, 9, 7), line[:, :2]
    for op in ("MaxPool", "AveragePool"):
        cases.add(op, [node(op, ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2])], x=image)
        cases.add(f"{op}_padded", [node(op, ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1])], x=image)
        cases.add(f"{op}_line", [node(op, ["x"], ["y"], kernel_shape=[4], strides=[3])], x=line)
    cases.add("MaxPool_dilated", [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], dilations=[2, 3], strides=[1, 1])], x=image)
    # The evaluator moves windows to the left where ceil_mode adds to the right.
    padded = np.full((1, 2, 12, 9), -np.inf, np.float32)
    padded[:, :, 1:10, 1:8] = image
    largest = np.array([[padded[:, :, 2 * i:2 * i + 4, 3 * j:3 * j + 3].max((2, 3)) for j in range(3)] for i in range(5)])
    cases.add("MaxPool_ceil", [node("MaxPool", ["x"], ["y"], kernel_shape=[4, 3], strides=[2, 3], pads=[1, 1, 1, 1], ceil_mode=1)],
              largest.transpose(2, 3, 0, 1), x=image)
    ends = [line[:, :, i:i + 4].mean(2) for i in (0, 3, 6, 9)]
    cases.add("AveragePool_ceil", [node("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], ceil_mode=1)], np.stack(ends, 2), x=line)
    cases.add("AveragePool_with_pads",
              [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)], x=image)
    cases.add("MaxPool_integers", [node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0], strides=[2])],
              np.array([[[-5, -1, -2]]]), x=np.array([[[-5, -1, -7, -2, -3]]], np.int32))
    cases.add("LpPool", [node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1])], x=image)
    cases.add("GlobalAveragePool", [node("GlobalAveragePool", ["x"], ["y"])], x=image)
    cases.add("GlobalMaxPool", [node("GlobalMaxPool", ["x"], ["y"])], x=image)

    def resize(name, x, sizes=None, scales=None, **attributes):
        operands = dict(x=x)
        if scales:
            operands["s"] = np.float32(scales)
        else:
            operands["n"] = np.int64(sizes)
        inputs = ["x", "", "s" if scales else "", *["n"] * (not scales)]
        cases.add(f"Resize_{name}", [node("Resize", inputs, ["y"], **attributes)], **operands)

    resize("nearest_twice", image, scales=[1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("nearest_half", image, sizes=[1, 2, 4, 3], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("nearest", image, sizes=[1, 2, 13, 5])
    resize("nearest_ceil", image, sizes=[1, 2, 13, 5], nearest_mode="ceil", coordinate_transformation_mode="align_corners")
    for transformation in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        resize(f"linear_{transformation}", image, sizes=[1, 2, 14, 1], mode="linear", coordinate_transformation_mode=transformation)
    resize("cubic", image, sizes=[1, 2, 5, 12], mode="cubic", cubic_coeff_a=-0.75)
    resize("cubic_outside", image, sizes=[6, 12], mode="cubic", axes=[2, 3], exclude_outside=1)
    resize("antialias", image, sizes=[4, 3], mode="linear", axes=[3, 2], antialias=1)

    scale, bias = noise(6), noise(6)

    def channel_norm(x, groups, scale, bias):
        rows = x.reshape(x.shape[0], groups, -1)
        rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return rows.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]

    cases.add("GroupNormalization", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
              channel_norm(pair, 2, scale, bias), x=pair, s=scale, b=bias)
    cases.add("GroupNormalization_of_groups", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)],
              channel_norm(pair, 3, scale[:3].repeat(2), bias[:3].repeat(2)), x=pair, s=scale[:3], b=bias[:3])
    cases.add("InstanceNormalization", [node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=1e-5)],
              channel_norm(pair, 6, scale, bias), x=pair, s=scale, b=bias)
    for mode in ("edge", "reflect", "wrap"):
        cases.add(f"Pad_{mode}", [node("Pad", ["x", "p"], ["y"], mode=mode)], x=image, p=np.array([0, 1, 2, 0, 1, 0, 3, 6]))
    cases.add("Pad_cut", [node("Pad", ["x", "p"], ["y"])], np.pad(image[:, :, 2:, :6], [(0, 0)] * 2 + [(0, 1), (1, 0)]), x=image,
              p=np.array([0, 0, -2, 1, 0, 0, 1, -1]))
    cases.write("ops_windows")


def sampling():
    """What reads between elements, adds up blocks and transforms; what holds integers bit by bit, or narrow ones."""
    cases = Cases(opset=20)
    rng = np.random.default_rng(26)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def grid_of(sizes, shape, aligned, beyond):
        """Places that are no ties of the nearest element, up to `beyond` elements outside."""
        numbers = np.empty((*shape, len(sizes)), np.float32)
        for i, size in enumerate(reversed(sizes)):
            places = rng.integers(-beyond, size + beyond, shape) + rng.uniform(-0.4, 0.4, shape)
            numbers[..., i] = 2 * places / max(size - 1, 1) - 1 if aligned else (2 * places + 1) / size - 1
        return numbers

    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for aligned in (0, 1):
                for sizes, shape in (((5, 7), (2, 3, 5)), ((1, 3), (2, 1, 7)), ((3, 2, 5), (2, 3, 1, 5))):
                    if len(sizes) == 3 and mode == "cubic":
                        continue
                    if sizes[0] == 1 and aligned and padding == "reflection":  # The evaluator divides by its length of 0.
                        continue
                    grid = grid_of(sizes, shape, aligned, 9 if sizes == (1, 3) else 3)
                    attributes = dict(mode=mode, padding_mode=padding, align_corners=aligned)
                    cases.add(f"GridSample_{mode}_{padding}_{aligned}_{len(sizes)}_{sizes[0]}",
                              [node("GridSample", ["x", "g"], ["y"], **attributes)], x=normal(2, 3, *sizes), g=grid)
    grid = grid_of((5, 7), (2, 3, 5), 0, 2)
    cases.add("GridSample_defaults", [node("GridSample", ["x", "g"], ["y"])], x=normal(2, 3, 5, 7), g=grid)

    for i, (image, block, attributes) in enumerate((
        ([5, 7], [2, 3], {}), ([5, 7], [3, 3], dict(strides=[2, 2], pads=[1, 1, 1, 1])), ([6, 5], [2, 2], dict(dilations=[1, 3])),
        ([7, 9], [3, 2], dict(strides=[3, 2], pads=[0, 1, 2, 0])), ([9], [4], dict(strides=[2], pads=[1, 2])),
    )):
        rank = len(image)
        strides, dilations, pads = (attributes.get(name, [default] * n) for name, default, n in
                                    (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank)))
        counts = [(image[d] + pads[d] + pads[d + rank] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
        blocks = normal(2, 3 * int(np.prod(block)), int(np.prod(counts)))
        added = np.zeros((2, 3, *(image[d] + pads[d] + pads[d + rank] for d in range(rank))))
        for element in np.ndindex(*block):
            for at in np.ndindex(*counts):
                place = tuple(at[d] * strides[d] + element[d] * dilations[d] for d in range(rank))
                split = blocks.reshape(2, 3, *block, *counts)
                added[(slice(None), slice(None), *place)] += split[(slice(None), slice(None), *element, *at)]
        inner = added[(slice(None), slice(None), *(slice(pads[d], pads[d] + image[d]) for d in range(rank)))]
        cases.add(f"Col2Im_{i}", [node("Col2Im", ["x", "i", "b"], ["y"], **attributes)], inner, x=blocks, i=np.array(image), b=np.array(block))

    real, double = normal(2, 7, 3, 1), normal(2, 7, 3, 2)
    signal, spectrum = real[..., 0].astype(np.float64), double[..., 0] + 1j * double[..., 1].astype(np.float64)

    def parts(numbers):
        return np.stack([numbers.real, numbers.imag], -1)

    def dft(name, operand, expected, axis, length=None, **attributes):
        more = {} if length is None else dict(n=np.array(length))
        cases.add(f"DFT_{name}", [node("DFT", ["x", "n" if more else "", "a"], ["y"], **attributes)], expected, x=operand, a=np.array(axis), **more)

    dft("real", real, parts(np.fft.fft(signal, axis=1)), 1)
    dft("half", real, parts(np.fft.rfft(signal, axis=1)), -3, onesided=1)
    dft("complex", double, parts(np.fft.fft(spectrum, axis=2)), 2)
    dft("inverse", double, parts(np.fft.ifft(spectrum, axis=1)), 1, inverse=1)
    dft("to_real", double, np.fft.irfft(spectrum, axis=1)[..., None], 1, inverse=1, onesided=1)
    dft("to_real_odd", double, np.fft.irfft(spectrum, 5, axis=1)[..., None], 1, 5, inverse=1, onesided=1)
    dft("longer", double, parts(np.fft.fft(spectrum, 11, axis=1)), 1, 11)
    dft("shorter", real, parts(np.fft.rfft(signal, 4, axis=1)), 1, 4, onesided=1)

    bits = dict(a=np.array([12, -1, -(2**62), 5]), b=np.array([10, 77, -2, -7]))
    small = {name: (value % 1000).astype(np.int32) for name, value in bits.items()}
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        # Differences from NumPy's results, which f32 would not hold.
        expected = getattr(np, op.replace("Bitwise", "bitwise_").lower())(bits["a"], bits["b"])
        cases.add(op, [node(op, ["a", "b"], ["v"]), node("Sub", ["v", "e"], ["y"])], np.zeros(4), **bits, e=expected)
        cases.add(f"{op}_int32", [node(op, ["a", "b"], ["y"])], **small)
    cases.add("BitwiseNot", [node("BitwiseNot", ["a"], ["y"])], a=np.array([0, -1, 12]))
    x = np.float32([[0, 255, 256, -1], [300, 127, 128, -129]])
    for kind, dtype in (("UINT8", np.uint8), ("INT8", np.int8), ("UINT16", np.uint16), ("INT16", np.int16)):
        narrow = node("Cast", ["n"], ["u"], to=getattr(TensorProto, kind))
        moved = [narrow, node("Transpose", ["u"], ["t"]), node("Cast", ["t"], ["y"], to=F32)]
        whole = x.astype(np.int64) * 257
        cases.add(f"Cast_{kind}", [node("Cast", ["x"], ["n"], to=TensorProto.INT32), *moved], x.astype(np.int64).astype(dtype).T, x=x)
        cases.add(f"Cast_{kind}_known", moved, whole.astype(dtype).T, n=whole)
    cases.add("Transpose_from_end", [node("Transpose", ["x"], ["y"], perm=[0, -2, -1, 1])], double.transpose(0, 2, 3, 1), x=double)
    counts = [node("OneHot", ["i", "depth", "onoff"], ["r"], axis=-1), node("Tile", ["x", "r"], ["y"])]
    cases.add("Tile_one_hot", counts, np.tile(x, [1, 3]), x=x, i=np.array(1), depth=np.array(2), onoff=np.array([1, 3]))
    images = normal(3, 2, 5) * 2 + 1
    operands = dict(x=images, s=normal(2), b=normal(2), m=normal(2), v=np.abs(normal(2)))
    mean, variance = images.astype(np.float64).mean((0, 2)), images.astype(np.float64).var((0, 2))
    normed = (images - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * operands["s"][:, None] + operands["b"][:, None]
    running = [operands["m"] * 0.75 + mean * 0.25, operands["v"] * 0.75 + variance * 0.25]
    for result, expected in zip(("y", "m1", "v1"), (normed, *running)):
        norm = node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "m1", "v1"], training_mode=1, momentum=0.75)
        cases.add(f"BatchNormalization_training_{result}", [norm], expected, result, **operands)
    # Weights of f32 beside an operand of bf16, as PyTorch's exporter leaves them; all numbers fit both.
    whole = dict(x=rng.integers(-2, 3, (1, 2, 5, 4)).astype(np.float32), w=rng.integers(-2, 3, (3, 2, 3, 3)).astype(np.float32))
    single = model([node("Conv", ["x", "w"], ["y"])], [], [info("y", F32, None)], [tensor(key, value) for key, value in whole.items()])
    mixed = [node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), node("Conv", ["b", "w"], ["c"]), node("Cast", ["c"], ["y"], to=F32)]
    cases.add("Conv_mixed", mixed, ReferenceEvaluator(single).run(None, {})[0], **whole)
    cases.write("ops_sampling")
