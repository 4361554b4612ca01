#!/usr/bin/env bash
# The archives of tools/release.sh on a root that has nothing but a minimal Debian 12: examples/deploy.c by the shared
# and the static library gives the bits of `kfuse run`, and the tools and libkfuse.so find all that they need.
#   debootstrap --variant=minbase bookworm ROOT && mount -t proc proc ROOT/proc
#   tools/release.sh '' FOLDER && tests/package/bare.sh build/bin/kfuse FOLDER ROOT      (as root: it calls chroot)
# Usage: bare.sh KFUSE FOLDER ROOT
set -euo pipefail
kfuse=$1 folder=$2 root=$3
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../..
work=$(mktemp -d "$root/tmp/kfuse.XXXXXX")
trap 'rm -rf "$work"' EXIT
inside=${work#"$root"}
export KFUSE_STORE=$work/store.db HOME=$inside
model=$source/examples/models/llama_odd_decode_bf16.mlir

for archive in "$folder"/*.tar.xz; do
  tar -C "$work" -xJf "$archive"
done
runtime=$(echo "$work"/kfuse-runtime-*) tools=$(echo "$work"/kfuse-tools-*) whole=$(echo "$work"/kfuse-library-*)
mkdir "$work/data"
"$kfuse" pack "$model" --target cpu --no-benchmark -o "$work/data/block.kfp" >/dev/null
python3 "$here/tensors.py" make "$work/data/block.kfp" "$kfuse" "$work/data"
# shellcheck disable=SC2046 # Words of options.
"$kfuse" run "$model" --target cpu --no-benchmark $(cat "$work/data/inputs") --output "$work/data/expected" >/dev/null

library=$(dirname "$(find "$runtime" -name libkfuse_runtime.so)")
strict="-std=c11 -Wall -Werror -pedantic"
gcc $strict "$source/examples/deploy.c" -o "$work/shared" -I"$runtime/include" -L"$library" -lkfuse_runtime
gcc $strict "$source/examples/deploy.c" -o "$work/static" -I"$runtime/include" "$library/libkfuse_runtime.a" -lm
for program in shared static; do
  rm -f "$work"/data/*.out
  chroot "$root" env LD_LIBRARY_PATH="${library#"$root"}" "$inside/$program" "$inside/data/block.kfp" "$inside/data"
  python3 "$here/tensors.py" compare "$work/data/block.kfp" "$kfuse" "$work/data"
done
for tool in "bin/kfuse run $inside/data/block.kfp" "bin/kfuse targets" "bin/kfuse-opt --version"; do
  # shellcheck disable=SC2086
  chroot "$root" env KFUSE_STORE="$inside/store.db" ${tools#"$root"}/$tool >/dev/null || { echo "$tool fails on $root" >&2; exit 1; }
done
found=$(find "$whole" -name libkfuse.so)
needed=$(chroot "$root" ldd "${found#"$root"}")
! grep "not found" <<<"$needed" || { echo "libkfuse.so lacks what it needs" >&2; exit 1; }
echo "the archives run on $root"
