#!/usr/bin/env bash
# Configures and builds into a folder. Usage: tools/build.sh FOLDER [cmake options...]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@" >"$folder.log" 2>&1 || { mkdir -p "$folder"; cat "$folder.log" >&2; exit 1; }
rm -f "$folder.log"
echo "build: compiling into $folder; from nothing this takes minutes, 5 or so on 2 cores without the tests" >&2
# Precompiled headers are what ccache must not look into.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros,include_file_mtime,include_file_ctime
quiet=(-- --quiet) # In a log, warnings and errors only.
[ -t 1 ] && quiet=()
cmake --build "$folder" "${quiet[@]}"
