#!/usr/bin/env bash
# Installs the build into a fresh prefix, then configures, builds and runs examples/consumer against it.
# Usage: consume.sh SOURCE BUILD C++-COMPILER
set -euo pipefail
source=$1 build=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
for cxx in "$compiler" $(command -v g++-12 || command -v g++ || true); do # Its headers are plain C++20.
  cmake -S "$source/examples/consumer" -B "$work/consumer-${cxx##*/}" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
  cmake --build "$work/consumer-${cxx##*/}" >/dev/null
  KFUSE_STORE=$work/store.db "$work/consumer-${cxx##*/}/consumer"
done
# The library exports its own names only.
if nm -DC --defined-only "$work"/prefix/lib*/libkfuse.so "$work"/prefix/lib/*/libkfuse.so 2>/dev/null | grep -v ' kfuse::\| kfuse$' | grep ' [TWVBDR] ' | grep -v 'kfuse::'; then
  echo "libkfuse.so exports names that are not kfuse's" >&2
  exit 1
fi
