#!/usr/bin/env bash
# kfuse db: list, show, export, import, prune, merge, verify; files that are no stores and no results.
# Usage: db.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"
model=$models/ffn_tiny.mlir
tune() { "$kfuse" tune "$models/$1.mlir" --target cpu --threads 1 --store "$2" "${@:3}"; }
json() { python3 -c "import json, sys; j = json.load(sys.stdin); assert $1, j"; }

check "no store" fails 8 "there is no store" db list --store "$work/absent.db"
check "looking makes no store" test ! -e "$work/absent.db"
check "no command" fails 2 "subcommand is required" db
check "pruning makes no store" fails 8 "there is no store" db prune --store "$work/absent.db"

tune ffn_tiny "$work/a.db" >"$work/table"
tune linear_head_tiny "$work/b.db" >/dev/null
export KFUSE_STORE=$work/a.db
kernels=$("$kfuse" db list --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')
check "list" grep -q "^$kernels kernels in $work/a.db" <("$kfuse" db list)
check "list within 100 columns" within_100_columns db list
name=$("$kfuse" db list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["name"])')
check "show has a winner" grep -q '^\*' <("$kfuse" db show "$name")
check "show within 100 columns" within_100_columns db show "$name"
check "show as JSON" json 'j[0]["measurements"] and j[0]["choice"]["config"] in [m["config"] for m in j[0]["measurements"]]' \
  < <("$kfuse" db show "$name" --json)
check "show of no kernel" fails 2 "has the name, or a key that begins with, 'nope'" db show nope
check "verify" json 'j["whole"] and j["choices"] and j["binaries"] and not j["leases"]' < <("$kfuse" db verify --json)
for command in "" list show export import merge prune verify; do
  check "db $command --help" grep -q "Example" <("$kfuse" db $command --help)
  check "db $command --help within 100 columns" within_100_columns db $command --help
done

# Results travel; binaries do not: the winners are compiled anew, and nothing is measured.
check "export" "$kfuse" db export "$work/a.json"
check "export says schema 1" json 'j["format"] == "kfuse-results" and j["schema"] == 1' <"$work/a.json"
check "import" grep -q "imported: $kernels choices" <("$kfuse" db import "$work/a.json" --store "$work/c.db")
check "import again changes nothing" grep -q "imported: 0 choices, 0 measurements" <("$kfuse" db import "$work/a.json" --store "$work/c.db")
check "round trip" cmp "$work/a.json" <("$kfuse" db export --store "$work/c.db")
check "imported choices lack binaries" fails 6 "its binary is not there" tune "$model" --target cpu --threads 1 --store "$work/c.db" --require-tuned
check "they are compiled, not benchmarked" grep -q "winners\? compiled, nothing benchmarked" <(tune ffn_tiny "$work/c.db")
check "the same configs" python3 - "$work/a.json" <("$kfuse" db export --store "$work/c.db") <<'P'
import json, sys
a, c = ({k["region"]: k["config"] for k in json.load(open(path))["choices"]} for path in sys.argv[1:])
assert a == c, (a, c)
P

# Files that are no results: one line, and nothing of them is taken.
imports() { fails "$1" "$2" db import "$work/bad.json" --store "$work/c.db" && cmp -s "$work/before" <("$kfuse" db export --store "$work/c.db"); }
"$kfuse" db export --store "$work/c.db" >"$work/before"
echo "not JSON" >"$work/bad.json"
check "no JSON" imports 3 "bad.json: no JSON: .*nothing was imported"
head -c 300 "$work/a.json" >"$work/bad.json"
check "truncated JSON" imports 3 "no JSON"
echo '{"mail": []}' >"$work/bad.json"
check "other JSON" imports 3 "no results of kfuse"
sed 's/"schema": 1/"schema": 9/' "$work/a.json" >"$work/bad.json"
check "another schema" imports 3 "results of schema 9, this kfuse reads 1"
sed '0,/"samples": [0-9]*/s//"samples": "many"/' "$work/a.json" >"$work/bad.json"
check "a value of another type" imports 3 "choices\[0\]: .*type must be number"
sed 's/"quick"/"hard"/' "$work/a.json" >"$work/bad.json"
check "an effort of no name" imports 3 "none, quick or full, not 'hard'"
rm "$work/bad.json"
check "missing file" imports 8 "bad.json cannot be read"
check "a folder" fails 8 "$work cannot be read: Is a directory" db import "$work" --store "$work/new.db"
check "missing file, new store" fails 8 "bad.json cannot be read: No such file" db import "$work/bad.json" --store "$work/new.db"
check "merging a missing store" fails 8 "there is no store $work/none.db" db merge "$work/a.db" "$work/none.db" --store "$work/new.db"
check "none of these makes a store" test ! -e "$work/new.db"

# A config that the template does not list is a miss, not the end.
for spoil in 's/\("config": "[^"]*\),[a-z_]*=[0-9]*"/\1"/' 's/\("config": "[^"=]*\)=[0-9]*/\1=0/' 's/"config": "[^"]*"/"config": ""/'; do
  rm -f "$work"/spoilt.db*
  "$kfuse" db export --store "$work/b.db" | sed "$spoil" >"$work/spoilt.json"
  "$kfuse" db import "$work/spoilt.json" --store "$work/spoilt.db" >/dev/null
  check "configs of no template, strictly" fails 6 "this version has no such config" tune "$models/linear_head_tiny.mlir" --target cpu --threads 1 --store "$work/spoilt.db" --require-tuned
  check "configs of no template are tuned anew" grep -q "arena" <(tune linear_head_tiny "$work/spoilt.db" 2>/dev/null)
done

# What is written goes over nothing that is needed.
cp "$work/a.db" "$work/kept.db"
ln -s a.db "$work/link.db"
for file in a.db a.db-wal link.db; do
  check "export over the store by the name $file" fails 2 "written over the store" db export "$work/$file" --store "$work/a.db"
done
check "export over another store" fails 2 "over an SQLite database" db export "$work/b.db" --store "$work/a.db"
check "the store is what it was" cmp -s "$work/kept.db" "$work/a.db"
echo old >"$work/old.json"
ln -s old.json "$work/link.json"
check "export over a file, through a link" "$kfuse" db export "$work/link.json"
check "it is replaced" cmp -s "$work/a.json" "$work/old.json"
check "the link stays, and nothing is left over" test -h "$work/link.json" -a -z "$(ls "$work" | grep part)"
check "export to a full disk" fails 8 "cannot be written" db export /dev/full

# Merging takes the binaries along.
check "merge" grep -q "merged: .* binaries" <("$kfuse" db merge "$work/a.db" "$work/b.db" --store "$work/all.db")
check "merged stores serve both models" test "$(for m in ffn_tiny linear_head_tiny; do tune $m "$work/all.db" --require-tuned; done | grep -c 'nothing compiled')" = 2
echo "no store" >"$work/foreign.db"
check "merging what is no store" fails 8 "foreign.db is not a kfuse store" db merge "$work/foreign.db" --store "$work/all.db"

check "prune of nothing" grep -q "removed: 0 choices, 0 measurements, 0 peaks, 0 binaries" <("$kfuse" db prune --store "$work/all.db")
device=$("$kfuse" db list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["sku"])')
check "prune a device" grep -q "removed: [1-9]" <("$kfuse" db prune --device "$device" --store "$work/all.db")
check "nothing is left of it" json 'not j["choices"] and not j["binaries"] and not j["peaks"]' < <("$kfuse" db verify --json --store "$work/all.db")

# A damaged store is told, not moved.
if python3 -c 'import sqlite3' 2>/dev/null; then
  cp "$work/a.db" "$work/flipped.db"
  python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("UPDATE choices SET config = replace(config, \"1\", \"2\")"); d.commit()' "$work/flipped.db"
  "$kfuse" db verify --json --store "$work/flipped.db" >"$work/out" 2>/dev/null
  check "verify finds a row that was changed" test $? = 8
  check "verify tells which" json 'not j["whole"] and "choices" in j["damage"][0]' <"$work/out"
  python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("UPDATE choices SET region = CAST(x'"'ff41'"' AS TEXT) WHERE rowid = (SELECT min(rowid) FROM choices)"); d.commit()' "$work/flipped.db"
  "$kfuse" db verify --store "$work/flipped.db" >"$work/out" 2>/dev/null
  check "what it tells is text" python3 -c 'import sys; assert "A: its seal" in open(sys.argv[1], encoding="utf-8").read()' "$work/out"
  check "prune removes it" grep -q "removed: [1-9]" <("$kfuse" db prune --store "$work/flipped.db")
  check "then it is whole" json 'j["whole"]' < <("$kfuse" db verify --json --store "$work/flipped.db")
else
  skip "changed rows" "python3 has no sqlite3"
fi
head -c 6000 "$work/a.db" >"$work/cut.db"
"$kfuse" db verify --store "$work/cut.db" >/dev/null 2>&1
check "verify of a truncated store" test $? = 8
"$kfuse" db export --store "$work/cut.db" >/dev/null 2>"$work/err"
check "export of a truncated store" test $? = 8
check "it is said once" test "$(wc -l <"$work/err")" = 1
check "it is still there" test -e "$work/cut.db"

finish
