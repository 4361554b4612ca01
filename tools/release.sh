#!/usr/bin/env bash
# Archives for machines without a build, all of one: kfuse-tools, kfuse-library (libkfuse and its headers) and
# kfuse-runtime (what runs packs), each with the licences of what is linked into it, and the libraries beside that Debian
# has only as shared ones. Without BUILD a build is made for it from nothing.
# Usage: tools/release.sh [BUILD|'' [FOLDER]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-} folder=${2:-release}
version=$(sed -n 's/^project(kfuse VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$build" ]; then
  build=$work/build
  tools/build.sh "$build" -DKFUSE_BUILD_TESTS=OFF
fi

licences() { # licences FOLDER PACKAGES...: what Debian says of each.
  local folder=$1/share/licenses/kfuse package
  shift
  mkdir -p "$folder"
  for package in "$@"; do
    cp -L "/usr/share/doc/$package/copyright" "$folder/$package" || { echo "no licence of $package" >&2; exit 1; }
  done
}

check_symbols() { # check_symbols FOLDER: all that runs does so with glibc 2.34.
  local file newest
  while read -r file; do
    newest=$(LC_ALL=C objdump -T "$file" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 || true)
    [ "$(printf 'GLIBC_2.34\n%s\n' "$newest" | sort -V | tail -1)" = GLIBC_2.34 ] ||
      { echo "${file#"$1/"} needs $newest, newer than GLIBC_2.34" >&2; exit 1; }
  done < <(find "$1" -type f \( -perm -u+x -o -name '*.so*' \))
}

archive() { # archive NAME
  check_symbols "$work/$1"
  XZ_OPT=-T0 tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$folder/$1.tar.xz" "$1"
  echo "$folder/$1.tar.xz: $(stat -c %s "$folder/$1.tar.xz") bytes"
}

mkdir -p "$folder"
all=$work/all
cmake --install "$build" --prefix "$all" >/dev/null
linked=(libstdc++-12-dev libboost1.74-dev nlohmann-json3-dev) # Into each of them.
compiler=(libllvm19 libmlir-19-dev libprotobuf-lite32 libsqlite3-0 libsqlitecpp-dev libzstd1 zlib1g libfmt-dev)

runtime=kfuse-runtime-$version-x86_64-linux
cmake --install "$build" --component runtime --prefix "$work/$runtime" >/dev/null
mkdir -p "$work/$runtime/share/doc/kfuse"
cp examples/deploy.c docs/deployment.md "$work/$runtime/share/doc/kfuse"
licences "$work/$runtime" "${linked[@]}"
archive "$runtime"

tools=kfuse-tools-$version-x86_64-linux
mkdir -p "$work/$tools/share/doc/kfuse"
cp -a "$all/bin" "$all/libexec" "$work/$tools"
cp -r README.md CHANGELOG.md docs examples "$work/$tools/share/doc/kfuse"
licences "$work/$tools" "${linked[@]}" "${compiler[@]}" libcli11-dev
archive "$tools"

# It starts kfuse-worker, too, and has what the runtime's archive has: packs are run by it as well.
library=kfuse-library-$version-x86_64-linux
mkdir -p "$work/$library/share/doc/kfuse"
cp -a "$all/lib" "$all/include" "$all/libexec" "$work/$library"
cp -r docs examples/consumer "$work/$library/share/doc/kfuse"
found=$(find "$work/$library" -name libkfuse.so)
for name in $(LC_ALL=C objdump -p "$found" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux-x86-64)\.so'); do
  cp -L "$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ { print $NF; exit }')" "$(dirname "$found")/$name" # Looked for there.
done
licences "$work/$library" "${linked[@]}" "${compiler[@]}"
archive "$library"
