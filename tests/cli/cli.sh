#!/usr/bin/env bash
# The command line as a person and a program meet it: help, exit statuses, one-line errors, JSON, the
# store's second run. Usage: cli.sh KFUSE MODELS
set -uo pipefail
kfuse=$1 models=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KFUSE_STORE=$work/store.db NO_COLOR=1
passed=0 failed=0

check() { # check NAME CONDITION...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name" >&2; fi
}

# An error is one line on stderr, nothing on stdout, and this exit status.
fails() { # fails STATUS TEXT ARGUMENTS...
  local status=$1 text=$2 got
  shift 2
  "$kfuse" "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$status" ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "$text" "$work/err" && return 0
  echo "kfuse $*: status $got, expected $status; stderr:" >&2
  head -5 "$work/err" >&2
  return 1
}

check "help" grep -q "Examples:" <("$kfuse" --help)
check "help of a command" grep -q "Examples:" <("$kfuse" tune --help)
check "version" grep -q "^kfuse [0-9]" <("$kfuse" --version)

check "no command" fails 2 "subcommand is required"
check "unknown option" fails 2 "--nonsense" tune x.onnx --nonsense
check "unknown target" fails 2 "unknown target 'sm_12'" explain "$models/ffn_tiny.mlir" --target sm_12
check "bad shape" fails 2 "name=1x128x4096" explain "$models/ffn_tiny.mlir" --target cpu --shape x=1xq
check "shape of no input" fails 2 "nope" explain "$models/ffn_tiny.mlir" --target cpu --shape nope=2
check "pattern that matches nothing" fails 2 "nope" explain "$models/ffn_tiny.mlir" --target cpu --params 'nope*'
check "missing file" fails 8 "absent.onnx" explain "$work/absent.onnx" --target cpu
head -c 5000 "$models/bert.dynamo.onnx" >"$work/truncated.onnx"
check "truncated model" fails 3 "truncated.onnx" explain "$work/truncated.onnx" --target cpu
head -c 5000 /dev/urandom >"$work/noise.onnx"
check "noise" fails 3 "noise.onnx" explain "$work/noise.onnx" --target cpu
printf 'func.func @main(%%x: ' >"$work/half.mlir"
check "half a text" fails 3 "half.mlir" explain "$work/half.mlir" --target cpu
: >"$work/empty.onnx"
check "empty file" fails 3 "empty.onnx" explain "$work/empty.onnx" --target cpu
echo "not a store" >"$work/foreign.db"
check "foreign store" fails 8 "foreign.db" tune "$models/ffn_tiny.mlir" --target cpu --store "$work/foreign.db"
check "foreign store left alone" grep -q "not a store" "$work/foreign.db"
check "input of no name" fails 2 "nope" run "$models/ffn_tiny.mlir" --target cpu --input nope=random

check "explain as JSON" python3 -c 'import json,sys; j=json.load(sys.stdin); assert j["kernels"] and "memory" in j' < <("$kfuse" explain "$models/llama.dynamo.onnx" --target sm_90a --json)
check "explain within 100 columns" awk 'length > 100 { exit 1 }' <("$kfuse" explain "$models/llama.dynamo.onnx" --target sm_90a)

"$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --json >"$work/cold.json" 2>"$work/err"
check "tune as JSON" python3 - "$work/cold.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
assert set(report) == {"device", "kernels", "arena_bytes", "arena_lower_bound_bytes", "total_us", "seconds"}, report.keys()
for kernel in report["kernels"]:
    assert {"name", "ops", "template", "config", "regime", "bound_us", "measured_us", "roofline_percent", "candidates", "failed", "from_cache"} <= set(kernel)
    assert kernel["measured_us"] > 0 and not kernel["from_cache"] and kernel["candidates"] > 0
P
check "tune is quiet on stderr" test ! -s "$work/err"
"$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --json >"$work/warm.json"
check "second run is all from the store" python3 - "$work/cold.json" "$work/warm.json" <<'P'
import json, sys
cold, warm = (json.load(open(path)) for path in sys.argv[1:])
assert all(kernel["from_cache"] for kernel in warm["kernels"])
assert [k["config"] for k in cold["kernels"]] == [k["config"] for k in warm["kernels"]]
assert warm["seconds"] < 0.3, warm["seconds"]
P
check "second run says so" grep -q "nothing compiled, nothing benchmarked" <("$kfuse" tune "$models/ffn_tiny.mlir" --target cpu)
check "table within 100 columns" awk 'length > 100 { exit 1 }' <("$kfuse" tune "$models/ffn_tiny.mlir" --target cpu)
check "run --check" grep -q "right" <("$kfuse" run "$models/ffn_tiny.mlir" --target cpu --check --output "$work/out.d")
check "outputs as npy" test -s "$work/out.d/y.npy"
check "state is written in place" grep -q "right" <("$kfuse" run "$models/llama_tiny_decode.mlir" --target cpu --check)
head -c 3000 "$work/store.db" >"$work/cut.db"
check "damaged store is moved aside" "$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --store "$work/cut.db" --json

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
