#!/usr/bin/env bash
# GPU tests from a packed folder (tests/pack.sh): unit tests on the device, the sanitizer, every example tuned and
# checked against the reference evaluator. Prints a short table last, full results go to OUT.
# Usage: tests/gpu.sh BUNDLE OUT [MODEL-GLOB...]
set -uo pipefail
bundle=$1 out=$2
shift 2
globs=("${@:-*}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$bundle/bin.tar.xz" -C "$work"
tar -xJf "$bundle/models.tar.xz" -C "$work"
export KFUSE_STORE=$work/store.db NO_COLOR=1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt"

failed=0
if [ -x "$work/kfuse_gpu_tests" ]; then
  "$work/kfuse_gpu_tests" >"$out/gpu_tests.log" 2>&1 || failed=1
  tail -3 "$out/gpu_tests.log"
fi

# A product through every schedule under the sanitizer, where the toolkit has it.
table=()
if [ -x "$work/kfuse_gpu_tests" ] && sanitizer=$(command -v compute-sanitizer); then
  for tool in memcheck racecheck; do
    for product in bias_relu matmul_3x33x4104; do
      KFUSE_CASE=$product timeout 250 "$sanitizer" --tool "$tool" --error-exitcode 9 "$work/kfuse_gpu_tests" \
        --test-case='cuda.matmul_sm90*,cuda.gemv*' >"$out/$tool-$product.log" 2>&1 || failed=1
      summary=$(grep SUMMARY "$out/$tool-$product.log" | tail -1 | sed 's/=* *//')
      table+=("$(printf '%-38s %s' "$tool $product" "$summary")")
    done
  done
fi
for glob in "${globs[@]}"; do
  for model in "$work"/models/$glob; do
    case "$model" in *.onnx | *.mlir) ;; *) continue ;; esac
    name=$(basename "$model")
    params=()
    case "$name" in # Weights that these files take as inputs.
    stacked*.onnx) params=(--params 'w_*' --params 'b_*' --params out) ;;
    llama_block*.onnx) params=(--params '*weight*') ;;
    *_b256.onnx | ffn_*.onnx | ln_gelu_*.onnx) params=(--params '*weight*' --params '*bias*') ;;
    esac
    SECONDS=0
    verdict=right
    {
      echo "=== $name"
      timeout 300 "$work/kfuse" tune "$model" "${params[@]}" &&
        timeout 300 "$work/kfuse" run "$model" "${params[@]}" --check --iterations 20
    } >"$work/log" 2>&1 || { verdict="FAILED: $(tail -1 "$work/log" | cut -c1-150)"; failed=1; }
    cat "$work/log" >>"$out/models.log"
    table+=("$(printf '%-38s %4d s  %-22s %s' "$name" "$SECONDS" "$(tail -1 "$work/log" | grep -o '^.* a run' || true)" "$verdict")")
  done
done
printf '%s\n' "${table[@]}" | tee "$out/models.txt"
exit $failed
