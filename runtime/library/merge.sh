#!/usr/bin/env bash
# Links archives and their C++ runtime to one object that defines the functions of a header for others, and nothing else.
# Usage: merge.sh C++-COMPILER HEADER ARCHIVE.a PARTS.a...
set -euo pipefail
compiler=$1 header=$2 archive=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
functions=$(grep -o 'kfr_[a-z_]*(' "$header" | tr -d '(' | sort -u)
runtime=()
for library in libstdc++.a libgcc_eh.a libgcc.a; do
  runtime+=("$("$compiler" -print-file-name=$library)")
done
# Groups are dissolved: a program with a C++ runtime of its own would have one of two that are alike thrown away.
ld -r --force-group-allocation --gc-sections $(printf -- '-u %s ' $functions) -o "$work/all.o" \
  --start-group "$@" "${runtime[@]}" --end-group
objcopy --strip-unneeded -w --keep-global-symbol='kfr_*' "$work/all.o" "$work/kfuse_runtime.o"
rm -f "$archive"
ar rcsD "$archive" "$work/kfuse_runtime.o"
