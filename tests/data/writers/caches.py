"""Caches that a step of a decoder gets and returns, and what is like one but is no state."""
import numpy as np
from onnx import TensorProto

from writers.model import F32, I64, info, node, noise, tensor, write


def rows_by_position():
    """A cache of two heads' keys that gets one row at a run-time position, in the ways of PyTorch's exporters; and a mask
    that transformers reads by indices."""
    cache, row = info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3])
    position, output = info("position", I64, []), info("y", F32, [1, 2, 5, 3])
    inputs = [cache, row, position]
    as_vector = node("Reshape", ["position", "one"], ["p"])
    swap = dict(perm=[2, 0, 1, 3])
    write("cache_index_copy", [as_vector, node("Unsqueeze", ["p", "last"], ["i"]), node("Transpose", ["cache"], ["c"], **swap),
                               node("Transpose", ["row"], ["r"], **swap), node("ScatterND", ["c", "i", "r"], ["n"]),
                               node("Transpose", ["n"], ["y"], perm=[1, 2, 0, 3])], inputs, [output],
          [tensor("one", [1]), tensor("last", [-1])])
    pieces = [node("Expand", [name, "box"], [f"{name}_spread"]) for name in ("batches", "heads", "p")]
    pieces += [node("Unsqueeze", [f"{name}_spread", "last"], [f"{name}_column"]) for name in ("batches", "heads", "p")]
    write("cache_index_put", [as_vector, *pieces, node("Concat", ["batches_column", "heads_column", "p_column"], ["i"], axis=-1),
                              node("ScatterND", ["cache", "i", "row"], ["y"])], inputs, [output],
          [tensor("one", [1]), tensor("last", [-1]), tensor("box", [1, 2, 1]), tensor("batches", [[[0]]]), tensor("heads", [[0], [1]])])
    write("cache_scatter", [node("Reshape", ["position", "ones"], ["p"]), node("Expand", ["p", "box"], ["i"]),
                            node("ScatterElements", ["cache", "i", "row"], ["y"], axis=2)], inputs, [output],
          [tensor("ones", [1, 1, 1, 1]), tensor("box", [1, 2, 1, 3])])
    write("cache_tensor_scatter", [as_vector, node("TensorScatter", ["cache", "row", "p"], ["y"])], inputs, [output],
          [tensor("one", [1])], opset=24)
    write("cache_slice", [node("Transpose", ["cache"], ["c"], perm=[2, 1, 0, 3]), node("Transpose", ["row"], ["r"], perm=[2, 1, 0, 3]),
                          node("ScatterND", ["c", "i", "r"], ["n"]), node("Transpose", ["n"], ["y"], perm=[2, 1, 0, 3])],
          [cache, row], [output], [tensor("i", [[3]])])
    places = np.stack(np.broadcast_arrays(np.arange(2).reshape(2, 1, 1, 1), np.arange(6)), -1)
    write("mask_gather_nd", [node("Cast", ["mask"], ["b"], to=TensorProto.BOOL), node("GatherND", ["b", "i"], ["y"])],
          [info("mask", I64, [2, 6])], [info("y", TensorProto.BOOL, [2, 1, 1, 6])], [tensor("i", places)])


def genai():
    """A step of a decoder as onnxruntime-genai writes it: lengths come from the mask, past and present may share a buffer."""
    i32 = TensorProto.INT32
    nodes = [node("ReduceSum", ["attention_mask", "one"], ["sum"], keepdims=0), node("Sub", ["sum", "one"], ["before"]),
             node("Cast", ["before"], ["seqlens_k"], to=i32), node("Shape", ["attention_mask"], ["sizes"]),
             node("Gather", ["sizes", "one_number"], ["length"]), node("Cast", ["length"], ["total"], to=i32),
             node("MatMul", ["x", "w"], ["qkv"]),
             node("GroupQueryAttention", ["qkv", "", "", "past.key", "past.value", "seqlens_k", "total", "cos", "sin"],
                  ["y", "present.key", "present.value"], domain="com.microsoft", num_heads=2, kv_num_heads=1, do_rotary=1)]
    cache = ["batch_size", 1, "past_sequence_length", 16]
    inputs = [info("x", F32, ["batch_size", 1, 8]), info("attention_mask", I64, ["batch_size", "total_sequence_length"]),
              info("past.key", F32, cache), info("past.value", F32, cache)]
    present = ["batch_size", 1, "total_sequence_length", 16]
    outputs = [info("y", F32, ["batch_size", 1, 32]), info("present.key", F32, present), info("present.value", F32, present)]
    write("genai", nodes, inputs, outputs, [tensor("w", noise(8, 64)), tensor("cos", noise(12, 8)), tensor("sin", noise(12, 8)), tensor("one", [1]),
                                            tensor("one_number", np.int64(1))], domains=["com.microsoft"])


def grown():
    """Attention of three new rows over a cache that they are joined to, with positions and a mask from its length; the same with
    what a cache in place cannot be; and a static cache of which one row is written."""
    own = np.random.default_rng(11)
    heads, rows = 2, 3

    def cached(name, past="past", extra=(), outputs=(), joined=("past_key", "new_key"), present_value="v", **changes):
        shapes = {"past_key": [1, heads, past, 4], "past_value": [1, heads, past, 4], "new_key": [1, heads, rows, 4],
                  "new_value": [1, heads, rows, 4], "q": [1, heads, rows, 4], "mask": [1, "total"]} | changes
        nodes = [
            node("Concat", joined, ["present_key"], axis=-2), node("Identity", ["past_value"], ["pv"]),
            node("Concat", ["pv", "new_value"], ["v"], axis=2),
            # Rows of the past, of all.
            node("Shape", ["past_key"], ["dims"]), node("Gather", ["dims", "two"], ["length"]),
            node("Add", ["length", "three"], ["total"]), node("Squeeze", ["length"], ["first"]), node("Squeeze", ["total"], ["end"]),
            # Queries are moved by rows of a table, and by their positions.
            node("Slice", ["table", "length", "total", "zero"], ["angles"]), node("Add", ["q", "angles"], ["turned"]),
            node("Range", ["first", "end", "one"], ["positions"]), node("Cast", ["positions"], ["numbers"], to=F32),
            node("Unsqueeze", ["numbers", "minus_one"], ["column"]), node("Mul", ["column", "small"], ["moves"]),
            node("Add", ["turned", "moves"], ["query"]),
            # Rows up to a query's own, that the mask does not hide.
            node("Range", ["none", "end", "one"], ["keys"]), node("Unsqueeze", ["positions", "minus_one"], ["own"]),
            node("LessOrEqual", ["keys", "own"], ["causal"]), node("Cast", ["mask"], ["kept"], to=TensorProto.BOOL),
            node("And", ["causal", "kept"], ["seen"]), node("Where", ["seen", "nothing", "hidden"], ["bias"]),
            node("Transpose", ["present_key"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["query", "kt"], ["raw"]),
            node("Add", ["raw", "bias"], ["scores"]), node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"]),
            *extra]
        constants = [tensor("two", [2]), tensor("three", [rows]), tensor("zero", [0]), tensor("one", 1), tensor("none", 0),
                     tensor("huge", [np.iinfo(np.int64).max]),
                     tensor("minus_one", [-1]), tensor("small", 0.125, np.float32), tensor("nothing", 0.0, np.float32),
                     tensor("hidden", -1e9, np.float32), tensor("table", own.uniform(-1, 1, (16, 4)).astype(np.float32))]
        inputs = [info(input, I64 if input == "mask" else F32, shape) for input, shape in shapes.items()]
        present = [1, heads, past if isinstance(past, int) else "total", 4]
        write(name, nodes, inputs, [info("y", F32, None), info("present_key", F32, present), info(present_value, F32, present),
                                    *(info(output, F32, None) for output in outputs)], constants)

    cached("cache_grows")
    cached("cache_fixed", past=5, mask=[1, 8])
    cached("cache_prepended", joined=("new_key", "past_key"))
    cached("cache_read", extra=[node("Relu", ["past_key"], ["z"])], outputs=["z"])
    cached("cache_summed", extra=[node("ReduceMean", ["v", "two"], ["z"], name="mean")], outputs=["z"])
    cached("cache_cut", extra=[node("Slice", ["v", "zero", "three", "two"], ["z"], name="first_rows")], outputs=["z"])
    cached("cache_last_row", extra=[node("Slice", ["v", "minus_one", "huge", "two"], ["z"])], outputs=["z"])

    rows_of = {name: [1, heads, rows, 4] for name in ("q", "k", "v")} | {name: [1, heads, "past", 4] for name in ("past_key", "past_value")}
    write("cache_attention", [node("Attention", ["q", "k", "v", "", "past_key", "past_value"], ["y", "present_key", "present_value"], is_causal=1)],
          [info(name, F32, shape) for name, shape in rows_of.items()],
          [info("y", F32, None), *(info(name, F32, [1, heads, "total", 4]) for name in ("present_key", "present_value"))], opset=23)

    keys, new = info("keys", F32, [2, 6, 4]), info("new", F32, [2, 1, 4])
    position = info("position", I64, [])
    written = [node("Equal", ["index", "position"], ["here"]), node("Where", ["here", "new", "keys"], ["new_keys"]),
               node("ReduceSum", ["new_keys", "one"], ["sum"], keepdims=0)]
    constants = [tensor("index", np.arange(6).reshape(6, 1)), tensor("one", [1])]
    outputs = [info("sum", F32, [2, 4]), info("new_keys", F32, [2, 6, 4])]
    write("cache_static", written, [keys, new, position], outputs, constants)
    both = [*written, node("Add", ["keys", "new_keys"], ["both"], name="both")]
    write("cache_static_read", both, [keys, new, position], [*outputs, info("both", F32, [2, 6, 4])], constants)
    write("state_whole", [node("Mul", ["state", "decay"], ["kept"]), node("Add", ["kept", "x"], ["next_state"]),
                          node("Exp", ["state"], ["y"])],
          [info("state", F32, [3, 5]), info("x", F32, [5])], [info("y", F32, [3, 5]), info("next_state", F32, [3, 5])],
          [tensor("decay", 0.5, np.float32)])


def buffers():
    """Windows, masks, slices and scatters on a cache; buffers that past and present share."""
    write("cache_window", [node("Concat", ["cache", "row"], ["all"], axis=2), node("Slice", ["all", "one", "end", "axis"], ["y"])],
          [info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3])], [info("y", F32, [1, 2, 5, 3])],
          [tensor("one", [1]), tensor("end", [6]), tensor("axis", [2])])
    write("cache_masked", [node("Where", ["isNew", "rows", "cache"], ["y"])],
          [info("cache", F32, [1, 2, 5, 3]), info("rows", F32, [1, 2, 5, 3]), info("isNew", TensorProto.BOOL, [1, 1, 5, 1])],
          [info("y", F32, [1, 2, 5, 3])])
    # A row at a known position, and beside the result the first of the old rows.
    cache, row, pieces = info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3]), [("first", 0, 3), ("last", 4, 5), ("old", 0, 1)]
    cut = [node("Slice", ["cache", f"{name}_start", f"{name}_end", "axis"], [name]) for name, _, _ in pieces]
    write("cache_slice_read", [*cut, node("Concat", ["first", "row", "last"], ["y"], axis=2), node("Mul", ["y", "old"], ["z"], name="both")],
          [cache, row], [info("y", F32, [1, 2, 5, 3]), info("z", F32, [1, 2, 5, 3])],
          [tensor("axis", [2]), *(tensor(f"{name}_{end}", [at]) for name, *ends in pieces for end, at in zip(("start", "end"), ends))])
    write("cache_tensor_scatter_rows", [node("TensorScatter", ["cache", "rows", "at"], ["y"])],
          [info("cache", F32, [2, 5, 3]), info("rows", F32, [2, 2, 3]), info("at", I64, [2])], [info("y", F32, [2, 5, 3])], opset=24)
    write("cache_tensor_scatter_any", [node("TensorScatter", ["cache", "rows", "at"], ["y"])],
          [info("cache", F32, ["batch", 5, 3]), info("rows", F32, ["batch", "rows", 3]), info("at", I64, ["batch"])],
          [info("y", F32, ["batch", 5, 3])], opset=24)
    # Three rows into a buffer that past and present share; the same where the past is returned, too, and so is no state.
    i32, shared, rows = TensorProto.INT32, [2, 2, 7, 16], [2, 3, 32]
    inputs = [info("q", F32, [2, 3, 64]), info("k", F32, rows), info("v", F32, rows), info("past_key", F32, shared), info("past_value", F32, shared),
              info("seqlens_k", i32, [2])]
    operation = node("GroupQueryAttention", ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total"], ["y", "present_key", "present_value"],
                     domain="com.microsoft", num_heads=4, kv_num_heads=2)
    outputs, total = [info("y", F32, [2, 3, 64]), info("present_key", F32, shared), info("present_value", F32, shared)], [tensor("total", np.int32(7))]
    write("cache_group_query", [operation], inputs, outputs, total, domains=["com.microsoft"])
    old = [node("Identity", [f"past_{which}"], [f"old_{which}"]) for which in ("key", "value")]
    write("cache_group_query_read", [operation, *old], inputs, [*outputs, info("old_key", F32, shared), info("old_value", F32, shared)], total,
          domains=["com.microsoft"])
