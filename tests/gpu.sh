#!/usr/bin/env bash
# GPU tests from a packed folder (tests/pack.sh). Prints a short table last, full results go to OUT.
# Usage: tests/gpu.sh BUNDLE OUT [tests] [sanitize] [models[=GLOB]]... [fuzz=FIRST..END]   (without parts: the first three)
#   tests      unit tests on the device, each case in a process of its own: on all cores and all GPUs, and those that hold
#              times against limits one by one at the end; within TESTS_SECONDS (200)
#   sanitize   compute-sanitizer's memcheck and racecheck over one config of every schedule; within 200 s on 16 cores
#   models     every example, or those that match, tuned and checked against the reference evaluator
#   driver     a pack with the driver and nothing else (tests/package/driver_only.sh), as root
#   fuzz       seeds of tests/fuzz/semantic.py on all cores, for FUZZ_SECONDS (480) at most; it needs Python's onnx
set -uo pipefail
bundle=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- tests sanitize models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$bundle/bin.tar.xz" -C "$work"
export KFUSE_STORE=$work/store.db NO_COLOR=1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt"
failed=0
table=()

# A row of the table of cases. Its GPU goes by the place that xargs gives it.
run_case() { # run_case NAME END: by when it must have ended, in seconds since 1970
  local name=$1 left=$(($2 - EPOCHSECONDS)) log place=${PLACE:-0} begun=$EPOCHREALTIME result count
  log=$out/cases/$(tr -c 'a-zA-Z0-9\n' _ <<<"$name" | cut -c1-100).log
  if [ "$left" -le 0 ]; then
    result="not begun"
  else # A comma would begin another pattern.
    CUDA_VISIBLE_DEVICES=${gpus[place % ${#gpus[@]}]} KFUSE_STORE=$work/$place.db timeout -k 3 "$left" \
      "$work/kfuse_gpu_tests" --test-case="${name//,/?}" --duration=true >"$log" 2>&1
    case $? in
    0) grep -q 'test cases: *1 ' "$log" && result=right || result=FAILED ;;
    77) result=skipped ;;
    124 | 137) result="cut short" ;;
    *) result=FAILED ;;
    esac
  fi
  count=$(grep -o 'assertions: *[0-9]*' "$log" 2>/dev/null | grep -o '[0-9]*$')
  awk -v result="$result" -v begun="$begun" -v ended="$EPOCHREALTIME" -v count="${count:-0}" -v name="$name" \
    'BEGIN { printf "%-9s %6.1f s %8d assertions  %s\n", result, ended - begun, count, name }' >>"$out/cases.txt"
}

run_tests() {
  local end=$((EPOCHSECONDS + ${TESTS_SECONDS:-200})) row
  local timed='^CudaTimer: |^RemoteDevice: |: host time of a run|^search: on the GPU|as fast as plain copies'
  local long='^schedules: |^cuda\.(matmul|flash)|^Weights of few bits|^lengths |^random |^8-bit '
  nvidia-smi --list-gpus >/dev/null || { table+=("tests: no GPU here"); failed=1; return; }
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $(($(nvidia-smi --list-gpus | wc -l) - 1)))}"
  mkdir -p "$out/cases"
  : >"$out/cases.txt"
  "$work/kfuse_gpu_tests" --list-test-cases --no-intro | grep -v '^\[doctest\]\|^=*$' >"$work/names"
  # Bash exports no arrays.
  export out work GPUS="${gpus[*]}" && export -f run_case
  { grep -E "$long" "$work/names"; grep -vE "$long" "$work/names"; } | grep -vE "$timed" |
    xargs -d '\n' -P "$(nproc)" --process-slot-var=PLACE -I {} bash -c 'gpus=($GPUS); run_case "$1" "$2"' _ {} $((end - 40))
  while read -r row; do run_case "$row" "$end" </dev/null; done < <(grep -E "$timed" "$work/names")
  sort -k1,1 -k2,2rn -o "$out/cases.txt" "$out/cases.txt"
  [ -s "$work/names" ] && [ "$(grep -c '^right' "$out/cases.txt")" -eq "$(wc -l <"$work/names")" ] || failed=1
  mapfile -t -O "${#table[@]}" table <"$out/cases.txt"
}

# Both tools at once: what they wait for most is the compiler and their own patching of kernels.
sanitize() {
  local sanitizer tool
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    table+=("sanitize: no compute-sanitizer here; install the CUDA toolkit")
    failed=1
    return
  }
  local -A running=()
  for tool in memcheck racecheck; do
    timeout 200 "$sanitizer" --tool "$tool" --error-exitcode 9 "$work/kfuse_gpu_tests" --test-case='schedules: *' \
      >"$out/$tool.log" 2>&1 &
    running[$tool]=$!
  done
  for tool in memcheck racecheck; do
    wait "${running[$tool]}" || failed=1
    table+=("$(printf '%-12s %s; %s' "$tool" "$(grep SUMMARY "$out/$tool.log" | tail -1 | sed 's/=* *//')" \
      "$(grep -o 'assertions:.*' "$out/$tool.log")")")
  done
}

tune_models() {
  local model name params verdict
  [ -d "$work/models" ] || tar -xJf "$bundle/models.tar.xz" -C "$work"
  for model in "$work"/models/$1; do
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
}

driver_only() {
  [ -d "$work/models" ] || tar -xJf "$bundle/models.tar.xz" -C "$work"
  "$(dirname "$0")/package/driver_only.sh" "$work/kfuse" "$work/deploy" "$work/timed" \
    "$work/models/llama_block_decode_b1_kv1024.mlir" position=1023 2>&1 | tee "$out/driver_only.log" || failed=1
}

fuzz() {
  python3 "$(dirname "$0")/fuzz/semantic.py" --binaries "$work" --seeds "$1" --seconds "${FUZZ_SECONDS:-480}" \
    --out "$out/semantic" || failed=1
}

for part in "$@"; do
  case "$part" in
  tests) run_tests ;;
  sanitize) sanitize ;;
  models) tune_models '*' ;;
  models=*) tune_models "${part#models=}" ;;
  driver) driver_only ;;
  fuzz=*) fuzz "${part#fuzz=}" ;;
  *) echo "tests/gpu.sh: no part '$part': tests, sanitize, models, models=GLOB, driver or fuzz=FIRST..END" >&2; exit 2 ;;
  esac
done
[ ${#table[@]} -eq 0 ] || printf '%s\n' "${table[@]}" | tee "$out/table.txt"
exit $failed
