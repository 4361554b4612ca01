#!/usr/bin/env bash
# A store that is foreign, damaged, locked, or on a full disk: nothing of it is lost, and one line says what to do.
# What cannot be stored is still tuned and shown, with status 8. Usage: store.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"
model=$models/ffn_tiny.mlir
tune() { "$kfuse" tune "$model" --target cpu --threads 1 --store "$1"; }

echo "not a store" >"$work/foreign.db"
check "foreign file" fails 8 "foreign.db is not a kfuse store" tune "$model" --target cpu --store "$work/foreign.db"
check "foreign file left alone" grep -q "not a store" "$work/foreign.db"
check "a device is no store" fails 8 "is not a kfuse store" tune "$model" --target cpu --store /dev/null
check "a folder is no store" fails 8 "is not a kfuse store" tune "$model" --target cpu --store "$work"
check "a folder that cannot be made" warns 8 "in memory only" tune "$work/foreign.db/store.db"

tune "$work/whole.db" >/dev/null
for bytes in 100 3000; do # 72 hold the mark of a store.
  head -c $bytes "$work/whole.db" >"$work/cut$bytes.db"
  cp "$work/cut$bytes.db" "$work/cut"
  check "store cut to $bytes bytes" warns 0 "moved aside to cut$bytes.db.corrupt-1" tune "$work/cut$bytes.db"
  check "what was left of it is kept" cmp -s "$work/cut" "$work/cut$bytes.db.corrupt-1"
done

cat >"$work/remove.py" <<'P'
import os, subprocess, sys, time
store, *command = sys.argv[1:]
tune = subprocess.Popen(command)
while not os.path.exists(store):
    time.sleep(0.001)
time.sleep(0.3)
os.remove(store)
sys.exit(tune.wait())
P
check "a store that is deleted meanwhile" warns 8 "gone.db was deleted or replaced while this process wrote to it" \
  python3 "$work/remove.py" "$work/gone.db" "$kfuse" tune "$model" --target cpu --threads 1 --store "$work/gone.db"

# Another process keeps it locked: for writers, or for all.
cat >"$work/lock.py" <<'P'
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA locking_mode=" + sys.argv[2])
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(120)
P
lock() { # lock FILE MODE COMMAND...: runs the command while FILE is locked
  local file=$1 mode=$2 status
  shift 2
  coproc holder { exec python3 "$work/lock.py" "$file" "$mode"; }
  read -r <&"${holder[0]}"
  "$@"
  status=$?
  kill "$holder_PID"
  wait "$holder_PID" 2>/dev/null
  return $status
}
if python3 -c 'import sqlite3' 2>/dev/null; then
  cp "$work/whole.db" "$work/locked.db"
  read_locked() { "$kfuse" tune "$model" --target cpu --threads 1 --store "$work/locked.db" | grep -q "nothing benchmarked"; }
  check "kernels are found in a store locked for writing" lock "$work/locked.db" NORMAL read_locked
  check "a store locked for all" lock "$work/locked.db" EXCLUSIVE warns 8 "another process has kept it locked" tune "$work/locked.db"
  check "a lock is waited for once" lock "$work/whole.db" NORMAL warns 8 "another process has kept it locked" \
    timeout 60 "$kfuse" tune "$models/linear_head_tiny.mlir" --target cpu --threads 1 --store "$work/whole.db"
else
  skip "locked stores" "python3 has no sqlite3"
fi

# --require-tuned only reads: it makes no store, and changes none.
check "strict without a store lists what is missing" fails 6 "3 of 3 kernels are not in the store (there is no store $work/none/s.db: .*): .* (layer_norm): " \
  tune "$model" --target cpu --threads 1 --store "$work/none/s.db" --require-tuned
check "strict makes no store" test ! -e "$work/none"
mkdir "$work/strict" "$work/disk"
cp "$work/whole.db" "$work/strict/s.db"
strict() { "$kfuse" tune "$model" --target cpu --threads 1 --store "$work/strict/s.db" --require-tuned; }
is_quiet() { "$@" >"$work/out" 2>"$work/err" && grep -q "nothing compiled" "$work/out" && [ ! -s "$work/err" ]; }
check "strict takes what is there" is_quiet strict
check "strict leaves it as it was" cmp -s "$work/whole.db" "$work/strict/s.db"
check "strict leaves nothing beside it" test "$(ls "$work/strict")" = s.db
check "looking leaves nothing beside it" test "$("$kfuse" db list --store "$work/strict/s.db" >/dev/null; ls "$work/strict")" = s.db
read_only() { # read_only COMMAND...: sees $work/strict on a read-only file system
  unshare -m bash -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && "$@"' "$work/strict" "$@"
}
lists_what_lacks() {
  read_only "$kfuse" tune "$models/linear_head_tiny.mlir" --target cpu --threads 1 --store "$work/strict/s.db" --require-tuned \
    >"$work/out" 2>"$work/err"
  [ $? = 6 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q "kernels are not in the store; tune them first: .*: it was never tuned" "$work/err"
}
if read_only true 2>/dev/null; then
  check "strict on a read-only file system" is_quiet read_only "$kfuse" tune "$model" --target cpu --threads 1 \
    --store "$work/strict/s.db" --require-tuned
  check "what lacks there is listed" lists_what_lacks
  check "what lacks there is tuned and shown" warns 8 "cannot be written (.*): new results are not kept" read_only "$kfuse" tune \
    "$models/linear_head_tiny.mlir" --target cpu --threads 1 --store "$work/strict/s.db"
else
  skip "a read-only file system" "no right to mount one"
fi

# A disk without room: at once, and half-way.
on_disk_of() { # on_disk_of SIZE
  unshare -m bash -c 'mount -t tmpfs -o size="$1" tmpfs "$2" && "$3" tune "$4" --target cpu --threads 1 --store "$2/s.db"' \
    on_disk_of "$1" "$work/disk" "$kfuse" "$model"
}
if unshare -m mount -t tmpfs tmpfs "$work/disk" 2>/dev/null; then
  for size in 4k 64k; do
    check "a disk of $size" warns 8 "the disk is full" on_disk_of $size
  done
  # What is imported comes as a whole or not at all.
  "$kfuse" db export "$work/all.json" --store "$work/whole.db"
  import_on_full_disk() {
    unshare -m bash -c 'mount -t tmpfs -o size=96k tmpfs "$0" && cp "$1/strict/s.db" "$0/s.db" &&
      head -c 200k /dev/zero >"$0/rest" 2>/dev/null
      "$2" db import "$1/more.json" --store "$0/s.db" 2>"$1/err" && exit 1
      [ "$(wc -l <"$1/err")" = 1 ] && grep -q "the disk is full" "$1/err" && rm "$0/rest" && "$2" db verify --store "$0/s.db" >/dev/null &&
      cmp -s "$1/all.json" <("$2" db export --store "$0/s.db")' "$work/disk" "$work" "$kfuse"
  }
  "$kfuse" tune "$models/linear_head_tiny.mlir" --target cpu --threads 1 --no-benchmark --store "$work/more.db" >/dev/null
  "$kfuse" db export "$work/more.json" --store "$work/more.db"
  check "import on a full disk" import_on_full_disk
else
  skip "full disk" "no right to mount a small one"
fi

finish
