#!/usr/bin/env bash
# Installs the build into a fresh prefix, then configures, builds and runs examples/consumer and
# tests/package/misuse against it.
# Usage: consume.sh SOURCE BUILD C++-COMPILER
set -euo pipefail
source=$1 build=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
build_against() { # build_against SOURCE TARGET: with $cxx; prints where the program lies.
  cmake -S "$1" -B "$work/$2-${cxx##*/}" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
  cmake --build "$work/$2-${cxx##*/}" >/dev/null
  echo "$work/$2-${cxx##*/}/$2"
}
for cxx in "$compiler" $(command -v g++-12 || command -v g++ || true); do # Its headers are plain C++20.
  consumer=$(build_against "$source/examples/consumer" consumer)
  misuse=$(build_against "$source/tests/package/misuse" misuse)
  KFUSE_STORE=$work/store.db "$consumer"
  KFUSE_STORE=$work/misuse-${cxx##*/}.db "$misuse"
done
# The library exports its own names only.
if nm -DC --defined-only "$work"/prefix/lib*/libkfuse.so "$work"/prefix/lib/*/libkfuse.so 2>/dev/null | grep -v ' kfuse::\| kfuse$' | grep ' [TWVBDR] ' | grep -v 'kfuse::'; then
  echo "libkfuse.so exports names that are not kfuse's" >&2
  exit 1
fi
