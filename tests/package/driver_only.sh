#!/usr/bin/env bash
# A pack on a machine with a GPU's driver and nothing else: in a mount namespace with a read-only /usr and without CUDA's
# compilers, examples/deploy.c gives the bits that `kfuse run` gave before, and timed.c the times of `kfuse bench block`,
# both twice, interleaved; from open to the first result takes 30 ms at most. Needs root, a GPU, and NVRTC to pack with.
# tests/pack.sh builds both programs, `tests/gpu.sh BUNDLE OUT driver` runs this.
# Usage: driver_only.sh KFUSE DEPLOY TIMED MODEL [NAME=NUMBER of an integer input]...
set -euo pipefail
kfuse=$1 deploy=$2 timed=$3 model=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KFUSE_STORE=$work/store.db compilers=$work/compilers
failed=0
complain() { echo "$*" >&2; failed=1; }

find /usr /opt /home /root -type f \( -name 'libnvrtc*' -o -name 'libnvJitLink*' -o -name nvcc -o -name cicc -o -name ptxas \
  -o -name nvlink \) -print >"$compilers" 2>/dev/null || true

# shellcheck disable=SC2317 # It is called where it was exported to.
hide() { # Leaves the driver in this mount namespace.
  local file point
  mount --rbind /usr /usr # With the mounts inside: the driver's files may be such.
  while read -r file; do
    mount --bind /dev/null "$file"
  done <"$compilers"
  awk '$5 ~ "^/usr(/|$)" && $6 !~ "^ro" { print $5 }' /proc/self/mountinfo | while read -r point; do
    mount -o remount,bind,ro "$point"
  done
}
export -f hide
bare() { unshare --mount bash -euc 'hide; exec "$@"' bare "$@"; }

bare true || { echo "mount namespaces cannot be made here" >&2; exit 1; }
"$kfuse" pack "$model" -o "$work/block.kfp"
python3 "$here/tensors.py" make "$work/block.kfp" "$kfuse" "$work" "$@"
mapfile -t inputs < <(tr ' ' '\n' <"$work/inputs")
"$kfuse" run "$model" "${inputs[@]}" --output "$work/expected"

! bare touch /usr/kfuse.txt || complain "/usr can be written"
! bare "$kfuse" tune "$model" --target sm_90a --no-benchmark --store "$work/other.db" >"$work/log" 2>&1 || complain "kfuse finds a compiler"
tail -1 "$work/log"
grep -q "no CUDA compiler" "$work/log" || complain "kfuse does not miss its compiler"

bare env LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/loaded" "$deploy" "$work/block.kfp" "$work"
python3 "$here/tensors.py" compare "$work/block.kfp" "$kfuse" "$work" || complain "other bits than kfuse run"
for turn in 1 2; do
  "$kfuse" bench block "$model" "${inputs[@]}" --json >"$work/bench.$turn"
  bare "$timed" "$work/block.kfp" "$work" | tee "$work/timed.$turn"
done
python3 - "$work" <<'P' || failed=1
import json, pathlib, re, sys

folder = pathlib.Path(sys.argv[1])
bench = [json.loads((folder / f"bench.{turn}").read_text()) for turn in (1, 2)]
timed = [dict(re.findall(r"(first|cold|warm) ([0-9.]+)", (folder / f"timed.{turn}").read_text())) for turn in (1, 2)]
print(f"{bench[0]['device']}, driver {bench[0]['driver']}")
right = True
for kind in ("cold", "warm"):
    ours, theirs = [float(turn[kind]) for turn in timed], [turn[kind + "_us"] for turn in bench]
    print(f"a run, {kind}: {ours} us, kfuse bench block {theirs} us")
    right &= min(ours) <= 1.02 * min(theirs)
right &= min(float(turn["first"]) for turn in timed) <= 30
print("times are right" if right else "2 % slower than kfuse bench block, or more than 30 ms to the first result")
sys.exit(not right)
P
echo "loaded: $(sed -n 's/.*calling init: //p' "$work"/loaded.* | sort -u | tr '\n' ' ')"
! cat "$work"/loaded.* "$work/maps" | grep -i nvrtc || complain "NVRTC was loaded"
exit $failed
