#!/usr/bin/env bash
# Checkpoints on the command line: a block with weights of GPTQ and AWQ computes what it does with ONNX Runtime's.
# Usage: checkpoint.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"

data=$(dirname "$0")/../data
numbers() { "$kfuse" run "$@" --target cpu --no-benchmark --input x="$work/x.npy" --check; }
python3 - "$data/llama_expected.safetensors" "$work/x.npy" <<'P'
import json, struct, sys
file = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", file[:8])[0]
x = json.loads(file[8 : 8 + length])["x"]
begin, end = x["data_offsets"]
header = str({"descr": "<f4", "fortran_order": False, "shape": tuple(x["shape"])})
header += " " * (-(len(header) + 11) % 64) + "\n"
open(sys.argv[2], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + file[8 + length :][begin:end])
P

for format in gptq awq; do
  given=(--checkpoint "$data/checkpoints/llama_$format" --checkpoint-prefix model.layers.0.)
  check "$format: tune" "$kfuse" tune "$data/llama_block.onnx" "${given[@]}" --target cpu --no-benchmark
  check "$format: explain" grep -q dequantize <("$kfuse" explain "$data/llama_block.onnx" "${given[@]}" --target cpu)
  check "$format: run" numbers "$data/llama_block.onnx" "${given[@]}" --output "$work/$format"
  check "$format: pack" "$kfuse" pack "$data/llama_block.onnx" "${given[@]}" --target cpu --no-benchmark --weights embed -o "$work/$format.kfp"
  check "$format: the pack" "$kfuse" run "$work/$format.kfp" --input x="$work/x.npy" --output "$work/$format.packed"
  check "$format: the pack's numbers" cmp -s "$work/$format/y.npy" "$work/$format.packed/y.npy"
done
check "MatMulNBits: run" numbers "$data/llama_nbits.onnx" --output "$work/nbits"
check "GPTQ and AWQ alike" cmp -s "$work/gptq/y.npy" "$work/awq/y.npy"
check "as MatMulNBits" cmp -s "$work/gptq/y.npy" "$work/nbits/y.npy"
check "as ONNX Runtime" python3 - "$data/llama_expected.safetensors" "$work/gptq/y.npy" <<'P'
import json, struct, sys
file = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", file[:8])[0]
begin, end = json.loads(file[8 : 8 + length])["y"]["data_offsets"]
wanted = file[8 + length :][begin:end]
found = open(sys.argv[2], "rb").read()[-len(wanted) :]
pairs = list(zip(*(struct.unpack(f"<{len(wanted) // 4}f", data) for data in (wanted, found))))
assert sum((a - b) ** 2 for a, b in pairs) < 1e-10 * sum(a * a for a, _ in pairs)
P

check "no folder" fails 8 "it is no folder" run "$data/llama_block.onnx" --checkpoint "$data/llama_block.onnx"
check "no such name" fails 2 "--checkpoint-prefix" run "$data/llama_block.onnx" --checkpoint "$data/checkpoints/llama_gptq"
check "a prefix of nothing" fails 2 "for no checkpoint" run "$data/llama_block.onnx" --checkpoint-prefix model.
finish
