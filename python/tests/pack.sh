#!/usr/bin/env bash
# Packs the tests of the torch backend, with kfuse's wheel and what it needs of PyPI, into a folder that gpu.sh runs on
# another machine. Usage: python/tests/pack.sh FOLDER [VERSION], of that machine's Python, 3.12 where none is given.
set -euo pipefail
folder=$(realpath -m "$1") version=${2:-3.12}
cd "$(dirname "$0")/../.."
rm -rf "$folder"
mkdir -p "$folder"
tools/wheel.sh "$folder"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$version" \
  --dest "$folder" nanobind-backend
cp python/tests/{gpu.sh,architectures.py,torch_support.py} python/tests/test_torch_{models,ops,state,sizes,fallback}.py "$folder"
du -sh "$folder" >&2
