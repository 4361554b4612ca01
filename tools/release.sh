#!/usr/bin/env bash
# Archives of a build for machines without it: kfuse (tools and library) and kfuse-runtime (what runs packs),
# each with the licences of what is linked into it, and the libraries beside that Debian has only as shared ones.
# Usage: tools/release.sh [BUILD [FOLDER]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} folder=${2:-release}
version=$(sed -n 's/^project(kfuse VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

licences() { # licences FOLDER PACKAGES...: what Debian says of each.
  local folder=$1/share/licenses/kfuse package
  shift
  mkdir -p "$folder"
  for package in "$@"; do
    cp -L "/usr/share/doc/$package/copyright" "$folder/$package" || { echo "no licence of $package" >&2; exit 1; }
  done
}

archive() { # archive NAME
  XZ_OPT=-T0 tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$folder/$1.tar.xz" "$1"
  echo "$folder/$1.tar.xz: $(stat -c %s "$folder/$1.tar.xz") bytes"
}

mkdir -p "$folder"
runtime=kfuse-runtime-$version-x86_64-linux
cmake --install "$build" --component runtime --prefix "$work/$runtime" >/dev/null
mkdir -p "$work/$runtime/share/doc/kfuse"
cp examples/deploy.c docs/deployment.md "$work/$runtime/share/doc/kfuse"
licences "$work/$runtime" libstdc++-12-dev libboost1.74-dev nlohmann-json3-dev
archive "$runtime"

tools=kfuse-$version-x86_64-linux
cmake --install "$build" --prefix "$work/$tools" >/dev/null
library=$(dirname "$(find "$work/$tools" -name 'libkfuse.so.*' | head -1)")
shared=$(LC_ALL=C objdump -p "$library/libkfuse.so" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux-x86-64)\.so')
for name in $shared; do # The library looks for them beside itself.
  cp -L "$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ { print $NF; exit }')" "$library/$name"
done
mkdir -p "$work/$tools/share/doc/kfuse"
cp -r README.md CHANGELOG.md docs examples "$work/$tools/share/doc/kfuse"
licences "$work/$tools" libstdc++-12-dev libboost1.74-dev nlohmann-json3-dev libllvm19 libmlir-19-dev libprotobuf-lite32 \
  libsqlite3-0 libsqlitecpp-dev libzstd1 zlib1g libcli11-dev libfmt-dev
archive "$tools"
