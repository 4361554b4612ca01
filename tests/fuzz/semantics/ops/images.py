"""Generators of convolutions, pools, resizing and sampling."""

import math

import numpy as np

from ..graph import CONTRIB, Reject
from ..values import FLOATS, F32, round_to
from .registry import generator


def _spatial(b, op):
    """[N, C, S...], of three dimensions of space at most."""
    return b.operand(op, low=3, high=5 if b.chance(0.15) else 4, fits=lambda value: value.array.size <= 800)


def _window_attributes(b, sizes, dilates=True, ceils=False):
    """kernel_shape and the rest, so that windows fit."""
    patches = b.chance(0.25)
    kernel, strides, dilations, before, after = [], [], [], [], []
    for size in sizes:
        length = b.rng.choice([k for k in (1, 2, 3, 3, 4, 8) if k <= size + 2])
        stride = length if patches else b.rng.choice((1, 1, 1, 2, 3))
        dilation = b.rng.choice((1, 1, 1, 2, 3)) if dilates and not patches else 1
        reach = dilation * (length - 1) + 1
        most = max(min(reach - 1, 4), 0)
        low, high = (0, 0) if patches and size >= reach else (b.rng.randint(0, most), b.rng.randint(0, most))
        if size + low + high < reach:
            length = dilation = 1
            low = high = 0
        kernel.append(length), strides.append(stride), dilations.append(dilation)
        before.append(low), after.append(high)
    attributes = {"strides": strides if set(strides) != {1} or b.chance(0.5) else None}
    if dilates and set(dilations) != {1}:
        attributes["dilations"] = dilations
    fits = all(size >= d * (k - 1) + 1 for size, d, k in zip(sizes, dilations, kernel))
    if b.chance(0.2) and (fits or b.chance(0.5)):
        attributes["auto_pad"] = b.rng.choice(("SAME_UPPER", "SAME_LOWER", *["VALID"] * fits))
    elif any(before + after) or b.chance(0.3):
        attributes["pads"] = before + after
    if ceils and "auto_pad" not in attributes:
        attributes["ceil_mode"] = b.rng.choice((None, None, 1))
    return kernel, attributes


@generator("Conv", "ConvTranspose")
def _conv(b):
    x = _spatial(b, b.op)
    channels = x.shape[1]
    groups = b.rng.choice([1, 1, channels, *[g for g in (2, 3, 4, 8) if channels % g == 0]])
    per_group = b.rng.choice((1, 1, 2, 3, 8)) if groups > 1 else b.rng.choice((1, 2, 5, 8, 16))
    kernel, attributes = _window_attributes(b, x.shape[2:])
    if b.op == "Conv":
        shape = (groups * per_group, channels // groups, *kernel)
    else:
        shape = (channels, per_group, *kernel)
        attributes.pop("auto_pad", None)
        strides = attributes.get("strides") or [1] * len(kernel)
        if b.chance(0.3):
            attributes["output_padding"] = [b.rng.randint(0, stride - 1) for stride in strides]
    weights = b.fresh(x.dtype, shape, b.rng.choice(("parameter", "initializer", "input")))
    if b.op == "ConvTranspose" and not np.isfinite(weights.array).all():
        raise Reject("zeros between the elements of x, which are not there by ONNX, meet infinity")
    bias = b.fresh(x.dtype, (groups * per_group,), "parameter") if b.chance(0.6) else None
    if groups != 1 or b.chance(0.3):
        attributes["group"] = groups
    (y,) = b.node(b.op, [x, weights, bias], kernel_shape=kernel if b.chance(0.7) else None, **attributes)
    if y.array.size == 0:
        raise Reject("pads cut everything off")


@generator("com.microsoft.NhwcConv")
def _conv_channels_last(b):
    dtype = b.some_dtype(b.floats())
    places = [b.rng.choice((1, 3, 5, 8)) for _ in range(b.rng.choice((1, 2, 2)))]
    groups, per_group, results = b.rng.choice((1, 1, 2, 3)), b.rng.choice((1, 2, 8)), b.rng.choice((1, 3, 4))
    x = b.finite(dtype, (b.rng.choice((1, 2)), *places, groups * per_group))
    kernel, attributes = _window_attributes(b, places)
    weights = b.finite(dtype, (groups * results, *kernel, per_group))
    bias = b.finite(dtype, (groups * results,)) if b.chance(0.6) else None
    (y,) = b.node("NhwcConv", [x, weights, bias], domain=CONTRIB, kernel_shape=kernel, group=groups, **attributes)
    if y.array.size == 0:
        raise Reject("pads cut everything off")


@generator("MaxPool", "AveragePool", "LpPool")
def _pool(b):
    x = _spatial(b, b.op)
    dilates = b.op == "MaxPool" or b.opset >= (19 if b.op == "AveragePool" else 18)
    kernel, attributes = _window_attributes(b, x.shape[2:], dilates, ceils=b.op != "LpPool" or b.opset >= 18)
    rank = len(kernel)
    pads = attributes.get("pads", [0] * 2 * rank)
    if any(pads[i] >= kernel[i] or pads[rank + i] >= kernel[i] for i in range(rank)):
        raise Reject("a window of pads alone")
    if b.op == "AveragePool":
        attributes["count_include_pad"] = b.rng.choice((None, 0, 1))
    if b.op == "LpPool":
        attributes["p"] = b.rng.choice((None, 1, 2))
    b.node(b.op, [x], kernel_shape=kernel, **attributes)


@generator("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(b):
    b.node(b.op, [_spatial(b, b.op)])


@generator("InstanceNormalization", "GroupNormalization")
def _channel_norm(b):
    x = _spatial(b, b.op)
    groups = x.shape[1]
    attributes = {"epsilon": b.rng.choice((None, 1e-3))}
    count = groups
    if b.op == "GroupNormalization":
        groups = b.rng.choice([g for g in range(1, groups + 1) if groups % g == 0])
        attributes["num_groups"] = groups
        count = x.shape[1] if b.opset >= 21 else groups
    if x.array.size == x.shape[0] * groups:
        raise Reject("rows of one element")
    b.node(b.op, [x, *(b.fresh(x.dtype, (count,)) for _ in range(2))], **attributes)


@generator("Resize")
def _resize(b):
    mode = b.rng.choice(("nearest", "linear", "linear", "cubic"))
    x = b.pick([d for d in b.dtypes("Resize") if d in FLOATS or mode == "nearest"], low=2, fits=lambda v: v.array.size <= 800)
    if x.dtype in FLOATS and not np.isfinite(x.array).all():
        raise Reject("the evaluator's weights of 0 meet infinity")
    count = b.rng.choice((1, 2, 2, x.rank))
    axes = sorted(b.rng.sample(range(x.rank), min(count, x.rank)))
    factors = [b.rng.choice((0.5, 1, 2, 2, 3, 1.5, 0.75)) if i in axes else 1 for i in range(x.rank)]
    sizes = [max(int(size * factor), 1) for size, factor in zip(x.shape, factors)]
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": b.rng.choice(
            (None, "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
        ),
    }
    if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel" and 1 in sizes:
        raise Reject("the evaluator takes -0.5 for the place of a single result, ONNX says 0")
    if mode == "nearest":
        attributes["nearest_mode"] = b.rng.choice((None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = b.rng.choice((None, -0.5))
        attributes["exclude_outside"] = b.rng.choice((None, 1))
    if mode != "nearest" and b.opset >= 18 and b.chance(0.3):
        attributes["antialias"] = 1
    # The evaluator takes length * scale for the resized length, ONNX the whole number.
    whole = all(size == length * factor for size, length, factor in zip(sizes, x.shape, factors))
    chosen = list(range(x.rank))
    if b.opset >= 18 and b.chance(0.4):
        attributes["axes"] = chosen = axes
    if whole and b.chance(0.5):
        scales = b.source(np.asarray([float(factors[i]) for i in chosen]), F32, "initializer")
        b.node("Resize", [x, None, scales], **attributes)
    else:
        b.node("Resize", [x, None, None, b.known([sizes[i] for i in chosen])], **attributes)


@generator("GridSample")
def _grid_sample(b):
    mode = b.rng.choice(("nearest", "linear", "linear", "cubic"))
    rank = 2 if b.opset < 20 else b.rng.choice((2, 2, 3) if mode != "cubic" else (2,))
    dtypes = [dtype for dtype in b.dtypes("GridSample") if dtype in FLOATS or mode == "nearest"]
    x = b.pick(dtypes, low=rank + 2, high=rank + 2, fits=lambda v: v.array.size <= 400)
    if x.dtype in FLOATS and not np.isfinite(x.array).all():
        raise Reject("a weight of 0 meets infinity")
    aligned = b.rng.choice((None, 0, 1))
    shape = (x.shape[0], *(b.rng.choice((1, 2, 3, 5)) for _ in range(rank)))
    # Places that are no ties of the nearest element, nor where a kernel begins to leave the image.
    far = b.chance(0.2)
    numbers = np.empty((*shape, rank))
    for i, size in enumerate(reversed(x.shape[2:])):
        beyond = 2 * size if far else 2
        for at in np.ndindex(shape):
            place = b.rng.randint(-beyond, size - 1 + beyond) + b.rng.uniform(-0.4, 0.4)
            numbers[at + (i,)] = 2 * place / max(size - 1, 1) - 1 if aligned else (2 * place + 1) / size - 1
    allowed = [dtype for dtype in b.dtypes("GridSample", 1) if dtype in (F32, x.dtype) and dtype in FLOATS]
    dtype = F32 if far else b.rng.choice(allowed)  # In 16 bits distant places are ties.
    grid = b.source(round_to(numbers, dtype), dtype)
    names = {"linear": "bilinear", "cubic": "bicubic"} if b.opset < 20 else {}
    b.node("GridSample", [x, grid], x.dtype, mode=names.get(mode, mode), align_corners=aligned,
           padding_mode=b.rng.choice((None, "zeros", "border", "reflection")))


@generator("Col2Im")
def _col2im(b):
    rank = b.rng.choice((1, 2, 2))
    lengths, strides, dilations, counts, pads = ([b.rng.choice(sizes) for _ in range(rank)] for sizes in
                                                 ((1, 2, 3), (1, 2, 3), (1, 1, 2), (1, 2, 3), (0, 0, 1)))
    after = [b.rng.choice((0, 0, 1)) for _ in range(rank)]
    image = [(count - 1) * stride + dilation * (length - 1) + 1 - before - behind + b.rng.randint(0, stride - 1)
             for length, stride, dilation, count, before, behind in zip(lengths, strides, dilations, counts, pads, after)]
    if min(image) < 1:
        raise Reject("an image without elements")
    dtype = b.some_dtype([dtype for dtype in b.dtypes("Col2Im") if dtype in FLOATS])
    x = b.fresh(dtype, (b.rng.choice((1, 2)), b.rng.choice((1, 3)) * math.prod(lengths), math.prod(counts)))
    if not np.isfinite(x.array).all():
        raise Reject("the evaluator adds 0 times infinity")
    b.node("Col2Im", [x, b.known(image), b.known(lengths)], strides=strides, dilations=dilations, pads=[*pads, *after])


@generator("DFT")
def _dft(b):
    dtypes = [dtype for dtype in b.dtypes("DFT") if dtype in FLOATS]
    rank = b.rng.choice((3, 3, 4))
    shape = [b.rng.choice((1, 2, 3)) for _ in range(rank)]
    axis = b.rng.randint(1, rank - 2)
    shape[axis], shape[-1] = b.rng.choice((2, 3, 5, 8, 13)), b.rng.choice((1, 2))
    inverse, onesided = b.rng.choice((None, 0, 1)), b.rng.choice((None, 0, 1))
    if inverse and onesided:
        shape[-1] = 2
    if onesided and not inverse:
        shape[-1] = 1
    x = b.fresh(b.some_dtype(dtypes), tuple(shape))
    if not np.isfinite(x.array).all():
        raise Reject("a fast transform adds what a product does not")
    length = b.known(np.asarray(shape[axis] + b.rng.choice((-1, 1, 2)))) if b.chance(0.3) else None
    axis -= b.rng.choice((0, rank))
    if b.opset < 20:
        b.node("DFT", [x, length], axis=axis, inverse=inverse, onesided=onesided)
    else:
        b.node("DFT", [x, length, b.known(np.asarray(axis))], inverse=inverse, onesided=onesided)
