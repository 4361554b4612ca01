#!/usr/bin/env bash
# The tests of the torch backend with other versions of torch than the newest, each in a folder of its own (5 GB).
# Usage: tools/test-torch.sh [VERSION...], 2.9 where none is given.
set -euo pipefail
cd "$(dirname "$0")/.."
for version in "${@:-2.9}"; do
  KFUSE_TORCH="$version.*" ctest --test-dir build -R '^python\.torch' --output-on-failure
done
