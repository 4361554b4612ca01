#!/usr/bin/env bash
# Packs as C source and as objects: compiled strictly by gcc and clang, as C and C++, two of them in one program, and
# run with the bits of `kfuse run`; names of tensors that are words of C, or no words at all.
# Usage: emit.sh SOURCE BUILD KFUSE
set -euo pipefail
source=$1 build=$2 kfuse=$3
here=$source/tests/package
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KFUSE_STORE=$work/store.db
strict="-Wall -Wextra -Werror -pedantic"
fail() { echo "$*" >&2; exit 1; }

cmake --install "$build" --component runtime --prefix "$work/prefix" >/dev/null
archive=$(find "$work/prefix" -name libkfuse_runtime.a)
model=$source/examples/models/ffn_tiny.mlir
for form in c:first.c object:second.o pack:ffn.kfp; do
  "$kfuse" pack "$model" --target cpu --no-benchmark --emit "${form%%:*}" -o "$work/${form#*:}" >/dev/null
done
[ "$(cd "$work" && ls first* second* | tr '\n' ' ')" = "first.c first.h second.h second.o " ] || fail "other files: $(ls "$work")"

python3 "$here/tensors.py" make "$work/ffn.kfp" "$kfuse" "$work"
# shellcheck disable=SC2046 # Words of options.
"$kfuse" run "$model" --target cpu --no-benchmark $(cat "$work/inputs") --output "$work/expected" >/dev/null
for compiler in gcc clang; do
  if ! command -v "$compiler" >/dev/null; then
    echo "skipped: $compiler: it is not here"
    continue
  fi
  "$compiler" -std=c11 $strict "$here/emitted.c" "$work/first.c" "$work/second.o" -I"$work" -I"$work/prefix/include" "$archive" -lm -o "$work/emitted"
  rm -f "$work"/y.*
  "$work/emitted" "$work"
  for name in first second; do
    mv "$work/y.$name" "$work/y.out"
    python3 "$here/tensors.py" compare "$work/ffn.kfp" "$kfuse" "$work" || fail "$compiler: $name has other bits than kfuse run"
  done
done
needed=$(LC_ALL=C objdump -p "$work/emitted" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux-x86-64)\.so' || true)
[ -z "$needed" ] || fail "the program needs $needed"

# Hostile names: words of C and C++, no letters, quotes and ends of comments; the same twice in capitals.
cat >"$work/names.mlir" <<'M'
module {
  func.func @main(%arg0: tensor<4xf32> {kfuse.name = "int", kfuse.role = "input"}, %arg1: tensor<4xf32> {kfuse.name = "0 */ \22x\22??=", kfuse.role = "parameter"}, %arg2: tensor<4xf32> {kfuse.name = "A", kfuse.role = "input"}, %arg3: tensor<4xf32> {kfuse.name = "a", kfuse.role = "input"}, %arg4: tensor<4xf32> {kfuse.name = "pack", kfuse.role = "input"}) -> (tensor<4xf32> {kfuse.name = "new"}) {
    %0 = kfuse.add %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = kfuse.add %arg2, %arg3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = kfuse.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = kfuse.add %2, %arg4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
M
"$kfuse" pack "$work/names.mlir" --target cpu --no-benchmark --emit c -o "$work/names.c" >/dev/null
gcc -std=c11 $strict -c "$work/names.c" -I"$work/prefix/include" -o "$work/names.o"
g++ -std=c++11 $strict -x c++ -fsyntax-only "$work/names.h" -I"$work/prefix/include"
for field in t_int t_0_____x____ A a_2 pack_2 t_new; do
  grep -q "void \*$field;" "$work/names.h" || fail "no member $field in $(cat "$work/names.h")"
done

# Sizes that a run gives are members beside its tensors.
"$kfuse" pack "$source/tests/data/dynamic.onnx" --target cpu --no-benchmark --dims batch=1..2 --dims seq=1..9 --emit c -o "$work/any.c" >/dev/null
gcc -std=c11 $strict -c "$work/any.c" -I"$work/prefix/include" -o "$work/any.o"
g++ -std=c++11 $strict -x c++ -fsyntax-only "$work/any.h" -I"$work/prefix/include"
grep -q "int64_t seq; /\* 1 to 9 \*/" "$work/any.h" || fail "no member seq in $(cat "$work/any.h")"
grep -q "kfr_run_lengths(session, stream, lengths, 2, error)" "$work/any.h" || fail "runs without lengths: $(cat "$work/any.h")"
