"""Ops that the onnx package's reference evaluator lacks or gets wrong: computed with NumPy here, each with the reason."""

import inspect
import math
from dataclasses import dataclass
from typing import Callable

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_grid_sample import GridSample
from onnx.reference.ops.op_resize import Resize


def attributes_of(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


class Exactly:
    """How numbers between an op's operands and its results are kept: as they are."""

    def stored(self, array):
        return array

    def reassociates(self):
        return False


@dataclass
class Own:
    reason: str
    function: Callable  # Takes a node, gives a function of its operands' arrays and of how numbers between are kept.
    opsets: range


OWN_REFERENCE = {}


def own(name, reason, opsets=range(100)):
    """An op as a function of arrays and attributes; where it has a third parameter, that says how numbers between are
    kept."""

    def register(compute):
        rounds = len(inspect.signature(compute).parameters) > 2

        def function(node):
            attributes = attributes_of(node)
            return lambda arrays, between: compute(arrays, attributes, *[between] * rounds)

        OWN_REFERENCE[name] = Own(reason, function, opsets)
        return compute

    return register


CONTRIB = "an op of ONNX Runtime's, which the evaluator does not have"
ERF = np.vectorize(math.erf, otypes=[np.float64])


def at(arrays, i):
    return arrays[i] if i < len(arrays) else None


def matmul(a, b):
    """NumPy's product of stacks of matrices, or of vectors, added up one by one."""
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    product = np.einsum("...ij,...jk->...ik", rows, columns)
    if b.ndim == 1:
        product = product[..., 0]
    return np.asarray(product[..., 0, :] if a.ndim == 1 and b.ndim > 1 else product[..., 0] if a.ndim == 1 else product)


def gelu(x):
    return x / 2 * (1 + ERF(x / math.sqrt(2)))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@own("Einsum", "the evaluator multiplies with a BLAS, which takes 0 times infinity for 0")
def _einsum(arrays, attributes, between):
    equation = attributes["equation"]
    equation = (equation if isinstance(equation, str) else equation.decode()).replace(" ", "")
    if "->" not in equation and "..." not in equation:  # Letters that stand once, in the alphabet's order.
        letters = equation.replace(",", "")
        equation += "->" + "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    if between.reassociates() and "..." not in equation:
        equation, arrays = summed_alone(equation, arrays)
    return [np.asarray(np.einsum(equation, *arrays))]


def summed_alone(equation, arrays):
    """Sums over what one operand alone has first: infinities of both signs may meet there, or only afterwards."""
    terms, result = equation.split("->")
    terms, summed = terms.split(","), []
    for i, (term, array) in enumerate(zip(terms, arrays)):
        others = set(result).union(*(terms[:i] + terms[i + 1 :]))
        kept = "".join(letter for letter in dict.fromkeys(term) if letter in others)
        summed.append(np.einsum(f"{term}->{kept}", array))
        terms[i] = kept
    return f"{','.join(terms)}->{result}", summed


@own("Loop", "the evaluator stacks what a loop keeps of its steps without a dimension for the steps")
def _loop(arrays, attributes):
    """A loop whose body takes nothing from around it and runs as often as it may."""
    body = ReferenceEvaluator(helper.make_model(attributes["body"], opset_imports=[helper.make_opsetid("", 21)]))
    names = [value.name for value in attributes["body"].input]
    carried, kept = list(arrays[2:]), []
    for step in range(int(arrays[0])):
        results = body.run(None, dict(zip(names, [np.int64(step), np.bool_(True), *carried])))[1:]
        carried, scanned = results[: len(carried)], results[len(carried) :]
        kept.append(scanned)
    return [*carried, *(np.stack(values) for values in zip(*kept))]


@own("Celu", "the evaluator's maximum of 0 and NaN is 0")
def _celu(arrays, attributes):
    alpha = attributes.get("alpha", 1.0)
    return [np.where(arrays[0] > 0, arrays[0], alpha * np.expm1(arrays[0] / alpha))]


@own("LpNormalization", "the evaluator's norm of p = 1 adds what is negative")
def _lp_normalization(arrays, attributes, between):
    p, axis = attributes.get("p", 2), attributes.get("axis", -1)
    norm = np.sum(between.stored(np.abs(arrays[0]) ** p), axis=axis, keepdims=True) ** (1 / p)
    return [np.where(norm == 0, 0, arrays[0] / norm)]


@own("ReduceL2", "the squares, as they are kept: none are below the smallest number of f32, or above the largest")
def _reduce_l2(arrays, attributes, between):
    axes = attributes.get("axes", at(arrays, 1))
    if axes is None and attributes.get("noop_with_empty_axes"):
        axes = ()
    axes = None if axes is None else tuple(int(axis) for axis in axes)
    axes = None if axes == () and not attributes.get("noop_with_empty_axes") else axes
    squares = between.stored(arrays[0].astype(np.float64) ** 2)
    result = np.sqrt(np.sum(squares, axis=axes, keepdims=bool(attributes.get("keepdims", 1))))
    return [np.asarray(result).astype(arrays[0].dtype)]


@own("ReduceLogSumExp", "the evaluator's result of nothing but -infinity is NaN")
def _reduce_log_sum_exp(arrays, attributes):
    axes = attributes.get("axes", at(arrays, 1))
    axes = None if axes is None else tuple(int(axis) for axis in axes)
    most = np.max(arrays[0], axis=axes, keepdims=True)
    most = np.where(np.isinf(most), 0, most)
    result = np.log(np.sum(np.exp(arrays[0] - most), axis=axes, keepdims=True)) + most
    return [result if attributes.get("keepdims", 1) else np.squeeze(result, axis=axes)]


@own("com.microsoft.Gelu", CONTRIB)
def _gelu(arrays, attributes):
    return [gelu(arrays[0])]


@own("com.microsoft.BiasGelu", CONTRIB)
def _bias_gelu(arrays, attributes):
    return [gelu(arrays[0] + arrays[1])]


@own("com.microsoft.FastGelu", CONTRIB)
def _fast_gelu(arrays, attributes):
    bias = at(arrays, 1)
    return [gelu_tanh(arrays[0] if bias is None else arrays[0] + bias)]


@own("com.microsoft.QuickGelu", CONTRIB)
def _quick_gelu(arrays, attributes):
    return [arrays[0] / (1 + np.exp(-attributes.get("alpha", 1.702) * arrays[0]))]


@own("com.microsoft.FusedMatMul", CONTRIB)
def _fused_matmul(arrays, attributes):
    def operand(array, flag):
        return np.swapaxes(array, -1, -2) if attributes.get(flag) and array.ndim > 1 else array

    product = matmul(operand(arrays[0], "transA"), operand(arrays[1], "transB"))
    return [attributes.get("alpha", 1.0) * product]


BLAS = "the evaluator multiplies with a BLAS, which takes 0 times infinity for 0"


@own("MatMul", BLAS)
def _matmul(arrays, attributes):
    return [matmul(*arrays)]


@own("Gemm", BLAS)
def _gemm(arrays, attributes):
    a, b = (one.T if attributes.get(flag) else one for one, flag in zip(arrays, ("transA", "transB")))
    product = attributes.get("alpha", 1.0) * matmul(a, b)
    beta = attributes.get("beta", 1.0)
    return [product if at(arrays, 2) is None or beta == 0 else product + beta * arrays[2]]


@own("GatherElements", "the evaluator wants indices as many as the data has along every other axis; ONNX allows fewer")
def _gather_elements(arrays, attributes):
    data, indices = arrays
    axis = attributes.get("axis", 0) % data.ndim
    position = list(np.indices(indices.shape))
    position[axis] = indices
    return [data[tuple(position)]]


@own("ScatterElements", "the evaluator compares with Python's max and min, which drop a NaN or keep it by its place", range(18, 100))
def _scatter_elements(arrays, attributes):
    data, indices, updates = arrays
    reductions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    reduction = attributes.get("reduction", b"none").decode()
    axis = attributes.get("axis", 0) % data.ndim
    result = data.copy()
    for position in np.ndindex(indices.shape):
        place = (*position[:axis], indices[position], *position[axis + 1 :])
        result[place] = reductions[reduction](result[place], updates[position]) if reduction != "none" else updates[position]
    return [result]


@own("OneHot", "the evaluator multiplies by on - off, which NaN and infinity do not survive")
def _one_hot(arrays, attributes):
    indices, depth, values = arrays
    size = int(np.asarray(depth).reshape(-1)[0])
    indices = indices.astype(np.int64)
    indices = np.where(indices < 0, indices + size, indices)
    axis = attributes.get("axis", -1) % (indices.ndim + 1)
    places = np.arange(size).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return [np.where(np.expand_dims(indices, axis) == places, values[1], values[0])]


@own("BatchNormalization", "before opset 14 the evaluator computes what training does", range(14))
def _batch_norm(arrays, attributes):
    x = arrays[0]
    scale, bias, mean, variance = (one.reshape(-1, *[1] * (x.ndim - 2)) for one in arrays[1:])
    return [(x - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale + bias]


@own("Pow", "NumPy takes the root for a single exponent of 0.5: of -infinity NaN, where C and IEEE 754 say infinity")
def _pow(arrays, attributes):
    base, exponent = np.broadcast_arrays(arrays[0][..., None], arrays[1][..., None].astype(np.float64))
    return [np.power(base, np.array(exponent))[..., 0]]


@own("LogSoftmax", "the evaluator takes the logarithm of a softmax, which may have become 0")
def _log_softmax(arrays, attributes):
    axis = attributes.get("axis", -1)
    shifted = arrays[0] - np.max(arrays[0], axis=axis, keepdims=True)
    return [shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))]


def rms_norm(x, weight, attributes):
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    scale = np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + attributes.get("epsilon", 1e-5))
    return x / scale * weight


@own("SimplifiedLayerNormalization", "ONNX Runtime's RMS norm, which no version of ONNX has")
@own("com.microsoft.SimplifiedLayerNormalization", CONTRIB)
def _simplified_layer_norm(arrays, attributes):
    return [rms_norm(arrays[0], arrays[1], attributes)]


@own("com.microsoft.SkipSimplifiedLayerNormalization", CONTRIB)
def _skip_rms_norm(arrays, attributes):
    x = arrays[0] + arrays[1]
    if at(arrays, 3) is not None:
        x = x + arrays[3]
    return [rms_norm(x, arrays[2], attributes), None, None, x]


@own("com.microsoft.SkipLayerNormalization", CONTRIB)
def _skip_layer_norm(arrays, attributes):
    x = arrays[0] + arrays[1]
    if at(arrays, 4) is not None:
        x = x + arrays[4]
    centred = x - np.mean(x, axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + attributes.get("epsilon", 1e-5))
    y = centred / deviation * arrays[2]
    return [y if at(arrays, 3) is None else y + arrays[3], None, None, x]


@own("com.microsoft.RotaryEmbedding", CONTRIB)
def _rotary(arrays, attributes):
    x, positions, cos, sin = arrays
    size = 2 * cos.shape[1]
    shape = x.shape
    if x.ndim == 3:
        heads = attributes.get("num_heads", 0)
        size = shape[2] // heads if heads else size
        x = np.swapaxes(x.reshape(shape[0], shape[1], -1, size), 1, 2)
    batch, _, length, size = x.shape
    if positions.ndim == 1:
        positions = np.broadcast_to(np.arange(length) + positions, (batch, length))
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    rotated = 2 * cos.shape[-1]
    head, rest = x[..., :rotated], x[..., rotated:]
    if attributes.get("interleaved"):
        first, second = head[..., 0::2], head[..., 1::2]
    else:
        first, second = head[..., : rotated // 2], head[..., rotated // 2 :]
    real, imaginary = first * cos - second * sin, first * sin + second * cos
    if attributes.get("interleaved"):
        turned = np.stack([real, imaginary], -1).reshape(head.shape)
    else:
        turned = np.concatenate([real, imaginary], -1)
    y = np.concatenate([turned, rest], -1)
    return [np.swapaxes(y, 1, 2).reshape(shape) if len(shape) == 3 else y]


# Windows that slide over [N, C, S...].


class Windows:
    """Their sizes, as a node's attributes give them."""

    def __init__(self, sizes, kernel, attributes):
        rank = len(kernel)
        self.sizes, self.kernel, self.rank = sizes, list(kernel), rank
        self.strides = attributes.get("strides", [1] * rank)
        self.dilations = attributes.get("dilations", [1] * rank)
        pads = attributes.get("pads", [0] * 2 * rank)
        self.before, self.after = list(pads[:rank]), list(pads[rank:])
        self.reach = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, self.dilations)]
        automatic, ceil = attributes.get("auto_pad", b"NOTSET"), attributes.get("ceil_mode", 0)
        if automatic == b"VALID":
            self.before, self.after = [0] * rank, [0] * rank
        self.counts = []
        for i, (size, stride, reach) in enumerate(zip(sizes, self.strides, self.reach)):
            if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
                count = math.ceil(size / stride)
                lacking = max((count - 1) * stride + reach - size, 0)
                self.before[i] = lacking // 2 if automatic == b"SAME_UPPER" else lacking - lacking // 2
                self.after[i] = lacking - self.before[i]
            else:
                steps = (size + self.before[i] + self.after[i] - reach) / stride
                count = (math.ceil(steps) if ceil else math.floor(steps)) + 1
                if ceil and (count - 1) * stride >= size + self.before[i]:
                    count -= 1
            self.counts.append(count)

    def of(self, x, outside):
        """[N, C, S...] -> [N, C, O..., K...], with `outside` around x."""
        border = [(0, 0), (0, 0)]
        for i in range(self.rank):
            needed = (self.counts[i] - 1) * self.strides[i] + self.reach[i]
            border.append((self.before[i], max(needed - self.before[i] - self.sizes[i], 0)))
        padded = np.pad(x, border, constant_values=outside)
        result = np.empty((*x.shape[:2], *self.counts, *self.kernel), x.dtype)
        for tap in np.ndindex(*self.kernel):
            cut = tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(tap, self.dilations, self.counts, self.strides)
            )
            result[(..., *[slice(None)] * self.rank, *tap)] = padded[(slice(None), slice(None), *cut)]
        return result


def convolve(x, weights, bias, groups, windows):
    taken = windows.of(x, 0.0)
    images, channels, results, rank = x.shape[0], x.shape[1], weights.shape[0], windows.rank
    taken = taken.reshape(images, groups, channels // groups, math.prod(windows.counts), -1)
    grouped = weights.reshape(groups, results // groups, channels // groups, -1)
    y = np.einsum("ngcpk,gmck->ngmp", taken, grouped).reshape(images, results, *windows.counts)
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


@own("Conv", BLAS)
def _conv(arrays, attributes):
    x, weights = arrays[:2]
    windows = Windows(x.shape[2:], weights.shape[2:], attributes)
    return [convolve(x, weights, at(arrays, 2), attributes.get("group", 1), windows)]


@own("ConvTranspose", "the evaluator fails on groups of other sizes than their results, and adds the first one's bias to each")
def _conv_transpose(arrays, attributes):
    x, weights = arrays[:2]
    groups, rank = attributes.get("group", 1), x.ndim - 2
    kernel, per_group = weights.shape[2:], weights.shape[1]
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads, added = attributes.get("pads", [0] * 2 * rank), attributes.get("output_padding", [0] * rank)
    full = [
        (size - 1) * stride + dilation * (k - 1) + 1 + more
        for size, stride, dilation, k, more in zip(x.shape[2:], strides, dilations, kernel, added)
    ]
    y = np.zeros((x.shape[0], groups * per_group, *full))
    sources = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    for tap in np.ndindex(*kernel):
        part = np.einsum("ngc...,gcm->ngm...", sources, grouped[(..., *tap)])
        cut = tuple(
            slice(k * d, k * d + (size - 1) * s + 1, s) for k, d, size, s in zip(tap, dilations, x.shape[2:], strides)
        )
        y[(slice(None), slice(None), *cut)] += part.reshape(x.shape[0], -1, *x.shape[2:])
    cut = tuple(slice(pads[i], full[i] - pads[rank + i]) for i in range(rank))
    y = y[(slice(None), slice(None), *cut)]
    return [y if at(arrays, 2) is None else y + arrays[2].reshape(-1, *[1] * rank)]


@own("MaxPool", "the evaluator takes a window's largest number beside NaN, and rounds down where SAME_LOWER rounds up")
def _max_pool(arrays, attributes):
    (x,) = arrays
    windows = Windows(x.shape[2:], attributes["kernel_shape"], attributes)
    lowest = -np.inf if x.dtype == np.float64 else np.iinfo(x.dtype).min
    return [windows.of(x, lowest).max(axis=tuple(range(-windows.rank, 0)))]


@own("GlobalMaxPool", "the evaluator drops a dimension of one-dimensional images")
def _global_max_pool(arrays, attributes):
    return [arrays[0].max(axis=tuple(range(2, arrays[0].ndim)), keepdims=True)]


@own("AveragePool", "the evaluator moves windows to the left where ceil_mode adds to the right")
def _average_pool(arrays, attributes):
    (x,) = arrays
    windows = Windows(x.shape[2:], attributes["kernel_shape"], attributes)
    axes = tuple(range(-windows.rank, 0))
    counted = np.ones((1, 1, *x.shape[2:]))
    inner = windows
    if attributes.get("count_include_pad"):
        pads = [(0, 0), (0, 0), *zip(windows.before, windows.after)]
        counted = np.pad(counted, pads, constant_values=1.0)
        inner = Windows(x.shape[2:], attributes["kernel_shape"], attributes)
        inner.sizes, inner.before = counted.shape[2:], [0] * windows.rank
    return [windows.of(x, 0.0).sum(axis=axes) / np.maximum(inner.of(counted, 0.0).sum(axis=axes), 1)]


@own("LpPool", "the evaluator moves windows to the left where ceil_mode adds to the right")
def _lp_pool(arrays, attributes):
    (x,) = arrays
    windows = Windows(x.shape[2:], attributes["kernel_shape"], attributes)
    axes, p = tuple(range(-windows.rank, 0)), attributes.get("p", 2)
    return [(windows.of(np.abs(x), 0.0) ** p).sum(axis=axes) ** (1 / p)]


def normalise_channels(x, rows, scale, bias, attributes):
    shape = x.shape
    x = x.reshape(rows, -1)
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + attributes.get("epsilon", 1e-5))
    across = (shape[1], *[1] * (len(shape) - 2))
    scale, bias = (np.repeat(one, shape[1] // len(one)).reshape(across) for one in (scale, bias))
    return (centred / deviation).reshape(shape) * scale + bias


@own("GroupNormalization", "the evaluator computes it in f32")
def _group_norm(arrays, attributes):
    x, scale, bias = arrays
    return [normalise_channels(x, x.shape[0] * attributes["num_groups"], scale, bias, attributes)]


@own("InstanceNormalization", "the evaluator lets a scale of infinity meet the differences before they are divided")
def _instance_norm(arrays, attributes):
    x, scale, bias = arrays
    return [normalise_channels(x, x.shape[0] * x.shape[1], scale, bias, attributes)]


@own("Resize", "the evaluator computes cubic weights in f32, as its attribute is")
def _resize(arrays, attributes):
    defaults = {
        "antialias": 0,
        "axes": None,
        "coordinate_transformation_mode": b"half_pixel",
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "extrapolation_value": 0.0,
        "keep_aspect_ratio_policy": b"stretch",
        "mode": b"nearest",
        "nearest_mode": b"round_prefer_floor",
    }
    given = {**defaults, **attributes}
    given = {name: value.decode() if isinstance(value, bytes) else value for name, value in given.items()}
    if arrays[0].dtype.kind in "ib":  # Integers are resized by "nearest"; the evaluator takes them for f64.
        places = np.arange(arrays[0].size, dtype=np.float64).reshape(arrays[0].shape)
        (chosen,) = _resize([places, *arrays[1:]], {**attributes, "extrapolation_value": -1.0})
        outside = arrays[0].dtype.type(attributes.get("extrapolation_value", 0.0))
        return [np.where(chosen < 0, outside, arrays[0].reshape(-1)[chosen.astype(np.int64)])]
    scales = at(arrays, 2)
    scales = None if scales is None else np.asarray(scales, np.float32).astype(np.float64)
    return list(Resize._run(None, arrays[0], None, scales, at(arrays, 3), **given))


class WideGridSample(GridSample):
    def _gs_denormalize_coordinates(self, n, dims, align_corners):
        return np.asarray([self._gs_denormalize(x, length, align_corners) for x, length in zip(n, dims)])


@own("GridSample", "the evaluator rounds places to f32, and knows no mode by the name of opset 16")
def _grid_sample(arrays, attributes):
    mode = attributes.get("mode", b"linear").decode().removeprefix("bi")
    padding = attributes.get("padding_mode", b"zeros").decode()
    sample = object.__new__(WideGridSample)
    sample.align_corners = 0  # An argument of 0 is replaced by it.
    return list(sample._run(*arrays, mode, padding, attributes.get("align_corners", 0)))


from . import runtime_reference  # noqa: E402,F401  What registers itself here, too.
