#!/usr/bin/env bash
# Targets that are not here: compiled for real with NVRTC, ranked by the cost model, stored as untimed. Where sm_90a is
# here, it is timed.
# Usage: cuda.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"
model=$models/ffn_tiny.mlir

export KFUSE_NVRTC=$work/none.so
check "without NVRTC it says what to install" fails 4 "nvidia-cuda-nvrtc" tune "$model" --target sm_90a
check "without NVRTC the CPU target works" "$kfuse" tune "$model" --target cpu --json >/dev/null
unset KFUSE_NVRTC

if ! "$kfuse" targets --json | grep -q '"cuda_compiler": "nvrtc'; then
  skip "CUDA targets" "no NVRTC"
  finish
  exit
fi
for target in sm_80 sm_90a sm_100a; do
  "$kfuse" tune "$model" --target $target --json >"$work/cold.json" || check "tune for $target" false
  "$kfuse" tune "$model" --target $target --json >"$work/warm.json"
  if ! grep -q "not present" "$work/cold.json"; then
    skip "$target untimed" "it is here"
    continue
  fi
  check "$target is untimed, and stored" python3 - "$work/cold.json" "$work/warm.json" <<'P'
import json, sys
for path, from_cache in zip(sys.argv[1:], [False, True]):
    report = json.load(open(path))
    assert report["kernels"] and report["total_us"] is None
    for kernel in report["kernels"]:
        assert kernel["measured_us"] is None and kernel["roofline_percent"] is None, kernel
        assert kernel["candidates"] >= 1 and kernel["from_cache"] is from_cache, kernel
P
  check "the table says untimed" grep -q "kernels untimed: the device is not here" <("$kfuse" tune "$model" --target $target)
  check "the table within 100 columns" within_100_columns tune "$model" --target $target
done

check "a pack of what the store holds" grep -q "^compute_80 " <("$kfuse" pack "$model" --target sm_90a --require-tuned -o "$work/held.kfp")
check "a pack of more than that" fails 6 "kernels are not in the store" pack "$model" --target sm_89 --require-tuned -o "$work/lacked.kfp"

# Every example block compiles for a GPU: at one size (a tiny one has a larger twin), an odd one in one type.
for model in "$models"/*.onnx "$models"/*.mlir; do
  case $model in *_tiny*) continue ;; esac
  case $model in *_f16.mlir) [ -e "${model/_f16/_bf16}" ] && continue ;; esac
  check "$model for sm_90a" within_100_columns tune "$model" --target sm_90a
done
model=$models/ffn_tiny.mlir

if "$kfuse" targets --json | grep -q '"no_gpu"'; then
  skip "time line" "there is no GPU"
else
  check "a time line is one JSON object" python3 -c 'import json,sys; j=json.load(sys.stdin); assert j["us"] > 0 and j["blocks"]' \
    < <("$kfuse" bench timeline "$model" --json)
fi

# Opening NVRTC reads 100 MB; a run that finds every kernel in the store has no use for it.
LD_DEBUG=files "$kfuse" tune "$model" --target sm_90a 2>"$work/loads" >/dev/null
check "a warm start opens no NVRTC" test "$(grep -c 'calling init: .*nvrtc' "$work/loads")" = 0

finish
