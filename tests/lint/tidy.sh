#!/usr/bin/env bash
# clang-tidy over the product's sources, two at a time. Usage: tidy.sh CLANG-TIDY REPOSITORY BUILD
set -euo pipefail
cd "$2"
find ir passes codegen runtime tuner tools python -name '*.cpp' | xargs -P "$(nproc)" -n 4 "$1" -p "$3" --quiet
