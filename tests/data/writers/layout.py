"""Ops that move, look up, rank and scatter elements."""
import numpy as np
from onnx import TensorProto

from writers.cases import Cases
from writers.model import F32, I64, info, node, noise, rng, tensor


def layout():
    cases = Cases()
    x, last = noise(2, 3, 4), 2**63 - 1
    whole = dict(x=x)

    def vectors(**values):
        return {key: np.array(value, np.int64) for key, value in values.items()}

    cases.add("Reshape", [node("Reshape", ["x", "s"], ["y"])], **whole, **vectors(s=[0, -1, 2]))
    cases.add("Reshape_scalar", [node("Reshape", ["x", "s"], ["y"])], x=np.float32([[3]]), **vectors(s=[]))
    cases.add("Flatten", [node("Flatten", ["x"], ["y"], axis=2)], **whole)
    cases.add("Flatten_0", [node("Flatten", ["x"], ["y"], axis=0)], **whole)
    cases.add("Flatten_negative", [node("Flatten", ["x"], ["y"], axis=-2)], **whole)
    cases.add("Squeeze", [node("Squeeze", ["x", "a"], ["y"])], x=noise(1, 3, 1), **vectors(a=[-1]))
    cases.add("Squeeze_all", [node("Squeeze", ["x"], ["y"])], x=noise(1, 3, 1))
    cases.add("Unsqueeze", [node("Unsqueeze", ["x", "a"], ["y"])], **whole, **vectors(a=[-1, 0]))
    cases.add("Transpose", [node("Transpose", ["x"], ["y"], perm=[1, 2, 0])], **whole)
    cases.add("Transpose_reversed", [node("Transpose", ["x"], ["y"])], **whole)
    cases.add("Expand", [node("Expand", ["x", "s"], ["y"])], x=noise(3, 1), **vectors(s=[2, 1, 4]))
    cases.add("Tile", [node("Tile", ["x", "r"], ["y"])], **whole, **vectors(r=[1, 2, 3]))
    cases.add("Concat", [node("Concat", ["a", "b"], ["y"], axis=-2)], a=noise(2, 1, 3), b=noise(2, 2, 3))
    cases.add("Concat_empty", [node("Concat", ["a", "b"], ["y"], axis=0)], a=np.zeros((0, 3), np.float32), b=noise(2, 3))
    cases.add("Split_rest", [node("Split", ["x"], ["a", "b", "y"], axis=2, num_outputs=3)], x=noise(2, 7)[:, None])
    cases.add("Slice", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole, **vectors(s=[1, 0], e=[last, -1], a=[1, 2], t=[1, 2]))
    cases.add("Slice_backwards", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole,
              **vectors(s=[-1, 3], e=[-last - 1, 0], a=[1, 2], t=[-1, -2]))
    cases.add("Slice_long_step", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole, **vectors(s=[0], e=[last], a=[2], t=[last]))
    cases.add("Slice_all_axes", [node("Slice", ["x", "s", "e"], ["y"])], **whole, **vectors(s=[0, -2, 1], e=[1, 100, 3]))
    cases.add("Pad", [node("Pad", ["x", "p", "v"], ["y"])], x=x, v=np.float32(7), **vectors(p=[0, 1, 2, 1, 0, 1]))
    cases.add("Pad_axes", [node("Pad", ["x", "p", "", "a"], ["y"])], x=x, **vectors(p=[1, 2], a=[-1]))
    cases.add("Gather", [node("Gather", ["x", "i"], ["y"], axis=1)], **whole, **vectors(i=[[2, 0], [-1, 1]]))
    cases.add("Gather_scalar", [node("Gather", ["x", "i"], ["y"], axis=-1)], **whole, **vectors(i=-2))
    cases.add("GatherElements", [node("GatherElements", ["x", "i"], ["y"], axis=1)], **whole, **vectors(i=rng.integers(-3, 3, (2, 2, 4))))
    table, picks = np.arange(12).reshape(3, 4), rng.integers(0, 4, (2, 3))
    cases.add("GatherElements_folded", [node("GatherElements", ["x", "i"], ["y"], axis=1)],
              np.take_along_axis(table[:2], picks, 1), x=table, i=picks)
    for upper in (0, 1):
        for k in (-2, 0, 1):
            cases.add(f"Trilu_{upper}_{k + 2}", [node("Trilu", ["x", "k"], ["y"], upper=upper)], x=noise(2, 4, 5), **vectors(k=k))
    for reverse in (0, 1):
        for exclusive in (0, 1):
            flags = dict(reverse=reverse, exclusive=exclusive)
            cases.add(f"CumSum_{reverse}{exclusive}", [node("CumSum", ["x", "a"], ["y"], **flags)], **whole, **vectors(a=1))
            cases.add(f"CumSum_folded_{reverse}{exclusive}", [node("CumSum", ["x", "a"], ["y"], **flags)],
                      **vectors(x=[[1, 2, 3], [4, 5, 6]], a=-1))
    cases.add("Shape", [node("Shape", ["x"], ["y"], start=-2, end=5)], **whole)
    cases.add("Size", [node("Size", ["x"], ["y"])], **whole)
    cases.add("ConstantOfShape", [node("ConstantOfShape", ["s"], ["y"], value=tensor("v", [5]))], **vectors(s=[2, 3]))
    cases.add("Range", [node("Range", ["a", "b", "c"], ["y"])], **vectors(a=10, b=-1, c=-3))
    cases.add("Range_real", [node("Range", ["a", "b", "c"], ["y"])], a=np.float32(0.5), b=np.float32(2), c=np.float32(0.4))
    cases.add("NonZero", [node("NonZero", ["x"], ["y"])], **vectors(x=[[1, 0, 2], [0, 3, 0]]))
    cases.write("ops_layout")


def indexing():
    """Reads and writes at indices that are known (initializers) and at such that only the run knows: floats are
    parameters, what is cast from one is not folded."""
    cases = Cases(opset=24)
    runtime = [node("Cast", ["at"], ["i"], to=I64)]
    x = noise(3, 4, 5)

    def both(name, one, indices, *, before=(), **operands):
        """With indices known and unknown."""
        cases.add(name, [*before, one], i=np.asarray(indices, np.int64), **operands)
        cases.add(f"{name}_runtime", [*runtime, *before, one], at=np.asarray(indices, np.float32), **operands)

    def grid(*shape):
        return np.stack(np.meshgrid(*[np.arange(size) for size in shape], indexing="ij"), -1)

    gather = node("GatherND", ["x", "i"], ["y"])
    both("GatherND", gather, [[0, 1], [-1, -4], [2, 3]], x=x)
    both("GatherND_elements", gather, rng.integers(-3, 3, (2, 2, 3)), x=x)
    both("GatherND_batch", node("GatherND", ["x", "i"], ["y"], batch_dims=1), [[[1], [0]], [[-1], [2]], [[3], [3]]], x=x)
    both("GatherND_batches", node("GatherND", ["x", "i"], ["y"], batch_dims=2), rng.integers(-5, 5, (3, 4, 2, 1)), x=x)
    both("GatherND_regular", gather, grid(2, 4)[:, None, ::-1] * [1, 1], x=x)
    both("GatherND_strided", gather, (grid(2, 3) * [2, -1] + [0, 3])[:, :, None], x=x)
    both("GatherND_diagonal", gather, np.arange(3)[:, None].repeat(2, 1), x=x)
    both("GatherND_corner", gather, [2, 3, 4], x=x)
    both("GatherElements_front", node("GatherElements", ["x", "i"], ["y"], axis=0), rng.integers(-3, 3, (3, 4, 5)), x=x)
    both("GatherElements_last", node("GatherElements", ["x", "i"], ["y"], axis=2), rng.integers(-5, 5, (3, 4, 2)), x=x)
    spread = node("Expand", ["i", "s"], ["spread"])
    both("GatherElements_spread", node("GatherElements", ["x", "spread"], ["y"], axis=1), [[[3], [0]], [[1], [1]], [[0], [-1]]],
         before=[spread], x=x, s=np.array([3, 2, 5]))

    data, rows = noise(3, 4, 5), noise(2, 4, 5)
    scatter = node("ScatterND", ["x", "i", "u"], ["y"])
    both("ScatterND_rows", scatter, [[2], [-3]], x=data, u=rows)
    both("ScatterND_last_remains", scatter, [[1], [1]], x=data, u=rows)
    both("ScatterND_row", scatter, [[-2]], x=data, u=rows[:1])
    both("ScatterND_elements", scatter, rng.integers(-3, 3, (4, 3)), x=data, u=noise(4))
    both("ScatterND_box", scatter, (grid(2, 2) + [1, 2]), x=data, u=noise(2, 2, 5))
    both("ScatterND_columns", scatter, np.stack([np.arange(3), [3, 0, 1]], -1), x=data, u=noise(3, 5))
    both("ScatterND_matrix", scatter, rng.integers(0, 4, (3, 2, 2)) % [3, 4], x=data, u=noise(3, 2, 5))
    both("ScatterND_alternate", scatter, np.array([[0], [2]]), x=data, u=rows)
    for reduction in ("add", "mul", "max", "min"):
        reduce = node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
        both(f"ScatterND_{reduction}", reduce, [[2], [0], [2]], x=data, u=noise(3, 4, 5))
        both(f"ScatterND_{reduction}_row", reduce, [[1]], x=data, u=rows[:1])
        one = node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction=reduction)
        both(f"ScatterElements_{reduction}", one, rng.integers(-4, 4, (3, 6, 5)), x=data, u=noise(3, 6, 5))
    for axis in (0, 1, -1):
        shape = [2, 3, 4]
        indices = rng.integers(-data.shape[axis], data.shape[axis], shape)
        both(f"ScatterElements_{axis}", node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis), indices, x=data, u=noise(*shape))
    both("ScatterElements_spread", node("ScatterElements", ["x", "spread", "u"], ["y"], axis=1), [[[3], [0]]], before=[spread],
         x=data, u=noise(3, 2, 5), s=np.array([3, 2, 5]))
    both("ScatterElements_per_batch", node("ScatterElements", ["x", "spread", "u"], ["y"], axis=1), [[[3], [0]], [[1], [2]], [[2], [-1]]],
         before=[spread], x=data, u=noise(3, 2, 5), s=np.array([3, 2, 5]))
    integers = np.arange(12).reshape(3, 4)
    cases.add("ScatterND_integers", [node("ScatterND", ["x", "i", "u"], ["y"], reduction="max")], x=integers, i=np.array([[0], [2], [0]]),
              u=np.array([[5, -1, 7, 2], [9, 9, 9, 10], [1, 2, 3, 4]]))
    cases.add("ScatterND_empty", [scatter], x=data, i=np.zeros((0, 1), np.int64), u=np.zeros((0, 4, 5), np.float32))

    # Consecutive rows, as caches are written: keys [batch, heads, positions, size].
    cache, new = noise(2, 3, 6, 4), noise(2, 3, 2, 4)
    moved = [node("Transpose", ["cache"], ["c"], perm=[2, 0, 1, 3]), node("Transpose", ["new"], ["n"], perm=[2, 0, 1, 3]),
             node("Unsqueeze", ["at1", "last"], ["i"]), node("ScatterND", ["c", "i", "n"], ["z"]),
             node("Transpose", ["z"], ["y"], perm=[1, 2, 0, 3])]
    for start in (0, 4, -1):
        run = [node("Cast", ["from"], ["f"], to=I64), node("Add", ["f", "run"], ["at1"])]
        cases.add(f"ScatterND_run_{start + 1}", run + moved, **{"from": np.float32([start])}, run=np.arange(2), cache=cache, new=new,
                  last=np.array([-1]))
    for mode in ("linear", "circular"):
        for count in (1, 2, 6):
            for per_batch in (False, True):
                places = np.float32([0, 6 - count] if mode == "linear" else [5, 4]) if per_batch else np.float32([0, 0])
                write_at = [node("Cast", ["at"], ["i"], to=I64), node("TensorScatter", ["x", "u", "i"], ["y"], mode=mode)]
                cases.add(f"TensorScatter_{mode}_{count}_{int(per_batch)}", write_at, x=cache, u=noise(2, 3, count, 4), at=places)
    cases.add("TensorScatter", [node("TensorScatter", ["x", "u"], ["y"])], x=cache, u=new)
    cases.add("TensorScatter_axis", [node("TensorScatter", ["x", "u", "i"], ["y"], axis=1)], x=cache, u=noise(2, 2, 6, 4), i=np.array([1, 0]))

    odd = noise(4, 9).round(1)
    odd[0, 3], odd[0, 5], odd[1, 2], odd[2, :3] = np.nan, np.nan, np.inf, -np.inf
    made = node("Mul", ["x", "factor"], ["m"])
    for largest in (0, 1):
        for axis in (0, 1):
            topk = node("TopK", ["x", "k"], ["v", "y"], axis=axis, largest=largest)
            cases.add(f"TopK_indices_{largest}{axis}", [topk], x=odd, k=np.array([4]))
        cases.add(f"TopK_values_{largest}", [node("TopK", ["x", "k"], ["y", "i"], largest=largest)], x=noise(3, 7), k=np.array([3]))
        cases.add(f"TopK_integers_{largest}", [made, node("Cast", ["m"], ["n"], to=I64), node("TopK", ["n", "k"], ["y", "i"], largest=largest)],
                  x=np.float32([[3, -1, 3, 2], [0, 0, -5, 1]]), factor=np.float32(1), k=np.array([2]))
        long = noise(2, 601).round(2)
        long[0, 400], long[1, 590:594] = np.nan, [np.inf, -np.inf, np.nan, 2]
        topk = node("TopK", ["x", "k"], ["v", "y"], largest=largest)
        cases.add(f"TopK_long_{largest}", [topk], x=long, k=np.array([17]))
        for last in (0, 1):
            op = "ArgMax" if largest else "ArgMin"
            flags = dict(select_last_index=last)
            cases.add(f"{op}_{last}", [node(op, ["x"], ["y"], axis=1, keepdims=0, **flags)], x=odd)
            cases.add(f"{op}_{last}_made", [made, node(op, ["m"], ["y"], axis=-2, **flags)], x=odd, factor=np.float32(1))
            cases.add(f"{op}_{last}_long", [made, node(op, ["m"], ["y"], axis=1, **flags)], x=long, factor=np.float32(1))
            cases.add(f"{op}_{last}_integers", [node("Cast", ["x"], ["n"], to=I64), node(op, ["n"], ["y"], axis=1, **flags)],
                      x=np.float32([[1, 3, 3, 1], [2, 2, 2, 2]]))
    one_hot = node("OneHot", ["i", "depth", "v"], ["y"])
    both("OneHot", one_hot, [[0, 3], [-1, 1]], depth=np.int64(4), v=np.float32([0.5, 2]))
    both("OneHot_outside", one_hot, [4, -5, 2], depth=np.int64(4), v=np.array([1, 0]))
    both("OneHot_axis", node("OneHot", ["i", "depth", "v"], ["y"], axis=0), [[0, 3, 2], [-1, 1, 0]], depth=np.int64(4),
         v=np.float32([0.5, 2]))
    cases.write("ops_indexing")
