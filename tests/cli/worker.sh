#!/usr/bin/env bash
# The worker process: started to measure and for nothing else, gone with its parent. Usage: worker.sh KFUSE MODELS
set -uo pipefail
. "$(dirname "$0")/checks.sh"
model=$models/ffn_tiny.mlir
tune() { "$kfuse" tune "$model" --target cpu --threads 1 --store "$1"; }

no_worker() { KFUSE_WORKER=/no/such/worker "$@"; }
check "without a worker nothing is measured" no_worker fails 8 "/no/such/worker does not start" tune "$model" --target cpu
tune "$work/warm.db" >/dev/null
warm() { no_worker tune "$work/warm.db" | grep -q "nothing benchmarked"; }
check "what is in the store needs no worker" warm

worker_of() { pgrep -P "$1" -x kfuse-worker; }
killed() { # kfuse is killed while its worker runs: the worker ends, too.
  "$kfuse" tune "$model" --target cpu --threads 1 --store "$work/killed.db" >/dev/null 2>&1 &
  local parent=$! worker=
  for _ in $(seq 500); do
    worker=$(worker_of $parent) && break
    sleep 0.02
  done
  kill -9 $parent
  wait $parent 2>/dev/null
  [ -n "$worker" ] || return 1
  for _ in $(seq 100); do
    [ -d "/proc/$worker" ] || return 0
    sleep 0.05
  done
  return 1
}
check "a worker does not outlive its parent" killed

finish
