#!/usr/bin/env bash
# The command line as a person and a program meet it: help, exit statuses, one-line errors, JSON, tables, the
# store's second run, the terminal. Usage: cli.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"

check "help" grep -q "Examples:" <("$kfuse" --help)
check "help of a command" grep -q "Examples:" <("$kfuse" tune --help)
check "version" grep -q "^kfuse [0-9]" <("$kfuse" --version)

check "no command" fails 2 "subcommand is required"
check "unknown command" fails 2 "there is no command 'frob'" frob
check "unknown command of the store" fails 2 "there is no command 'frob'" db frob
check "no time" fails 2 "budget: 0 is not a number above 0" tune "$models/ffn_tiny.mlir" --target cpu --budget 0s
check "unknown option" fails 2 "--nonsense" tune x.onnx --nonsense
check "unknown target" fails 2 "unknown target 'sm_12'" explain "$models/ffn_tiny.mlir" --target sm_12
check "bad shape" fails 2 "name=1x128x4096" explain "$models/ffn_tiny.mlir" --target cpu --shape x=1xq
check "shape without a name" fails 2 "--shape =8 is not of the form" explain "$models/ffn_tiny.mlir" --target cpu --shape =8
check "two shapes of one input" fails 2 "the second shape" explain "$models/ffn_tiny.mlir" --target cpu --shape x=2 --shape x=3
check "shape of no input" fails 2 "nope" explain "$models/ffn_tiny.mlir" --target cpu --shape nope=2
check "shape that does not fit" fails 2 "x" explain "$models/ffn_tiny.mlir" --target cpu --shape x=3x5
check "more threads than any machine has" fails 2 "1024" tune "$models/ffn_tiny.mlir" --target cpu --threads 100000
check "pattern that matches nothing" fails 2 "nope" explain "$models/ffn_tiny.mlir" --target cpu --params 'nope*'
check "no rows" fails 2 "--rows 0: expected 1 to " bench gemm --rows 0
check "size that no integer holds" fails 2 "99999999999999999999x4x4: expected MxNxK" bench gemm --shapes 99999999999999999999x4x4
check "missing file" fails 8 "absent.onnx" explain "$work/absent.onnx" --target cpu
head -c 5000 "$models/bert.dynamo.onnx" >"$work/truncated.onnx"
check "truncated model" fails 3 "truncated.onnx" explain "$work/truncated.onnx" --target cpu
head -c 5000 /dev/urandom >"$work/noise.onnx"
check "noise" fails 3 "noise.onnx" explain "$work/noise.onnx" --target cpu
printf 'func.func @main(%%x: ' >"$work/half.mlir"
check "half a text" fails 3 "half.mlir" explain "$work/half.mlir" --target cpu
: >"$work/empty.onnx"
check "empty file" fails 3 "empty.onnx" explain "$work/empty.onnx" --target cpu
check "input of no name" fails 2 "nope" run "$models/ffn_tiny.mlir" --target cpu --input nope=random
check "input without a name" fails 2 "not of the form" run "$models/ffn_tiny.mlir" --target cpu --input =3
check "input without a value" fails 2 "not of the form" run "$models/ffn_tiny.mlir" --target cpu --input x=
check "two values of one input" fails 2 "the second value" run "$models/ffn_tiny.mlir" --target cpu --input x=1 --input x=2
for value in nan inf -inf 1e30 1e999 0.5; do
  check "integer input of $value" fails 2 "holds whole numbers" run "$models/llama_tiny_decode.mlir" --target cpu --input position=$value
done
check "no endless time" fails 2 "^kfuse: --budget: inf" tune "$models/ffn_tiny.mlir" --target cpu --budget inf
check "no time that is none" fails 2 "^kfuse: --budget: nan" tune "$models/ffn_tiny.mlir" --target cpu --budget nan
check "results from before no time" fails 2 "inf is not a number above 0" db prune --older-than inf
dynamic="$(dirname "$0")/../data/dynamic.onnx"
check "open sizes show the range to give" fails 2 "as in --dims batch=1..N --dims seq=1..N" explain "$dynamic" --target cpu
check "range of no dimension" fails 2 "--dims frob names no dimension of an input; the model has ids \[batch, seq\]" explain "$dynamic" --target cpu --dims frob=1..4
check "range that is none" fails 2 "is not of the form name=1..8192" explain "$dynamic" --target cpu --dims seq=4
check "range of nothing" fails 2 "the range of 'seq' is 5..4" explain "$dynamic" --target cpu --dims batch=1..2 --dims seq=5..4
check "buckets" grep -q "batch=1..*seq=" <("$kfuse" explain "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40)
check "every length right" grep -q "  right$" <("$kfuse" run "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --no-benchmark --check --store "$work/dims.db")
check "axes named by a shape" grep -q "2x40x4 .*  right$" <("$kfuse" run "$dynamic" --target cpu --shape ids=2xtokens --dims tokens=1..40 --no-benchmark --check --store "$work/dims.db")
check "an axis without a range" fails 2 "or names of --dims" explain "$dynamic" --target cpu --shape ids=rowsxtokens --dims tokens=1..40
printf '1 30 5\n2 7 1\n' >"$work/histogram"
check "times at lengths" grep -q "^3,40 .*[0-9] us" <("$kfuse" bench lengths "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --no-benchmark --at 1,7 3,40 --alone --store "$work/dims.db")
check "a length outside" fails 2 "'seq' is 41; the model is compiled for seq=1..40" bench lengths "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --no-benchmark --at 1,41 --store "$work/dims.db"
check "a length that is none" fails 2 "is not of the form 333" bench lengths "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --no-benchmark --at 1,x --store "$work/dims.db"
check "a histogram" grep -q "programs on cpu" <("$kfuse" explain "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --histogram "$work/histogram")
printf '1 30\n' >"$work/histogram"
check "a histogram that is none" fails 2 "line 1 is not 2 lengths and a count" explain "$dynamic" --target cpu --dims batch=1..3 --dims seq=1..40 --histogram "$work/histogram"
for option in --target --store --effort --budget --threads --params --shape --report --trace --devices; do
  check "tune with an empty $option" fails 2 "^kfuse: $option: " tune "$models/ffn_tiny.mlir" $option ""
done
for option in --input --output --iterations; do
  check "run with an empty $option" fails 2 "^kfuse: $option: " run "$models/ffn_tiny.mlir" $option ""
done
check "an empty model" fails 2 "is empty; give a value" run ""
check "an empty device" fails 2 "is empty; give a value" db prune --device ""
check "an empty kernel" fails 2 "is empty; give a value" db show ""
for value in 3x 1.5 -1 99999999999; do
  check "threads $value" fails 2 "threads" tune "$models/ffn_tiny.mlir" --target cpu --threads=$value
  check "iterations $value" fails 2 "iterations" run "$models/ffn_tiny.mlir" --target cpu --iterations=$value
done
check "input that is no file" fails 8 "absent.npy" run "$models/ffn_tiny.mlir" --target cpu --input "x=$work/absent.npy"
for command in run tune; do
  check "$command without tuned kernels" fails 6 "kernels are not in the store (there is no store .*); tune them first: .*; " $command "$models/llama_tiny_prefill.mlir" --target cpu --require-tuned
done
for device in -1 abc 0x1 99999999999; do
  check "device $device" fails 2 "^kfuse: --devices: $device is no number of a GPU: 0, 1, ...; see kfuse --help$" tune "$models/ffn_tiny.mlir" --devices=$device
done
check "a device that is not here" fails 4 "there is no CUDA device 99: [0-9]* found" tune "$models/ffn_tiny.mlir" --devices 99
check "devices for the CPU" warns 0 "devices names GPUs" "$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --devices 0,0 --no-benchmark
if "$kfuse" targets --json | grep -q '"no_gpu"'; then
  check "no device" fails 4 "sm_90a" run "$models/ffn_tiny.mlir" --target sm_90a
else
  skip "no device" "there is a GPU"
fi
"$kfuse" explain "$models/ffn_tiny.mlir" --target cpu 2>"$work/err" >/dev/full
check "output that cannot be written" test $? = 8
check "it says so" grep -q "standard output cannot be written" "$work/err"

check "explain as JSON" python3 -c 'import json,sys; j=json.load(sys.stdin); assert j["kernels"] and "memory" in j' < <("$kfuse" explain "$models/llama.dynamo.onnx" --target sm_90a --json)
check "explain says what simplification saves" grep -q "^simplified: .* (1/12[5-8]\.[0-9])" <("$kfuse" explain "$models/seqlen_head_b256.onnx" --target sm_90a)
check "explain keeps the graph as written" test 0 = "$("$kfuse" explain "$models/seqlen_head_b256.onnx" --target sm_90a --no-simplify | grep -c "^simplified:")"
check "explain says what fusion saves" grep -q "^fused: [0-9]* launches and .* become [0-9]* and .*; estimated " <("$kfuse" explain "$models/ffn_tiny.mlir" --target cpu)
for model in "$models"/*.onnx "$models"/*.mlir; do
  check "explain $model within 100 columns" within_100_columns explain "$model" --target sm_90a
  check "explain $model for the CPU within 100 columns" within_100_columns explain "$model" --target cpu
done
for command in tune run explain targets pack db quantize bench "bench "{block,gemm,lengths,timeline}; do
  check "kfuse $command --help within 100 columns" within_100_columns $command --help
done
check "kfuse --help within 100 columns" within_100_columns --help

model_choice() { "$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --no-benchmark; }
model_choice >"$work/model.txt"
check "--no-benchmark says why nothing is timed" grep -q "untimed: --no-benchmark, the cost model chose" "$work/model.txt"
check "no peaks are measured for it, nor for --require-tuned" grep -q '"peaks": 0' <("$kfuse" db verify --json)

# Reports and traces go over nothing that is needed, and nothing is left of them where nothing was tuned.
cp "$models/ffn_tiny.mlir" "$work/m.mlir"
for option in --report --trace; do
  check "$option over the store" fails 2 "written over the store: name another file" tune "$work/m.mlir" --target cpu $option "$KFUSE_STORE"
  check "$option over a store to come" fails 2 "written over the store: name another file" tune "$work/m.mlir" --target cpu --store "$work/to_come.db" $option "$work/./to_come.db"
  check "$option over the model" fails 2 "written over the model: name another file" tune "$work/m.mlir" --target cpu $option "$work/m.mlir"
  check "$option where nothing can be tuned" fails 8 "absent.mlir" tune "$work/absent.mlir" --target cpu $option "$work/empty.out"
done
check "report and trace in one file" fails 2 "the trace .* would be written over the report" tune "$work/m.mlir" --target cpu --report "$work/one" --trace "$work/one"
check "the store is whole" grep -q '"whole": true' <("$kfuse" db verify --json)
check "the model is what it was" cmp -s "$models/ffn_tiny.mlir" "$work/m.mlir"
check "no files are left" test ! -e "$work/empty.out" -a ! -e "$work/one" -a ! -e "$work/to_come.db"

"$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --json >"$work/cold.json" 2>"$work/err"
check "tune as JSON" python3 - "$work/cold.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
assert list(report) == ["device", "kernels", "end_to_end", "arena_bytes", "arena_lower_bound_bytes", "total_us", "seconds"], report.keys()
for kernel in report["kernels"]:
    assert list(kernel) == ["name", "ops", "template", "config", "regime", "bound_us", "measured_us", "roofline_percent",
                            "candidates", "failed", "ruled_out", "stop", "advice", "from_cache"], kernel.keys()
    assert kernel["measured_us"] > 0 and not kernel["from_cache"] and kernel["candidates"] > 0
P
check "tune is quiet on stderr" test ! -s "$work/err"
"$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --json >"$work/warm.json"
check "second run is all from the store" python3 - "$work/cold.json" "$work/warm.json" <<'P'
import json, sys
cold, warm = (json.load(open(path)) for path in sys.argv[1:])
assert all(kernel["from_cache"] for kernel in warm["kernels"])
assert [k["config"] for k in cold["kernels"]] == [k["config"] for k in warm["kernels"]]
P
check "--no-benchmark takes nothing timed from the store" grep -q "untimed: --no-benchmark" <(model_choice)
check "it finds its own choices beside those" test 0 = "$("$kfuse" tune "$models/ffn_tiny.mlir" --target cpu --no-benchmark --json | grep -c '"from_cache": false')"
check "second run says so" grep -q "nothing compiled, nothing benchmarked" <("$kfuse" tune "$models/ffn_tiny.mlir" --target cpu)
check "table within 100 columns" within_100_columns tune "$models/ffn_tiny.mlir" --target cpu
check "what is tuned runs with --require-tuned" grep -q "a run" <("$kfuse" run "$models/ffn_tiny.mlir" --target cpu --require-tuned)
check "run --check" grep -q "right" <("$kfuse" run "$models/ffn_tiny.mlir" --target cpu --check --output "$work/out.d")
check "an input filled with a number" grep -q "right" <("$kfuse" run "$models/llama_tiny_decode.mlir" --target cpu --input position=3 --check)
check "a block is timed cold and warm" grep -q "^ffn_tiny  *3 " <("$kfuse" bench block "$models/ffn_tiny.mlir" --target cpu)
check "its JSON names the configs" grep -q '"config": "k=' <("$kfuse" bench block "$models/ffn_tiny.mlir" --target cpu --json)
check "a time line needs a GPU" grep -q "time lines are of kernels on a GPU" <("$kfuse" bench timeline "$models/ffn_tiny.mlir" --target cpu 2>&1)
KFUSE_DUMP_DIR=/dev/null/dump "$kfuse" explain "$models/ffn_tiny.mlir" --target cpu >"$work/out" 2>"$work/err"
check "a dump folder that cannot be made is an error" test $? = 8
check "outputs as npy" test -s "$work/out.d/y.npy"
check "state is written in place" grep -q "right" <("$kfuse" run "$models/llama_tiny_decode.mlir" --target cpu --check)

# Names are any bytes: none reaches a terminal as a command, JSON is UTF-8, and no two outputs share a file.
cat >"$work/names.mlir" <<'M'
func.func @main(%x: tensor<64xf32> {kfuse.name = "x", kfuse.role = "input"}) -> (tensor<64xf32> {kfuse.name = "red\1B[31m\FF\0A"}, tensor<64xf32> {kfuse.name = "a/b"}, tensor<64xf32> {kfuse.name = "a_b"}) {
  %0 = kfuse.relu %x : (tensor<64xf32>) -> tensor<64xf32>
  %1 = kfuse.tanh %x : (tensor<64xf32>) -> tensor<64xf32>
  %2 = kfuse.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
M
cp "$work/names.mlir" "$work/$(printf 'odd\033[31m\377.mlir')"
named() { "$kfuse" "$@" --target cpu; }
check "run shows names" grep -qF 'red\x1b[31m\xff\n ' <(named run "$work/names.mlir" --no-benchmark)
for command in run tune "bench block"; do
  for model in "$work/names.mlir" "$work"/odd*.mlir; do
    named $command "$model" --no-benchmark >"$work/out" 2>"$work/err"
    check "$command ends well" test $? = 0
    check "$command writes no control characters" test "$(cat "$work/out" "$work/err" | tr -d '\n' | LC_ALL=C grep -c '[[:cntrl:]]')" = 0
    named $command "$model" --no-benchmark --json >"$work/out"
    check "$command --json is UTF-8" python3 -c 'import json,sys; json.loads(sys.stdin.buffer.read().decode())' <"$work/out"
  done
done
for model in "$work/names.mlir" "$work"/odd*.mlir; do
  check "explain writes no control characters" test "$(named explain "$model" | tr -d '\n' | LC_ALL=C grep -c '[[:cntrl:]]')" = 0
  check "explain --json is UTF-8" python3 -c 'import json,sys; json.loads(sys.stdin.buffer.read().decode())' < <(named explain "$model" --json)
done
named tune "$work"/odd*.mlir --no-benchmark --report "$work/names.html" >"$work/out"
check "the report is UTF-8" iconv -f UTF-8 -t UTF-16 -o /dev/null "$work/names.html"
check "an error writes no control characters" fails 8 'none\\x1b\[31m' explain "$work/none$(printf '\033[31m')" --target cpu
check "every output has a file" python3 - "$work/named.d" <(named run "$work/names.mlir" --no-benchmark --input x=1 --output "$work/named.d" --json) <<'P'
import json, math, os, struct, sys
outputs = json.load(open(sys.argv[2]))["outputs"]
assert [o["file"] for o in outputs] == ["red_[31m\ufffd_.npy", "a_b-2.npy", "a_b.npy"], outputs
first = lambda name: struct.unpack("<f", open(os.path.join(sys.argv[1], name), "rb").read()[-4:])[0]
assert abs(first("a_b-2.npy") - math.tanh(1)) < 1e-5 and abs(first("a_b.npy") - math.e) < 1e-5
P

# Where the lock is none, measuring goes on with one line, whether the peaks are known or not.
mkdir -p "$work/unlocked/kfuse-devices.lock"
unlocked() { "$kfuse" tune "$models/$1" --target cpu --budget 1s --store "$work/unlocked/s.db"; }
for model in ffn_tiny linear_head_tiny; do
  check "$model without a lock" warns 0 "the measuring lock of device .* in $work/unlocked cannot be had" unlocked $model.mlir
done

# Weights of few bits.
quantised() { # quantised OPTIONS...: a model whose weights are rounded runs as the reference computes it
  "$kfuse" quantize "$models/bert.dynamo.onnx" -o "$work/small.onnx" "$@" >"$work/out" &&
    "$kfuse" run "$work/small.onnx" --target cpu --no-benchmark --check >"$work/run"
}
for options in "--bits 4 --group 32" "--bits 8 --group 16 --symmetric"; do
  check "quantize $options" quantised $options
done
check "its table" grep -q "relative error" "$work/out"
"$kfuse" quantize "$models/bert.dynamo.onnx" -o "$work/json.onnx" --group 32 --json >"$work/quantised.json"
check "quantize as JSON" python3 - "$work/quantised.json" "$work/json.onnx" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["output"] == sys.argv[2] and (report["bits"], report["group"], report["symmetric"]) == (4, 32, False)
assert len(report["products"]) > 1
for product in report["products"]:
    assert product["node"] and product["n"] > 0 and product["k"] > 0 and 0.01 < product["relative_error"] < 0.2, product
P
check "quantize to 5 bits" fails 2 "weights of 5 bits" quantize "$models/bert.dynamo.onnx" -o "$work/five.onnx" --bits 5
check "quantize over the model" fails 2 "^kfuse: the quantised model .* over the model" quantize "$work/small.onnx" -o "$work/small.onnx"

# Progress and colour belong on a terminal only.
on_terminal() { # on_terminal ENVIRONMENT OPTIONS...: what tuning from nothing, which is cut, writes to one
  python3 - "$kfuse" "$models/ffn_tiny.mlir" "$@" <<'P'
import os, pty, sys, tempfile
kfuse, model, environment, *options = sys.argv[1:]
os.environ.pop("NO_COLOR", None)
os.environ.update([environment.split("=", 1)] if environment else [])
with tempfile.TemporaryDirectory() as folder:
    pty.spawn([kfuse, "tune", model, "--target", "cpu", "--store", folder + "/s.db", "--budget", "1s", *options])
P
}
on_terminal "" >"$work/terminal" </dev/null
check "progress on a terminal" grep -q "candidate 1 of" "$work/terminal"
shown() { # What a line of the terminal shows in the end: what was written since it was last cleared.
  tr -d '\r' <"$work/terminal" | sed $'s/.*\033\\[K//; s/\033\\[[0-9]*m//g'
}
check "it is gone before the table" test "$(shown | grep -c 'candidate [0-9]* of')" = 0
check "colour on a terminal" grep -q $'\033\\[1m' "$work/terminal"
on_terminal "" --report /dev/full >"$work/terminal" </dev/null
check "and before an error" grep -q "^kfuse: the report /dev/full cannot be written" <(shown)
on_terminal NO_COLOR=1 >"$work/terminal" </dev/null
check "NO_COLOR" test -z "$(grep $'\033\\[[0-9]*m' "$work/terminal")"

finish
