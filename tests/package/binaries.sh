#!/usr/bin/env bash
# The tools start on any distribution with glibc 2.34 or later, and the library needs what docs/deployment.md says.
# Usage: binaries.sh SOURCE KFUSE KFUSE-OPT KFUSE-WORKER LIBKFUSE
set -euo pipefail
source=$1 tools=("$2" "$3" "$4") library=$5
failed=0
complain() { echo "$*" >&2; failed=1; }

needed() { LC_ALL=C objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'; }

for binary in "${tools[@]}" "$library"; do
  newest=$(LC_ALL=C objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
  echo "$(basename "$binary"): $(needed "$binary" | tr '\n' ' ')up to $newest"
  [ "$(printf 'GLIBC_2.34\n%s\n' "$newest" | sort -V | tail -1)" = GLIBC_2.34 ] || complain "$binary needs $newest, newer than GLIBC_2.34"
done
for tool in "${tools[@]}"; do
  others=$(needed "$tool" | grep -vE '^(libc|libm|ld-linux-x86-64)\.so\.[0-9]+$' || true)
  [ -z "$others" ] || complain "$tool needs $others, which a user may not have"
done
for other in $(needed "$library" | grep -vE '^(libc|libm|ld-linux-x86-64)\.so\.[0-9]+$'); do
  grep -q "\`$other\`" "$source/docs/deployment.md" || complain "libkfuse.so needs $other, which docs/deployment.md does not name"
done
exit $failed
