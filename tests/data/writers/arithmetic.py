"""Elementwise ops, reductions, norms and products."""
import numpy as np
from onnx import TensorProto

from writers.cases import Cases
from writers.model import F32, I64, X, Y, info, node, noise, tensor, write


def activations():
    """Activations where a plain formula loses every digit, in f32 and in bf16."""
    x, h = info("x", F32, [5]), info("h", TensorProto.BFLOAT16, [5])
    nodes = [node("Softplus", ["x"], ["softplus"]), node("Elu", ["x"], ["elu"]), node("Mish", ["x"], ["mish"]),
             node("HardSwish", ["h"], ["hard_swish"]), node("HardSigmoid", ["h"], ["hard_sigmoid"], alpha=1 / 6),
             node("LeakyRelu", ["h"], ["leaky_relu"]), node("Mean", ["h", "h", "h"], ["mean"])]
    outputs = [info(name, F32, None) for name in ("softplus", "elu", "mish")]
    outputs += [info(name, TensorProto.BFLOAT16, None) for name in ("hard_swish", "hard_sigmoid", "leaky_relu", "mean")]
    write("activations", nodes, [x, h], outputs, opset=22)


def integers():
    """Numbers that no f64 holds, and those beyond the ends of their types."""
    x, y = info("x", I64, [4]), info("i", TensorProto.INT32, [4])
    nodes = [node("Mul", ["x", "odd"], ["times_odd"]), node("Add", ["x", "odd_splat"], ["plus_odd"]),
             node("Cast", ["x"], ["low_bits"], to=TensorProto.INT32), node("Pow", ["x", "three"], ["cube"]),
             node("Pow", ["i", "zero"], ["ones"]), node("Mod", ["x", "seven"], ["rest"], fmod=1),
             node("Div", ["x", "minus_one"], ["quotient"]), node("Range", ["from", "to", "by"], ["range"]),
             node("Mul", ["from", "by"], ["folded"]), node("Add", ["i", "i"], ["doubled"])]
    outputs = [info(name, I64, None) for name in "times_odd plus_odd cube rest quotient range folded".split()]
    outputs += [info(name, TensorProto.INT32, None) for name in ("low_bits", "ones", "doubled")]
    odd = 2**53 + 1
    write("integers", nodes, [x, y], outputs,
          [tensor("odd", odd, np.int64), tensor("odd_splat", [odd] * 4, np.int64), tensor("three", 3, np.int64), tensor("zero", 0, np.int64),
           tensor("seven", 7, np.int64), tensor("minus_one", -1, np.int64), tensor("from", odd, np.int64),
           tensor("to", odd + 2**60 + 1, np.int64), tensor("by", 2**60, np.int64)])


def pointwise():
    cases = Cases()
    x = noise(3, 5) * 3
    for op in ("Abs Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Mish Neg Relu Sigmoid Sign Sin "
               "Softplus Softsign Tan Tanh").split():
        cases.add(op, [node(op, ["x"], ["y"])], x=x)
    for op in ("Log", "Reciprocal", "Sqrt"):
        cases.add(op, [node(op, ["x"], ["y"])], x=np.abs(x) + 0.5)
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], a=noise(2, 3, 5), b=noise(3, 1) + 2)
    cases.add("Elu_alpha", [node("Elu", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("LeakyRelu_alpha", [node("LeakyRelu", ["x"], ["y"], alpha=0.3)], x=x)
    cases.add("Gelu_tanh", [node("Gelu", ["x"], ["y"], approximate="tanh")], x=x)
    cases.add("Pow", [node("Pow", ["a", "b"], ["y"])], a=np.abs(x) + 0.1, b=noise(5))
    cases.add("Pow_integer_exponent", [node("Pow", ["a", "b"], ["y"])], a=x, b=np.int64(3))
    cases.add("Sum", [node("Sum", ["a", "b", "c"], ["y"])], a=x, b=noise(5), c=noise(3, 1))
    cases.add("Mean", [node("Mean", ["a", "b", "c"], ["y"])], a=x, b=noise(5), c=noise(3, 1))
    cases.add("Clip", [node("Clip", ["x", "low", "high"], ["y"])], x=x, low=np.float32(-0.5), high=np.float32(1))
    cases.add("Clip_above", [node("Clip", ["x", "", "high"], ["y"])], x=x, high=np.float32(0.25))
    cases.add("Fmod", [node("Mod", ["a", "b"], ["y"], fmod=1)], a=x, b=noise(3, 5) + 2.5)
    cases.add("Mod_integers", [node("Mod", ["a", "b"], ["y"])], a=np.array([-7, 7, -7, 7]), b=np.array([3, 3, -3, -3]))
    cases.add("Fmod_integers", [node("Mod", ["a", "b"], ["y"], fmod=1)], a=np.array([-7, 7, -7, 7]), b=np.array([3, 3, -3, -3]))
    cases.add("Div_integers", [node("Div", ["a", "b"], ["y"])], [-3, 3, 3, -3], a=np.array([-7, 7, -7, 7]), b=np.array([2, 2, -2, -2]))
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], a=np.float32([[1, 2], [3, 4]]), b=np.float32([2, 3]))
    logic = {"a": np.array([True, True, False, False]), "b": np.array([True, False, True, False])}
    for op in ("And", "Or", "Xor"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], **logic)
    cases.add("Not", [node("Not", ["a"], ["y"])], a=logic["a"])
    cases.add("Where", [node("Where", ["c", "a", "b"], ["y"])], c=np.array([True, False, True, False, True]), a=x, b=noise(3, 1))
    odd = np.float32([1, np.inf, -np.inf, np.nan])
    cases.add("IsNaN", [node("IsNaN", ["x"], ["y"])], x=odd)
    cases.add("IsInf", [node("IsInf", ["x"], ["y"])], x=odd)
    cases.add("IsInf_negative", [node("IsInf", ["x"], ["y"], detect_positive=0)], x=odd)
    cases.add("IsInf_none", [node("IsInf", ["x"], ["y"], detect_positive=0, detect_negative=0)], x=odd)
    cases.add("Cast_integer", [node("Cast", ["x"], ["y"], to=I64)], x=x)
    cases.add("Cast_bool", [node("Cast", ["x"], ["y"], to=TensorProto.BOOL)], x=np.float32([0, -0.0, 0.25, -3]))
    cases.add("CastLike", [node("CastLike", ["x", "i"], ["y"])], x=x, i=np.int64([1, 2]))
    cases.add("Dropout", [node("Dropout", ["x"], ["y"])], x=x)
    cases.add("Dropout_mask", [node("Dropout", ["x"], ["n", "y"])], np.ones((3, 5)), x=x)
    cases.add("BatchNormalization", [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)],
              x=noise(2, 3, 4), s=noise(3), b=noise(3), m=noise(3), v=np.abs(noise(3)) + 0.1)
    cases.write("ops_pointwise")


def rows():
    cases = Cases()
    x = noise(2, 3, 4)
    axes = np.array([0, -1])
    for op in ("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare"):
        cases.add(f"Reduce{op}", [node(f"Reduce{op}", ["x", "a"], ["y"])], x=x, a=axes)
        cases.add(f"Reduce{op}_dropped", [node(f"Reduce{op}", ["x", "a"], ["y"], keepdims=0)], x=x, a=axes[:1])
        cases.add(f"Reduce{op}_all", [node(f"Reduce{op}", ["x"], ["y"], keepdims=0)], x=x)
    cases.add("ReduceSum_noop", [node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)], x=x)
    cases.add("ReduceProd", [node("ReduceProd", ["x"], ["y"], keepdims=0)], x=np.array([2, 3, 7]))
    for axis in (0, 1, -1):
        cases.add(f"Softmax_{axis}", [node("Softmax", ["x"], ["y"], axis=axis)], x=x)
        far = (x * 50).astype(np.float64)  # Whose exponentials no f32 holds.
        cases.add(f"LogSoftmax_{axis}", [node("LogSoftmax", ["x"], ["y"], axis=axis)], far - np.logaddexp.reduce(far, axis, keepdims=True), x=x * 50)
        dims = x.shape[axis:]
        cases.add(f"LayerNormalization_{axis}", [node("LayerNormalization", ["x", "w", "b"], ["y"], axis=axis, epsilon=1e-2)],
                  x=x, w=noise(*dims), b=noise(*dims))
        cases.add(f"RMSNormalization_{axis}", [node("RMSNormalization", ["x", "w"], ["y"], axis=axis)], x=x, w=noise(*dims))
    cases.add("LayerNormalization_scalar_weight", [node("LayerNormalization", ["x", "w"], ["y"], axis=1)], x=x, w=noise(4))

    shapes = {"matrices": ((3, 4), (4, 5)), "batches": ((2, 1, 3, 4), (5, 4, 2)), "vector_matrix": ((4,), (2, 4, 3)),
              "matrix_vector": ((2, 3, 4), (4,)), "vectors": ((4,), (4,))}
    for name, (a, b) in shapes.items():
        cases.add(f"MatMul_{name}", [node("MatMul", ["a", "b"], ["y"])], a=noise(*a), b=noise(*b))
    cases.add("Gemm", [node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1, transB=1)],
              a=noise(4, 3), b=noise(5, 4), c=noise(3, 1))
    cases.add("Gemm_beta_0", [node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)], a=noise(3, 4), b=noise(4, 5), c=noise(5))
    cases.write("ops_rows")


def rare():
    """Ops that decoders, vision models and legacy exports have now and then."""
    cases = Cases(opset=24)
    x = noise(3, 5) * 3
    for op in "Asinh Atan Celu Cosh Selu Shrink Sinh Swish ThresholdedRelu".split():
        cases.add(op, [node(op, ["x"], ["y"])], x=x)
    for op in ("Acos", "Asin", "Atanh"):
        cases.add(op, [node(op, ["x"], ["y"])], x=noise(3, 5))
    cases.add("Acosh", [node("Acosh", ["x"], ["y"])], x=np.abs(x) + 1)
    cases.add("Round", [node("Round", ["x"], ["y"])], x=np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, -7.5001]))
    near = np.float32([1e-6, -3e-4, 2e-2])  # Where the sums of a plain formula cancel: the result over its operand.
    for op, function in (("Sinh", np.sinh), ("Asinh", np.arcsinh), ("Atanh", np.arctanh), ("Asin", np.arcsin)):
        cases.add(f"{op}_near_0", [node(op, ["x"], ["v"]), node("Div", ["v", "x"], ["y"])], function(near.astype(np.float64)) / near, x=near)
    far = np.float32([3e38, 1e20, 9000])
    for op, function in (("Asinh", np.arcsinh), ("Acosh", np.arccosh)):
        cases.add(f"{op}_far", [node(op, ["x"], ["v"]), node("Div", ["v", "e"], ["y"])], np.ones(3), x=far,
                  e=function(far.astype(np.float64)).astype(np.float32))
    for op, function in (("Sinh", np.sinh), ("Cosh", np.cosh)):
        large = np.float32([-89.2, 88.9, 60])
        cases.add(f"{op}_far", [node(op, ["x"], ["v"]), node("Div", ["v", "e"], ["y"])], np.ones(3), x=large,
                  e=function(large.astype(np.float64)).astype(np.float32))
    cases.add("Celu_alpha", [node("Celu", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("Selu_alpha", [node("Selu", ["x"], ["y"], alpha=0.5, gamma=2.0)], x=x)
    cases.add("Shrink_bias", [node("Shrink", ["x"], ["y"], lambd=1.5, bias=0.25)], x=x)
    cases.add("Swish_alpha", [node("Swish", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("ThresholdedRelu_alpha", [node("ThresholdedRelu", ["x"], ["y"], alpha=-0.5)], x=x)
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        data = np.abs(noise(2, 3, 4)) + 0.5
        cases.add(op, [node(op, ["x", "a"], ["y"])], x=data, a=np.array([0, -1]))
        cases.add(f"{op}_dropped", [node(op, ["x", "a"], ["y"], keepdims=0)], x=data, a=np.array([1]))
        cases.add(f"{op}_all", [node(op, ["x"], ["y"], keepdims=0)], x=data)
    wide = np.float32([[100, 99, -100], [-np.inf, -np.inf, 2]])
    cases.add("ReduceLogSumExp_wide", [node("ReduceLogSumExp", ["x", "a"], ["y"])], np.logaddexp.reduce(wide.astype(np.float64), 1, keepdims=True),
              x=wide, a=np.array([1]))
    cases.add("ReduceLogSumExp_nothing", [node("ReduceLogSumExp", ["x"], ["v"]), node("Exp", ["v"], ["y"])], np.zeros((1, 1)),
              x=np.full((2, 3), -np.inf, np.float32))
    cases.add("LpNormalization", [node("LpNormalization", ["x"], ["y"], axis=1)], x=noise(2, 3, 4))
    cases.add("LpNormalization_1", [node("LpNormalization", ["x"], ["y"], p=1)], x / np.abs(x).sum(-1, keepdims=True), x=x)
    cases.add("LpNormalization_zero", [node("LpNormalization", ["x"], ["y"])], np.zeros((2, 3)), x=np.zeros((2, 3), np.float32))
    image = noise(2, 12, 3, 5)
    for mode in ("DCR", "CRD"):
        cases.add(f"DepthToSpace_{mode}", [node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)], x=image)
    cases.add("SpaceToDepth", [node("SpaceToDepth", ["x"], ["y"], blocksize=3)], x=noise(2, 2, 6, 9))
    cases.add("EyeLike", [node("EyeLike", ["x"], ["y"], k=-1)], np.eye(3, 5, -1), x=x)
    qkv = dict(q=noise(2, 4, 3, 8), k=noise(2, 2, 5, 8), v=noise(2, 2, 5, 6))
    cases.add("Attention_lengths", [node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"])], **qkv, n=np.array([5, 2]))
    cases.add("Attention_lengths_causal", [node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"], is_causal=1)], **qkv, n=np.array([3, 4]))
    cases.add("Attention_short_mask", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=np.ones((3, 4), bool))
    cases.write("ops_more")


def einsum():
    cases = Cases()
    shapes = {
        "bsd,dhe->bhse": ((2, 3, 4), (4, 5, 2)), "bhqe,bhke->bhqk": ((2, 3, 4, 5), (2, 3, 6, 5)),
        "bhqk,bhke->bhqe": ((2, 3, 4, 6), (2, 3, 6, 5)), "bhqe,dhe->bqd": ((2, 3, 4, 5), (7, 3, 5)),
        "ij,jk": ((3, 4), (4, 5)), "ij,jk->ki": ((3, 4), (4, 5)), "ij,kj": ((3, 4), (5, 4)), "ji,jk": ((4, 3), (4, 5)),
        "ij,ij->": ((3, 4), (3, 4)), "bi,bi->b": ((3, 4), (3, 4)), "i,j->ij": ((3,), (4,)), "i,i->i": ((3,), (3,)),
        "bi,i": ((3, 4), (4,)), "ij->ji": ((3, 4),), "ij->": ((3, 4),), "ijk->ik": ((3, 4, 2),), "ii->i": ((4, 4),), "ii": ((4, 4),),
        "bii->ib": ((3, 4, 4),), "iji,jk->ik": ((3, 4, 3), (4, 2)), "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
        "...d,de->...e": ((2, 3, 4), (4, 5)), "b...,...->b...": ((2, 3, 4), (3, 4)), "...i->...": ((2, 3, 4),),
        "abc,cd,de->abe": ((2, 3, 4), (4, 5), (5, 2)), "ab,bc,cd,da->": ((2, 3), (3, 4), (4, 5), (5, 2)),
        "bnqd,brd->bnqr": ((2, 3, 4, 5), (2, 6, 5)), "nchw,nkc->nkhw": ((2, 3, 4, 5), (2, 6, 3)), "btd,td->bt": ((2, 3, 4), (3, 4)),
        "ij,k->i": ((3, 4), (5,)), "bhwc,hkc->bhwk": ((2, 3, 4, 5), (3, 6, 5)), "bhwc,wkc->bhwk": ((2, 3, 4, 5), (4, 6, 5)),
    }
    for i, (equation, operands) in enumerate(shapes.items()):
        names = "abcd"[: len(operands)]
        spaced = equation.replace(",", " , ") if i % 3 == 0 else equation
        arrays = {name: noise(*shape) for name, shape in zip(names, operands)}
        wide = [array.astype(np.float64) for array in arrays.values()]
        cases.add(f"Einsum_{i}", [node("Einsum", list(names), ["y"], equation=spaced)], np.asarray(np.einsum(equation, *wide)), **arrays)
    cases.add("Einsum_broadcast", [node("Einsum", ["a", "b"], ["y"], equation="bij,bjk->bik")],
              np.einsum("bij,bjk->bik", (a := noise(1, 3, 4)), (b := noise(2, 4, 5))), a=a, b=b)
    numbers = np.arange(12).reshape(3, 4)
    cases.add("Einsum_integers", [node("Einsum", ["a", "a"], ["y"], equation="ij,kj->ik")], numbers @ numbers.T, a=numbers)
    cases.write("ops_einsum")
    for name, equation in (("letters", "i1,j->i"), ("result", "ij,jk->iz"), ("rank", "ijk,jk->i"), ("sizes", "ij,ij->i"), ("terms", "ij->i")):
        write(f"einsum_{name}", [node("Einsum", ["x", "w"], ["y"], name="einsum", equation=equation)], [X], [Y], [tensor("w", noise(3, 3))])
