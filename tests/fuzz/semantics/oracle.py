"""What a graph's results may be.

Every node is evaluated by the onnx package's reference evaluator, on floats in f64 and integers as they are, many times
over: once rounded to the value's type after every op (what ONNX says), once rounded to f32 (what a fused kernel keeps),
and several times with each op's rounding error drawn at random. How far these runs lie apart is how far a right result
may lie from the first: where terms cancel it is far, and else a few units in the last place. Where the runs differ in
NaN, infinity or an integer, a result may be what any of them has.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from .reference import OWN_REFERENCE, Exactly
from .values import BF16, F16, F32, FLOATS, MANTISSA_BITS, SMALLEST_NORMAL, kept, round_to, ulp

RUNS = 8  # The two without errors, and six with.
ALLOWANCE = 4  # Times the runs' spread.
# Kernels may take for 0 what f32 does not hold with all its digits; the CPU's exp does so up to sqrt(2) above.
NEXT_TO_NOTHING = 1.42 * SMALLEST_NORMAL[F32]
UNIT = 4 * 2.0**-24  # An op's relative error: kernels' functions are right within 2e-7 (tests/numerics).

# Numbers that an op's definition uses where a node does not say others.
DEFAULTS = {
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "Swish": {"alpha": 1.0},
    "com.microsoft.QuickGelu": {"alpha": 1.702},
}

# Ops whose results are elements of their operands, or exact.
EXACT = set(
    """Abs And ArgMax ArgMin Cast CastLike Ceil Clip Concat Constant ConstantOfShape DepthToSpace Dropout Equal
    Expand EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual Identity If
    IsInf IsNaN Less LessOrEqual Loop Max MaxPool Min Neg NonZero Not OneHot Or Pad Range ReduceMax ReduceMin Relu
    Reshape Round ScatterElements ScatterND Shape Sign Size Slice SpaceToDepth Split Squeeze TensorScatter
    ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor""".split()
)
# Ops that add up: their error is relative to what they add, as if the operands were off.
SUMS = set(
    """AveragePool BatchNormalization Conv ConvTranspose CumSum Gemm GlobalAveragePool GroupNormalization
    Col2Im DFT GridSample InstanceNormalization LpPool Resize HardSigmoid HardSwish LayerNormalization LogSoftmax MatMul Mean RMSNormalization
    ReduceL1 ReduceL2 ReduceMean ReduceSum ReduceSumSquare SimplifiedLayerNormalization Softmax Sum Attention Tan
    RotaryEmbedding ScatterElements+add ScatterElements+mul ScatterND+add ScatterND+mul com.microsoft.RotaryEmbedding com.microsoft.SimplifiedLayerNormalization com.microsoft.QuickGelu
    com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization com.microsoft.FusedMatMul
    com.microsoft.BiasGelu com.microsoft.FastGelu Einsum LpNormalization ReduceLogSum ReduceLogSumExp Shrink Swish
    com.microsoft.Attention com.microsoft.BiasAdd com.microsoft.BiasSoftmax com.microsoft.BiasSplitGelu
    com.microsoft.EmbedLayerNormalization com.microsoft.FusedGemm com.microsoft.GatedRelativePositionBias
    com.microsoft.GemmFastGelu com.microsoft.GroupNorm com.microsoft.GroupQueryAttention
    com.microsoft.MultiHeadAttention com.microsoft.PackedAttention com.microsoft.PackedMultiHeadAttention
    com.microsoft.SkipGroupNorm DequantizeLinear com.microsoft.DequantizeLinear
    com.microsoft.GatherBlockQuantized com.microsoft.MatMulNBits com.microsoft.NhwcConv""".split()
)
# x (1 + erf(x / sqrt 2)) / 2 cancels below zero, as ONNX writes it too: its error is relative to x.
GELUS = {"Gelu", "com.microsoft.Gelu", "com.microsoft.BiasGelu", "com.microsoft.FastGelu"}
# Ops that are written as several, as exporters do: what lies between may be stored, rounded to the type.
SEVERAL = set(
    """Attention Conv ConvTranspose Einsum Gemm GroupNormalization InstanceNormalization ScatterElements+add
    ScatterElements+mul ScatterND+add ScatterND+mul Sum com.microsoft.Attention com.microsoft.BiasAdd
    com.microsoft.BiasSoftmax com.microsoft.BiasSplitGelu com.microsoft.EmbedLayerNormalization
    com.microsoft.FusedGemm com.microsoft.GatedRelativePositionBias com.microsoft.GemmFastGelu
    com.microsoft.GroupNorm com.microsoft.GroupQueryAttention com.microsoft.MatMulNBits com.microsoft.NhwcConv
    com.microsoft.MultiHeadAttention com.microsoft.PackedAttention com.microsoft.PackedMultiHeadAttention
    com.microsoft.SkipGroupNorm com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization""".split()
)
# A gelu of a part or of a product: its error is relative to what it is taken of, times what it is multiplied by.
INNER_GELUS = {"com.microsoft.BiasSplitGelu", "com.microsoft.GemmFastGelu"}
# The logarithm of a sum, whose error shows whole where the sum is near 1.
LOG_SUMS = {"ReduceLogSum", "ReduceLogSumExp"}
# Ops of one operand that are written as several, and how many of the numbers between may be stored, rounded to the type:
# a sine and a cosine, 1 + |x|. All of them are factors.
FACTORS_BETWEEN = {"Softsign": 1, "Tan": 2}
# What they take is a sum, which may be stored.
BIASED = {"com.microsoft.BiasGelu", "com.microsoft.FastGelu"}
# An element and the sum that holds it may have x with and without its last rounding: in x - max, x may be a product that
# is rounded together with the difference.
EXPONENTIALS = {"LogSoftmax", "Softmax"}
# The logarithm of a sum near 1.
LOGARITHMS = {"LogSoftmax"}
# Norms that subtract a mean, which is rounded: an error of all of a row at once. What they normalise and their weight.
CENTRED = {
    "GroupNormalization": lambda operands: (operands[0], across_channels(operands)),
    "InstanceNormalization": lambda operands: (operands[0], across_channels(operands)),
    "LayerNormalization": lambda operands: (operands[0], operands[1]),
    "com.microsoft.SkipLayerNormalization": lambda operands: (
        operands[0] + operands[1] + (operands[4] if len(operands) > 4 and operands[4] is not None else 0),
        operands[2],
    ),
}


def across_channels(operands):
    x, scale = operands[:2]
    return np.repeat(scale, x.shape[1] // len(scale)).reshape(x.shape[1], *[1] * (x.ndim - 2))


def added_up(name, operands, result):
    """How many numbers each of the result is the sum of. Adding in a row errs with their number, at worst by a half unit
    each; a quarter of that is allowed."""
    if name in ("Conv", "ConvTranspose", "com.microsoft.NhwcConv"):
        return operands[1].size // operands[1].shape[0]
    if name.startswith("Reduce") or name == "GlobalAveragePool":
        return operands[0].size / max(result.size, 1)
    if name == "Einsum":
        return max(operand.size for operand in operands)
    return operands[0].shape[-1] if "MatMul" in name and operands[0].ndim else 1


def gelu_scale(name, operands):
    if name == "com.microsoft.BiasSplitGelu":
        left, right = np.split(operands[0] + operands[1], 2, -1)
        scale = np.abs(left * right)
    else:
        scale = np.abs(operands[0] @ operands[1] + (operands[2] if len(operands) > 2 and operands[2] is not None else 0))
    return np.where(np.isfinite(scale), scale, 0)


def error_of_mean(function, operands):
    x, weight = CENTRED[function.name](operands)
    attributes = {one.name: helper.get_attribute_value(one) for one in function.node.attribute}
    if function.name in ("GroupNormalization", "InstanceNormalization"):
        rows = x.shape[0] * attributes.get("num_groups", x.shape[1])
        x, weight = x.reshape(rows, -1), np.broadcast_to(weight, x.shape).reshape(rows, -1)
        return error_in_rows(x, weight, (1,), attributes).reshape(operands[0].shape)
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    return error_in_rows(x, weight, axes, attributes)


def error_in_rows(x, weight, axes, attributes):
    deviation = np.sqrt(np.var(x, axis=axes, keepdims=True) + attributes.get("epsilon", 1e-5))
    error = UNIT * np.max(np.abs(x), axis=axes, keepdims=True) / deviation * np.abs(weight)
    return np.where(np.isfinite(error), error, 0)


def full_name(node):
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


class NodeFunction:
    """A node as a function of arrays: floats in f64, whatever the model's types are."""

    def __init__(self, node, opset):
        self.node, self.name = node, full_name(node)
        self.is_undefined = self.name in ("Cast", "CastLike")
        self.run = self._function(node, opset)
        reduction = next((one.s.decode() for one in node.attribute if one.name == "reduction"), "none")
        if reduction in ("add", "mul"):  # What else a scatter does is exact.
            self.name += f"+{reduction}"
        self.rounded = {}  # By type: with attributes of that type, as the functions that define ONNX's ops cast them.
        self.opset = opset

    def of_attributes(self, dtype):
        """The same with its numbers rounded to a type."""
        if dtype not in self.rounded:
            node = onnx.NodeProto()
            node.CopyFrom(self.node)
            for name, value in DEFAULTS.get(self.name, {}).items():
                if not any(attribute.name == name for attribute in node.attribute):
                    node.attribute.append(helper.make_attribute(name, value))
            numbers = [one for one in node.attribute if one.type == onnx.AttributeProto.FLOAT and one.name != "epsilon"]
            for attribute in numbers:
                attribute.f = float(round_to(np.asarray(attribute.f), dtype))
            self.rounded[dtype] = self._function(node, self.opset) if numbers else self.run
        return self.rounded[dtype]

    def _function(self, node, opset):
        own = OWN_REFERENCE.get(self.name)
        return own.function(node) if own and opset in own.opsets else self._evaluator(node, opset)

    @staticmethod
    def _evaluator(node, opset):
        wide = onnx.NodeProto()
        wide.CopyFrom(node)
        for attribute in wide.attribute:
            if attribute.name == "to" and attribute.i in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT):
                attribute.i = TensorProto.DOUBLE
        names = [name for name in node.input if name]
        graph = helper.make_graph(
            [wide],
            "node",
            [helper.make_value_info(name, onnx.TypeProto()) for name in dict.fromkeys(names)],
            [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        evaluator = ReferenceEvaluator(model)
        outputs = [name for name in node.output if name]

        def run(arrays, between):
            results = evaluator.run(outputs, {name: array for name, array in zip(node.input, arrays) if name})
            given = iter(results)
            return [next(given) if name else None for name in node.output]

        return run

    def __call__(self, arrays, dtype=None, between=Exactly()):
        """`dtype` is that of its attributes, if they are rounded."""
        run = self.of_attributes(dtype) if dtype else self.run
        with np.errstate(all="ignore"):
            return [None if result is None else kept(result) for result in run(arrays, between)]


class Rounded(Exactly):
    """Numbers between an op's operands and its results as a kernel may keep them: off, stored in the op's type or not."""

    def __init__(self, run, dtype):
        self.run, self.dtype = run, dtype if dtype in FLOATS else F32

    def stored(self, array):
        unit = max(UNIT, 2.0 ** -MANTISSA_BITS[self.dtype]) if self.run.noise.random() < 0.5 else UNIT
        return self.run.flushed(round_to(self.run.off(array, unit), F32))

    def reassociates(self):
        return self.run.noise.random() < 0.5


class Run:
    """One evaluation of a graph: how it errs is its own matter."""

    def __init__(self, number, seed):
        self.number = number
        self.noise = np.random.default_rng((seed, number))

    def off(self, array, unit=UNIT):
        return array * (1 + unit * self.noise.uniform(-1, 1, array.shape))

    def flushed(self, array):
        """What f32 does not hold with all its digits as it is, or as 0."""
        return np.where(np.abs(array) < NEXT_TO_NOTHING, 0 * array, array) if self.noise.random() < 0.5 else array

    def between(self, dtype):
        return Exactly() if self.number < 2 else Rounded(self, dtype)

    def of_attributes(self, dtype):
        """The type that a node's attributes are rounded to, if they are."""
        return dtype if self.number >= 2 and dtype in (F16, BF16) and self.noise.random() < 0.5 else None

    def operands(self, name, arrays, dtype):
        if self.number < 2 or name not in SUMS:
            return arrays
        if name in BIASED and len(arrays) > 1 and arrays[1] is not None:
            stored = 2.0 ** -MANTISSA_BITS[dtype] * np.abs(arrays[0] + arrays[1])
            stored = np.where(np.isfinite(stored), stored, 0)
            arrays = [arrays[0] + stored * self.noise.uniform(-1, 1, stored.shape), *arrays[1:]]
        unit = max(UNIT, 2.0 ** -MANTISSA_BITS[dtype]) if name in SEVERAL and dtype in FLOATS else UNIT
        if name == "Resize":  # Its scales are exact.
            return [self.off(arrays[0], unit) if arrays[0].dtype == np.float64 else arrays[0], *arrays[1:]]
        if name == "GridSample":  # What a place is computed from is 1 larger than the grid's number.
            x, grid = arrays
            places = UNIT * (1 + np.abs(grid)) * self.noise.uniform(-1, 1, grid.shape)
            return [self.off(x, unit) if x.dtype == np.float64 else x, grid + places]
        return [array if array is None or array.dtype != np.float64 else self.off(array, unit) for array in arrays]

    def result(self, function, array, dtype, operands, is_first):
        name = function.name
        if array is None or dtype not in FLOATS:
            return array
        if self.number >= 2 and name not in EXACT:
            array = self.off(array, UNIT * max(1, added_up(name, operands, array) / 64))
            for _ in range(FACTORS_BETWEEN.get(name, 0)):
                array = self.off(array, 2.0 ** -MANTISSA_BITS[dtype])
            if name in EXPONENTIALS:
                rounding = 2.0**-24 * np.abs(operands[0]) * self.noise.uniform(-1, 1, array.shape)
                rounding = np.where(np.isfinite(rounding), rounding, 0)
                array = array + rounding if name in LOGARITHMS else array * (1 + rounding)
            if name in GELUS:
                array = array + UNIT * self.noise.uniform(-1, 1, array.shape) * np.abs(sum(operands[1:], operands[0]))
            if name in CENTRED and is_first:
                array = array + error_of_mean(function, operands) * self.noise.uniform(-1, 1, array.shape)
            if name in LOG_SUMS:
                array = array + UNIT * max(1, added_up(name, operands, array) / 64) * self.noise.uniform(-1, 1, array.shape)
            if name in INNER_GELUS:
                array = array + UNIT * self.noise.uniform(-1, 1, array.shape) * gelu_scale(name, operands)
            if name in ("com.microsoft.QuickGelu", "Swish"):  # The logistic function may be taken for 0.
                array = array + NEXT_TO_NOTHING * self.noise.uniform(-1, 1, array.shape) * np.nan_to_num(operands[0])
            if name == "GridSample" and "cubic" in str(function.node.attribute):  # Weights are sums of numbers up to 6.
                array = array + 6 * UNIT * np.max(np.abs(operands[0])) * self.noise.uniform(-1, 1, array.shape)
            if name == "Resize":  # A weight of 0, rounded in f64.
                array = array + 2.0**-48 * np.max(np.abs(operands[0])) * self.noise.uniform(-1, 1, array.shape)
            if name in LOGARITHMS:
                array = array + UNIT * self.noise.uniform(-1, 1, array.shape)
                is_one = self.noise.random(array.shape) < 0.5  # The sum next to 1, rounded; its logarithm is 0 then.
                array = np.where((np.abs(array) <= UNIT) & is_one, 0.0, array)
        rounds = self.number == 0 or (self.number > 1 and self.noise.random() < 0.5)
        exact, array = array, round_to(array, dtype if rounds else F32)
        if self.number < 2:
            return array
        if name in SUMS and self.noise.random() < 0.5:  # 0 + -0 is 0; a sum of one number may be that number.
            array = np.where(array == 0, -array, array)
        # A kernel that fuses ops does not store what lies between them: it may be smaller than any number of f32.
        if not rounds and self.noise.random() < 0.5:
            array = np.where(np.abs(exact) < NEXT_TO_NOTHING, exact, array)
        return self.flushed(array)

    def undefined(self, array, source):
        """Integers that ONNX leaves open, of floats that are NaN or out of range, are something else in every run."""
        if array.dtype not in (np.int32, np.int64) or source.dtype != np.float64:
            return array
        limits = np.iinfo(array.dtype)
        is_open = ~((source > float(limits.min) - 1) & (source < float(limits.max)))
        anything = self.noise.integers(limits.min, limits.max, array.shape, dtype=array.dtype)
        return np.where(is_open, anything, array)


def evaluate_node(function, arrays, dtypes, run):
    """The node's results, of `dtypes`, in one run."""
    with np.errstate(all="ignore"):
        arrays = run.operands(function.name, arrays, dtypes[0])
        results = function(arrays, run.of_attributes(dtypes[0]), run.between(dtypes[0]))
        if function.is_undefined:
            results = [run.undefined(results[0], arrays[0])]
        return [
            run.result(function, array, dtype, arrays, i == 0) for i, (array, dtype) in enumerate(zip(results, dtypes))
        ]


def evaluate(graph, run):
    """Every value of a graph by name."""
    values = {value.name: value.array for value in graph.sources}
    for step in graph.steps:
        arrays = [values[name] if name else None for name in step.node.input]
        results = evaluate_node(step.function, arrays, step.dtypes, run)
        for name, array in zip(step.node.output, results):
            if name:
                values[name] = array
    return values


@dataclass
class Difference:
    output: str
    index: tuple
    found: object
    expected: object
    allowed: object

    def __str__(self):
        return f"{self.output}{list(self.index)} is {self.found}, expected {self.expected} +- {self.allowed:.3g}"


class Expectation:
    """What the outputs of a graph may be."""

    def __init__(self, graph, runs=RUNS):
        self.graph = graph
        self.runs = [evaluate(graph, Run(number, graph.seed)) for number in range(runs)]

    def runs_count(self):
        return len(self.runs)

    def extend(self, runs):
        """More runs, to be sure of a difference."""
        for number in range(len(self.runs), runs):
            self.runs.append(evaluate(self.graph, Run(number, self.graph.seed)))

    def difference(self, output, found):
        """The first element that is wrong, or nothing."""
        expected = [run[output.name] for run in self.runs]
        found = kept(found)
        allowed = (
            self._allowed(expected, output.dtype) if output.dtype in FLOATS else np.zeros(np.shape(expected[0]))
        )
        wrong = self._wrong_floats(found, expected, allowed) if output.dtype in FLOATS else self._wrong(found, expected)
        if not wrong.any():
            return None
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        return Difference(output.name, index, found[index], expected[0][index], float(allowed[index]))

    @staticmethod
    def _wrong(found, expected):
        agree = np.all([one == expected[0] for one in expected], axis=0)
        return agree & (found != expected[0])

    @staticmethod
    def _allowed(expected, dtype):
        with np.errstate(all="ignore"):
            apart = [np.where(np.isfinite(one - expected[0]), np.abs(one - expected[0]), 0) for one in expected]
        return ALLOWANCE * np.max(apart, axis=0) + ulp(np.nan_to_num(expected[0]), dtype) + NEXT_TO_NOTHING

    @staticmethod
    def _wrong_floats(found, expected, allowed):
        with np.errstate(all="ignore"):
            is_near = np.abs(found - expected[0]) <= allowed
            isnt_here = ~(np.isfinite(found) & np.any([np.isfinite(one) for one in expected], axis=0))
            has_same = np.any([(found == one) | (np.isnan(found) & np.isnan(one)) for one in expected], axis=0)
            # Finite only in a run with errors: how far away it may be cannot be told.
            is_open = np.isfinite(found) & ~np.isfinite(expected[0]) & ~isnt_here
        return ~np.where(isnt_here, has_same, is_near | is_open)
