#!/usr/bin/env bash
# Mutated packs and safetensors files, with AddressSanitizer and UBSan: as many as there is time for. Needs clang.
# Usage: tools/fuzz_packs.sh [BUILD [SECONDS for each kind]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} seconds=${2:-600}
cmake --build "$build" --target kfuse_fuzz_pack kfuse_fuzz_safetensors
for kind in pack safetensors; do
  corpus=$build/fuzz-$kind
  mkdir -p "$corpus"
  nice -n 19 "$build/tests/sanitized/kfuse_fuzz_$kind" -max_total_time="$seconds" -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    "$corpus" "tests/fuzz/corpus/$kind" 2>&1 | grep -E "^stat::number_of_executed_units|ERROR|SUMMARY"
done
