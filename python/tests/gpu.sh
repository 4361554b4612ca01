#!/usr/bin/env bash
# The tests of the torch backend on a GPU, from a folder that pack.sh made: with the torch and transformers of the machine,
# each group in a process of its own, all at once, since a test waits for torch's tracing on one core. Prints a line for
# each group and what failed; OUT has the rest. Usage: gpu.sh FOLDER OUT [SECONDS], after which what still runs is ended.
set -uo pipefail
out=$(realpath -m "$2") most=${3:-500}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1"/*.py "$work"
for wheel in "$1"/*.whl; do python3 -m zipfile -e "$wheel" "$work/packages"; done
chmod +x "$work"/packages/kfuse/libexec/kfuse/* # zipfile forgets that they run.
cd "$work" || exit 1
export PYTHONPATH=$work/packages KFUSE_TEST_DEVICE=cuda HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
export TORCHINDUCTOR_COMPILE_THREADS=2 TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
python3 -c 'import torch, transformers, kfuse; print(torch.cuda.get_device_name(), "torch", torch.__version__,
  "transformers", transformers.__version__, "kfuse", kfuse.__version__)' | tee "$out/versions.txt" || exit 1

run() { # GROUP FILE [TESTS]
  local group=$1 start=$SECONDS
  [ $SECONDS -lt "$most" ] || { echo "$group FAILED, not begun within $most s"; return 1; }
  KFUSE_STORE=$work/$group.db timeout -k 3 $((most - SECONDS)) python3 "test_torch_$2.py" -v "${@:3}" >"$out/$group.txt" 2>&1
  local status=$?
  printf '%-20s %s, %3d ok, %3d s: %s\n' "$group" "$([ $status = 0 ] && echo right || echo FAILED)" \
    "$(grep -c ' ok$' "$out/$group.txt")" $((SECONDS - start)) "$(tail -1 "$out/$group.txt")"
  return $status
}

groups=()
names=$(python3 -c 'import architectures; print(*architectures.ARCHITECTURES)') || exit 1
for name in $names; do
  run "models_$name" models "Architectures.test_${name}_f32" "Architectures.test_${name}_bf16" & groups+=($!)
done
for class in Generation Exported; do
  names=$(python3 -c "import unittest, test_torch_models as t; print(*unittest.TestLoader().getTestCaseNames(t.$class))") || exit 1
  for test in $names; do
    run "${class,,}_${test#test_}" models "$class.$test" & groups+=($!)
  done
done
for file in ops state sizes; do run "$file" "$file" & groups+=($!); done
run fallback fallback Fallbacks Memory Nvrtc & groups+=($!) # The rest of that file has its faults before a GPU is used.
failed=0
for group in "${groups[@]}"; do wait "$group" || failed=1; done
grep -h '^FAIL:\|^ERROR:' "$out"/*.txt
exit $failed
