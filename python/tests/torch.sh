#!/usr/bin/env bash
# The tests of the torch backend, with the newest torch and transformers of PyPI, or those of KFUSE_TORCH ("2.9.*"), in a
# folder of their own beside what tools/setup.sh installs. Usage: torch.sh PYTHON [its arguments]
set -euo pipefail
python=$1
shift
version=${KFUSE_TORCH:-}
folder=${KFUSE_TORCH_PACKAGES:-${XDG_DATA_HOME:-$HOME/.local/share}/kfuse/torch${version:+-${version//[^0-9.]/}}}
export PYTHONPATH=$PYTHONPATH:$folder
pip_install() { "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$@" >&2; }
# The 5 GB in less than a minute on 2 cores with other work beside, where pip takes twenty.
uv_install() {
  pip_install "$folder.uv" uv==0.13.9 &&
    "$folder.uv/bin/uv" pip install --quiet --system-certs --python "$python" --cache-dir "$folder.uv/cache" --target "$@" >&2
}
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
  wanted=("$folder" "torch${version:+==$version}" transformers)
  uv_install "${wanted[@]}" || pip_install "${wanted[@]}" ||
    { echo "skipped: the tests of the torch backend, since torch could not be fetched"; exit 0; }
  rm -rf "$folder.uv"
fi
exec "$python" "$@"
