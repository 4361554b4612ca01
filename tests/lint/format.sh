#!/usr/bin/env bash
# Fails where clang-format would change a source. Usage: format.sh CLANG-FORMAT REPOSITORY
set -euo pipefail
cd "$2"
find ir passes codegen runtime tuner tools include examples tests bench python -name '*.h' -o -name '*.cpp' | grep -v '/emulation/device/' |
  xargs "$1" --dry-run --Werror
