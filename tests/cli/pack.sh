#!/usr/bin/env bash
# Packs and weights on the command line: made, looked into, run with the same results; what is wrong is said.
# Usage: pack.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"

model=$models/ffn_tiny.mlir
tensors() { python3 "$(dirname "$0")/weights.py" "$@"; }

check "pack" "$kfuse" pack "$model" --target cpu --no-benchmark -o "$work/ffn.kfp"
check "inspect" grep -q "^cpu  *-  *llvm" <("$kfuse" pack --inspect "$work/ffn.kfp")
check "inspect as JSON" python3 -c 'import json,sys; j=json.load(sys.stdin); v=j["variants"][0]; assert v["target"] == "cpu" and v["plan"]["kernels"] and not j["holds_weights"]' < <("$kfuse" pack --inspect --json "$work/ffn.kfp")
check "verify" grep -q "is whole: " <("$kfuse" pack --verify "$work/ffn.kfp")
check "nothing is left beside it" test "$(ls "$work" | grep -c '^ffn')" = 1

check "a run of the model" "$kfuse" run "$model" --target cpu --no-benchmark --output "$work/model"
check "a run of the pack" "$kfuse" run "$work/ffn.kfp" --output "$work/packed"
for file in "$work"/model/*.npy; do
  check "the same $(basename "$file")" cmp -s "$file" "$work/packed/$(basename "$file")"
done
check "a bench of the pack" grep -q '"launches": ' <("$kfuse" bench block "$work/ffn.kfp" --json)
check "code that is forced" env KFUSE_VARIANT=cpu "$kfuse" run "$work/ffn.kfp"
export KFUSE_VARIANT=sm_90a
check "code that is forced and not there" fails 2 "no program for 'sm_90a' runs on this processor; the pack holds cpu (not the one that is forced)" run "$work/ffn.kfp"
unset KFUSE_VARIANT

check "what is not tuned" fails 6 "kernels are not in the store" pack "$models/llama_tiny_prefill.mlir" --target cpu --require-tuned -o "$work/x.kfp"
check "no file to write" fails 2 "give the pack to write with -o" pack "$model" --target cpu
check "over the model" fails 2 "written over the model" pack "$model" --target cpu -o "$model"
check "where nothing can be written" fails 8 "cannot be written" pack "$model" --target cpu -o /nonexistent/x.kfp
check "no pack" fails 3 "is no pack: its first bytes are not 'KFUSEPAK'" pack --inspect "$model"
check "no file" fails 8 "absent.kfp" pack --verify "$work/absent.kfp"
head -c 5000 "$work/ffn.kfp" >"$work/cut.kfp"
check "a pack that is cut" fails 3 "it has 5000 bytes, its header says" pack --verify "$work/cut.kfp"
check "running it" fails 3 "cut.kfp is damaged" run "$work/cut.kfp"
python3 - "$work" <<'P'
import sys
data = bytearray(open(sys.argv[1] + "/ffn.kfp", "rb").read())
data[-100] ^= 1
open(sys.argv[1] + "/changed.kfp", "wb").write(data)
P
check "a pack that was changed" fails 3 "does not have its seal" pack --verify "$work/changed.kfp"
check "no reference in a pack" fails 2 "which is not in a pack" run "$work/ffn.kfp" --check
for command in tune explain; do
  check "$command of a pack" fails 2 "is a pack" $command "$work/ffn.kfp"
done

check "C" "$kfuse" pack "$model" --target cpu --no-benchmark --emit c -o "$work/block.c"
check "the names it has" grep -q "^static inline kfr_code block_run(" "$work/block.h"
check "an object" "$kfuse" pack "$model" --target cpu --no-benchmark --emit object -o "$work/object.o"
check "what it defines" grep -q " R object_pack$" <(nm "$work/object.o")
check "no name for C" fails 2 "name the file with letters, digits and _" pack "$model" --target cpu --emit c -o "$work/2nd-block.c"
check "a header over the model" fails 2 "the header .*/copy.h would be written over the model" pack "$work/copy.h" --target cpu --emit c -o "$work/copy.c"
check "no such form" fails 2 "not in {pack,c,object}" pack "$model" --target cpu --emit cubin -o "$work/x.kfp"

tensors "$kfuse" "$work/ffn.kfp" "$work"
check "weights from a file" "$kfuse" run "$model" --target cpu --no-benchmark --weights "$work/all.safetensors" --input x=1 --output "$work/weighed"
check "weights for a pack" "$kfuse" run "$work/ffn.kfp" --weights "$work/all.safetensors" --input x=1 --output "$work/weighed_pack"
check "weights inside" "$kfuse" pack "$model" --target cpu --no-benchmark --weights "embed:$work/all.safetensors" -o "$work/embedded.kfp"
check "they are told of" grep -q "weights are inside" <("$kfuse" pack --inspect "$work/embedded.kfp")
check "a run with them" "$kfuse" run "$work/embedded.kfp" --input x=1 --output "$work/embedded"
for file in "$work"/weighed/*.npy; do
  check "by all ways the same $(basename "$file")" cmp -s "$file" "$work/weighed_pack/$(basename "$file")"
  check "and inside $(basename "$file")" cmp -s "$file" "$work/embedded/$(basename "$file")"
  check "which are not the random ones" test "$(cmp -s "$file" "$work/packed/$(basename "$file")"; echo $?)" = 1
done
for command in run tune; do
  check "$command with a weight missing" fails 2 "missing.safetensors holds no tensor 'up.weight', expected one of f32 " $command "$model" --target cpu --no-benchmark --weights "$work/missing.safetensors"
  check "$command with a weight of another shape" fails 2 "'down.weight' is F32 .*, expected f32 " $command "$model" --target cpu --no-benchmark --weights "$work/shape.safetensors"
done
check "weights that are none" fails 3 "is no safetensors file" run "$model" --target cpu --weights "$model"
check "no weights" fails 8 "absent.safetensors" run "$model" --target cpu --weights "$work/absent.safetensors"
check "nothing inside to embed" fails 2 "finds no bytes of the parameter 'up.weight'" pack "$model" --target cpu --no-benchmark --weights embed -o "$work/x.kfp"
check "no form of weights" fails 2 "is none of none, embed, embed:FILE, ref:FILE" pack "$model" --target cpu --weights "$work/all.safetensors" -o "$work/x.kfp"

# Weights that the pack only refers to: found beside it, wherever both are moved.
mkdir "$work/there" "$work/moved"
cp "$work/all.safetensors" "$work/there/w.safetensors"
check "a reference" "$kfuse" pack "$model" --target cpu --no-benchmark --weights "ref:$work/there/w.safetensors" -o "$work/there/ref.kfp"
check "it is told of" grep -q "weights are in w.safetensors" <("$kfuse" pack --inspect "$work/there/ref.kfp")
check "it has no weights inside" test "$(stat -c %s "$work/there/ref.kfp")" -lt $(($(stat -c %s "$work/ffn.kfp") + 4096))
mv "$work/there/ref.kfp" "$work/there/w.safetensors" "$work/moved"
check "verify with them" grep -q "is whole: " <("$kfuse" pack --verify "$work/moved/ref.kfp")
check "a run by reference" "$kfuse" run "$work/moved/ref.kfp" --input x=1 --output "$work/referred"
for file in "$work"/weighed/*.npy; do
  check "by reference the same $(basename "$file")" cmp -s "$file" "$work/referred/$(basename "$file")"
done
check "another file in its place" "$kfuse" run "$work/moved/ref.kfp" --weights "$work/all.safetensors"
python3 - "$work/moved/w.safetensors" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-1] ^= 1
open(sys.argv[1], "wb").write(data)
P
check "a weight that was altered" fails 3 "w.safetensors: 'norm.bias' was altered: its SHA-256" pack --verify "$work/moved/ref.kfp"
cp "$work/missing.safetensors" "$work/moved/w.safetensors"
check "a weight that is missing" fails 2 "w.safetensors holds no tensor 'up.weight', expected one of f32 " run "$work/moved/ref.kfp"
rm "$work/moved/w.safetensors"
check "no file of weights" fails 8 "moved/w.safetensors" run "$work/moved/ref.kfp"

# Any length: the bits of the model's own runs.
dynamic=$(dirname "$0")/../data/dynamic.onnx
lengths=(--target cpu --no-benchmark --dims batch=1..2 --dims seq=1..70)
check "a pack of lengths" "$kfuse" pack "$dynamic" "${lengths[@]}" --weights embed -o "$work/any.kfp"
check "its lengths are told of" grep -q "runs give batch=1..2, seq=1..70" <("$kfuse" pack --inspect "$work/any.kfp")
check "and in JSON" python3 -c 'import json,sys; j=json.load(sys.stdin); assert j["dims"] == [{"name": "batch", "low": 1, "high": 2}, {"name": "seq", "low": 1, "high": 70}] and len(j["variants"][0]["buckets"]) == 2' < <("$kfuse" pack --inspect --json "$work/any.kfp")
check "all of it" grep -q "is whole" <("$kfuse" pack --verify "$work/any.kfp")
python3 - "$work" <<'P'
import struct, sys
for batch, seq in (1, 5), (2, 70):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({batch}, {seq}), }}".ljust(117) + "\n"
    ids = [i % 3 for i in range(batch * seq)]
    open(f"{sys.argv[1]}/ids{seq}.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + struct.pack(f"<{batch * seq}q", *ids))
P
for seq in 5 70; do
  check "the model at $seq" "$kfuse" run "$dynamic" "${lengths[@]}" --input ids="$work/ids$seq.npy" --output "$work/model$seq"
  check "the pack at $seq" "$kfuse" run "$work/any.kfp" --input ids="$work/ids$seq.npy" --output "$work/any$seq"
  for file in "$work/model$seq"/*.npy; do
    check "the same $(basename "$file") at $seq" cmp -s "$file" "$work/any$seq/$(basename "$file")"
  done
done

finish
