#!/usr/bin/env bash
# The tests of the torch backend, with the newest torch and transformers of PyPI, or those of KFUSE_TORCH ("2.9.*"), in a
# folder of their own beside what tools/setup.sh installs. Usage: torch.sh PYTHON TEST [its arguments]
set -euo pipefail
python=$1
shift
version=${KFUSE_TORCH:-}
folder=${KFUSE_TORCH_PACKAGES:-${XDG_DATA_HOME:-$HOME/.local/share}/kfuse/torch${version:+-${version//[^0-9.]/}}}
export PYTHONPATH=$PYTHONPATH:$folder
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$folder" \
    "torch${version:+==$version}" transformers >&2 ||
    { echo "skipped: the tests of the torch backend, since torch could not be fetched"; exit 0; }
fi
exec "$python" "$@"
