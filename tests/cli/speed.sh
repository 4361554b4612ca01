#!/usr/bin/env bash
# A tool that answers at once: --help within 10 ms, explain within 0.15 s (0.1 s for a block of the benchmarks), a warm
# start of a whole block within 0.1 s, for sm_90a as for the CPU.
# The fastest of 30 tries counts, and the first one within its limit ends them. Limits are three times that, for slower
# machines and other work beside; SLACK=1 tests them as they are, on a quiet one. Usage: [SLACK=3] speed.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"
TIMEFORMAT='%3R %3U %3S'

fastest() { # fastest CLOCK MILLISECONDS ARGUMENTS...: CLOCK is real, or processor (of one that waits for nothing)
  local clock=$1 limit=$(($2 * ${SLACK:-3})) best=1000000 real user system spent
  shift 2
  for _ in {1..30}; do
    { time "$kfuse" "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || return 1
    read -r real user system <"$work/time"
    spent=$((10#${real/./}))
    [ "$clock" = processor ] && spent=$((10#${user/./} + 10#${system/./}))
    best=$((spent < best ? spent : best))
    [ $best -lt "$limit" ] && return 0
  done
  echo "kfuse $*: $best ms, allowed $limit" >&2
  return 1
}
takes() { fastest real "$@"; }
computes() { fastest processor "$@"; }

check "help" computes 10 --help
check "version" computes 10 --version
for model in "$models"/*.onnx "$models"/*.mlir; do
  check "explain $model" computes 150 explain "$model" --target sm_90a
done
for model in "$models"/../../bench/blocks/*.mlir; do
  check "explain $model" computes 100 explain "$model" --target sm_90a
done
"$kfuse" tune "$models/llama_tiny_prefill.mlir" --target cpu >/dev/null
check "warm tune" takes 100 tune "$models/llama_tiny_prefill.mlir" --target cpu
check "it was warm" grep -q "nothing compiled, nothing benchmarked" "$work/out"
check "warm run" takes 100 run "$models/llama_tiny_prefill.mlir" --target cpu --require-tuned
"$kfuse" tune "$models/llama_block_prefill_s128.mlir" --target cpu --no-benchmark >/dev/null
check "warm start of a block of 128 tokens" takes 100 tune "$models/llama_block_prefill_s128.mlir" --target cpu --no-benchmark \
  --require-tuned
decode=$models/../../bench/blocks/llama_block_decode_b1_kv4096.mlir
if "$kfuse" tune "$decode" --target sm_90a --no-benchmark >/dev/null 2>"$work/err"; then
  check "warm start of the decode block for sm_90a, but for a driver" takes 100 tune "$decode" --target sm_90a \
    --no-benchmark --require-tuned
else
  skip "a warm start for sm_90a" "$(cat "$work/err")"
fi

finish
