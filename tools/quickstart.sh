#!/usr/bin/env bash
# Installs what is missing, builds kfuse, and tunes a shipped model block: on the GPU if there is one,
# else on the CPU. Usage: tools/quickstart.sh [MODEL]
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
tools/build.sh build -DKFUSE_BUILD_TESTS=OFF
model=${1:-examples/models/llama.dynamo.onnx}
echo "\$ build/bin/kfuse tune $model" >&2
build/bin/kfuse tune "$model"
