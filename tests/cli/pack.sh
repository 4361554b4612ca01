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

check "no file to write" fails 2 "give the pack to write with -o" pack "$model" --target cpu
check "over the model" fails 2 "written over the model" pack "$model" --target cpu -o "$model"
check "where nothing can be written" fails 8 "cannot be written" pack "$model" --target cpu -o /nonexistent/x.kfp
check "lengths" fails 2 "give them with --shape" pack "$(dirname "$0")/../data/dynamic.onnx" --target cpu --dims batch=1..2 --dims seq=1..4 -o "$work/x.kfp"
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
check "weights inside" "$kfuse" pack "$model" --target cpu --no-benchmark --embed --weights "$work/all.safetensors" -o "$work/embedded.kfp"
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
check "weights that would not go in" fails 2 "is for --embed" pack "$model" --target cpu --weights "$work/all.safetensors" -o "$work/x.kfp"
check "nothing inside to embed" fails 2 "--embed finds no bytes of the parameter 'up.weight'" pack "$model" --target cpu --embed -o "$work/x.kfp"

finish
