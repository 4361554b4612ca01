#!/usr/bin/env bash
# libkfuse_runtime as who deploys meets it: what it needs and exports, and a C program that runs a pack with the bits
# of `kfuse run`, built by gcc against the shared and the static library, and found by pkg-config and by CMake.
# Usage: runtime.sh SOURCE BUILD KFUSE
set -euo pipefail
source=$1 build=$2 kfuse=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*" >&2; failed=1; }
export KFUSE_STORE=$work/store.db

cmake --install "$build" --component runtime --prefix "$work/prefix" >/dev/null
library=$(find "$work/prefix" -name libkfuse_runtime.so)
folder=$(dirname "$library")
others=$(LC_ALL=C objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux-x86-64)\.so\.[0-9]+$' || true)
[ -z "$others" ] || complain "$library needs $others, which a user may not have"
newest=$(LC_ALL=C objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
[ "$(printf 'GLIBC_2.34\n%s\n' "$newest" | sort -V | tail -1)" = GLIBC_2.34 ] || complain "$library needs $newest, newer than GLIBC_2.34"
bytes=$(stat -Lc %s "$library")
echo "libkfuse_runtime.so: $bytes bytes, up to $newest"
[ "$bytes" -le 1048576 ] || complain "$library has $bytes bytes, more than 1 MB"
declared=$(grep -o 'kfr_[a-z_]*(' "$source/include/kfuse/runtime.h" | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort -u)
[ "$exported" = "$(sed 's/$/@@KFR_1/' <<<"$declared")" ] || complain "the shared library exports other names than the header: $exported"
global=$(nm --defined-only "$folder/libkfuse_runtime.a" | awk '$2 ~ /^[A-Z]$/ && $2 != "N" { print $3 }' | sort -u)
[ "$(grep -c . <<<"$global")" = "$(grep -c . <<<"$declared")" ] || complain "the static library defines other names than the header: $global"

"$kfuse" pack "$source/examples/models/llama_odd_decode_bf16.mlir" --target cpu --no-benchmark -o "$work/block.kfp" >/dev/null
python3 "$source/tests/package/tensors.py" make "$work/block.kfp" "$kfuse" "$work"
# shellcheck disable=SC2046 # Words of options.
"$kfuse" run "$source/examples/models/llama_odd_decode_bf16.mlir" --target cpu --no-benchmark $(cat "$work/inputs") --output "$work/expected" >"$work/log"

run() { # run PROGRAM: whether it gives the bits that kfuse run gave.
  rm -f "$work"/*.out
  "$1" "$work/block.kfp" "$work"
  python3 "$source/tests/package/tensors.py" compare "$work/block.kfp" "$kfuse" "$work" || complain "$1: other bits than kfuse run"
}
strict="-std=c11 -Wall -Wextra -Werror -pedantic"
gcc $strict "$source/examples/deploy.c" -o "$work/shared" -I"$work/prefix/include" -L"$folder" -lkfuse_runtime -Wl,-rpath,"$folder"
run "$work/shared"
gcc $strict "$source/examples/deploy.c" -o "$work/static" -I"$work/prefix/include" "$folder/libkfuse_runtime.a" -lm
run "$work/static"
strip "$work/static"
bytes=$(stat -c %s "$work/static")
[ "$bytes" -le 1048576 ] || complain "a program with the static library has $bytes bytes, more than 1 MB"
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$folder/pkgconfig
  # shellcheck disable=SC2046
  gcc $strict "$source/examples/deploy.c" -o "$work/found" $(pkg-config --cflags --libs kfuse-runtime) -Wl,-rpath,"$folder"
  run "$work/found"
else
  echo "skipped: pkg-config: it is not here"
fi
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.20)
project(project LANGUAGES C)
find_package(kfuse REQUIRED COMPONENTS runtime)
add_executable(deploy $source/examples/deploy.c)
target_link_libraries(deploy PRIVATE kfuse::runtime)
EOF
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/project/build" >/dev/null
run "$work/project/build/deploy"
exit $failed
