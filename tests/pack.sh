#!/usr/bin/env bash
# Packs what the GPU tests need into one folder that another machine can run: static, stripped
# binaries and models, compressed. Usage: tests/pack.sh BUILD FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runtime=$build/runtime/library/libkfuse_runtime.a
for program in examples/deploy.c tests/package/timed.c; do
  [ ! -e "$runtime" ] ||
    gcc -std=c11 -Wall -Werror -pedantic "$program" -Iinclude "$runtime" -lm -o "$work/$(basename "$program" .c)"
done
files=()
for file in "$build"/bin/kfuse "$build"/bin/kfuse-worker "$build"/bin/kfuse_semantic_runner \
  "$build"/tests/gpu/kfuse_gpu_tests "$build"/bench/kfuse_gpu_bench "$work"/deploy "$work"/timed; do
  [ -x "$file" ] && files+=("$file")
done
# The binaries share most of their code: a dictionary that reaches from one into the next halves the archive.
tar -cf - --hard-dereference --transform 's,.*/,,' "${files[@]}" | xz --lzma2=preset=0,dict=192MiB,mf=hc4 >"$folder/bin.tar.xz"
tar -cf - -C examples models | xz -T0 -2 >"$folder/models.tar.xz"
du -sh "$folder" >&2
