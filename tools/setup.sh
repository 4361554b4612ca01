#!/usr/bin/env bash
# Installs what building and testing kfuse needs on Debian 12 (or a later Debian/Ubuntu with LLVM 19),
# and NVRTC from NVIDIA's PyPI wheels where no CUDA toolkit is found. Does nothing that is already done.
set -euo pipefail

packages=(
  cmake ninja-build ccache clang-19 lld-19 libclang-rt-19-dev
  libmlir-19-dev mlir-19-tools llvm-19-dev llvm-19-tools clang-format-19 clang-tidy-19
  libboost-dev libboost-graph-dev doctest-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libsqlite3-dev libsqlitecpp-dev libprotobuf-dev protobuf-compiler libonnx-dev librapidcheck-dev
  libzstd-dev zlib1g-dev python3 python3-dev
)

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || { echo "setup: needs these packages, and found no apt-get: ${missing[*]}" >&2; exit 1; }
  echo "setup: installing ${missing[*]}" >&2
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# From PyPI into FOLDER: pip_install FOLDER REQUIREMENT...
pip_install() {
  dpkg-query -W -f='${db:Status-Status}' python3-pip 2>/dev/null | grep -qx installed || python3 -m pip --version >/dev/null 2>&1 ||
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$1" "${@:2}" >&2
}

# NVRTC and the headers: from a toolkit, else from PyPI into the user's data folder, where kfuse looks.
data=${XDG_DATA_HOME:-$HOME/.local/share}/kfuse
has() { compgen -G "$1" >/dev/null; }
if ! has "${CUDA_HOME:-/usr/local/cuda}/lib*/libnvrtc.so*" && ! has "$data/cuda/nvidia/*/lib/libnvrtc.so*"; then
  echo "setup: no CUDA toolkit found, taking NVRTC and the headers from PyPI into $data/cuda" >&2
  pip_install "$data/cuda" 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' ||
    echo "setup: NVRTC could not be fetched; CUDA targets are off until a CUDA toolkit is installed, the CPU target works" >&2
fi

# With which tests look at machine code. The first of NVIDIA's wheels is of 13.2, and reads older code.
if ! command -v nvdisasm >/dev/null && ! has "${CUDA_HOME:-/usr/local/cuda}/bin/nvdisasm" && ! has "$data/nvdisasm/nvidia/*/bin/nvdisasm"; then
  pip_install "$data/nvdisasm" 'nvidia-cuda-nvdisasm==13.2.*' ||
    echo "setup: nvdisasm could not be fetched; the tests that read machine code are skipped" >&2
fi

# With which the Python package is built, and tested.
if ! PYTHONPATH=$data/python python3 -c 'import nanobind, nanobind_backend, tqdm' 2>/dev/null; then
  pip_install "$data/python" nanobind==3.1.0 nanobind-backend==1.0.0 tqdm==4.70.1 ||
    echo "setup: nanobind could not be fetched; the Python package is left out" >&2
fi

# The reference that tests/fuzz/semantic.py compares with.
if ! PYTHONPATH=$data/python python3 -c 'import onnx.reference, ml_dtypes' 2>/dev/null; then
  pip_install "$data/python" onnx==1.23.2 numpy==2.4.6 ml_dtypes==0.6.0 protobuf==7.36.2 ||
    echo "setup: the onnx package could not be fetched; the test fuzz/semantic is skipped" >&2
fi
