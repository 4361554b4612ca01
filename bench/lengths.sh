#!/usr/bin/env bash
# A Llama block of any number of tokens on a GPU: what docs/performance-lengths.md says, in one run with 16 cores and
# 300 s. Prints a short table last; full results go to OUT. What a time limit cuts off is missing from the table; a part
# that measured nothing says so there, and the exit status is 1.
# Usage: bench/lengths.sh BIN OUT [tune] [torch] [alone] [products]   (without parts: all, in this order)
#   BIN       a folder with kfuse and kfuse-worker, and llama_any.onnx, else Python's onnx makes it
#   tune      all buckets, from an empty store
#   torch     eleven lengths beside torch with dynamic shapes; without torch kfuse's times alone
#   alone     30 lengths, log-uniform, beside a program tuned for each of them, as many as there is time for
#   products  the 60 products of bench/odd_rows.py beside cuBLASLt, six at a time
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd) bin=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- tune torch alone products
mkdir -p "$out"
export NO_COLOR=1 KFUSE_WORKER=$bin/kfuse-worker
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$bin/llama_any.onnx
if [ ! -e "$model" ]; then
  model=$work/llama_any.onnx
  python3 "$here/blocks/llama_any_length.py" "$model"
fi
any=("$model" --params '*weight*' --dims tokens=1..8192 --store "$work/any.db")
eleven=(7 33 100 200 333 777 1111 1500 2050 3001 4000)
thirty=$(python3 -c 'import math, random
random.seed(0)
print(*(round(math.exp(random.uniform(0, math.log(8192)))) for _ in range(30)))')
table=() failed=()

# Seconds for a part: so many, or what is left of all.
within() {
  local left=$((${TOTAL_SECONDS:-290} - SECONDS))
  echo $(($1 < left ? $1 : left > 1 ? left : 1))
}

# What a command prints is the table's, for a part.
row() {
  local part=$1 text
  shift
  text=$("$@") || failed+=("$part")
  table+=("${text:-$part: nothing was measured}")
}

tune() {
  local from=$EPOCHREALTIME status=0
  timeout "$(within 100)" "$bin/kfuse" tune "${any[@]}" --trace "$out/trace.json" --json >"$out/tune.json" \
    2>"$out/tune.err" || status=$?
  [ $status -eq 0 ] || failed+=(tune)
  table+=("cold tuning: $(python3 -c "print(f'{$EPOCHREALTIME - $from:.1f}')") s (goal 60), status $status")
}

beside_torch() {
  timeout "$(within 20)" "$bin/kfuse" bench lengths "${any[@]}" --at "${eleven[@]}" --json >"$out/eleven.json"
  timeout "$(within 60)" python3 "$here/peers/lengths_torch.py" --json "$out/torch.json" >"$out/torch.txt" 2>&1
  row torch python3 - "$out" <<'END'
import json, math, os, sys
found = json.load(open(f"{sys.argv[1]}/eleven.json"))
print(f"{found['programs']} programs; another length takes the host {found['host_us']:.2f} us (goal 10)")
torch, ratios = {}, []
if os.path.exists(f"{sys.argv[1]}/torch.json"):
    torch = {row["tokens"]: 1e3 * min(row["eager"], row["compile"]) for row in json.load(open(f"{sys.argv[1]}/torch.json"))}
for one in found["lengths"]:
    peer = torch.get(int(one["lengths"]))
    ratios += [peer / one["cold_us"]] if peer else []
    print(f"{one['lengths']:>6} {one['cold_us']:8.1f} us", f"torch {peer:8.1f} {ratios[-1]:.3f}" if peer else "")
if ratios:
    print(f"torch over kfuse: {math.prod(ratios) ** (1 / len(ratios)):.3f}, least {min(ratios):.3f} (goal 1.10, 1.0)")
END
}

alone() {
  # Word splitting is meant.
  # shellcheck disable=SC2086
  timeout "$(within 110)" "$bin/kfuse" bench lengths "${any[@]}" --alone --at $thirty --json >"$out/alone.json" \
    2>"$out/alone.err"
  row alone python3 - "$out" <<'END'
import json, sys
text = open(f"{sys.argv[1]}/alone.json").read()  # Empty where it failed, or was cut off.
found = [one for one in json.loads(text)["lengths"] if one["alone_us"] > 0] if text else []
ratios = [one["cold_us"] / one["alone_us"] for one in found]
for one, ratio in zip(found, ratios):
    print(f"{one['lengths']:>6} {one['cold_us']:8.1f} us  alone {one['alone_us']:8.1f} {ratio:.3f}")
if not ratios:
    print("0 of 30")
    sys.exit(1)
print(f"{len(ratios)} of 30: mean {sum(ratios) / len(ratios):.3f}, worst {max(ratios):.3f} (goal 1.03, 1.10)")
END
}

products() {
  local shapes first files=()
  read -ra shapes <<<"$(python3 "$here/odd_rows.py")"
  for ((first = 0; first < ${#shapes[@]} && SECONDS + 10 < ${TOTAL_SECONDS:-290}; first += 6)); do
    timeout "$(within 60)" "$bin/kfuse" bench gemm --shapes "${shapes[@]:first:6}" --store "$work/gemm.db" --json \
      >"$out/products$first.json" 2>>"$out/products.err" && files+=("$out/products$first.json")
  done
  if [ ${#files[@]} -gt 0 ]; then
    table+=("$(python3 "$here/odd_rows.py" "${files[@]}" | tail -1) (goal 1.04, 0.93)")
  else
    failed+=(products) table+=("0 of 60 products")
  fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt" || exit 1
for part in "$@"; do
  case $part in
  tune | alone | products) "$part" ;;
  torch) beside_torch ;;
  *) echo "no part is called $part: tune, torch, alone, products" >&2 && exit 2 ;;
  esac
done
printf '%s\n' "${table[@]}" | tee "$out/table.txt"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2 && exit 1; }
