#!/usr/bin/env bash
# Installs what is missing, builds everything, and passes every test: doctest units, lit, numerics,
# fuzz corpus, format and lint, and an installed package consumed by another project.
# GPU tests run where there is a GPU and are counted as skipped elsewhere. Usage: tools/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
# The 5 GB of torch arrive meanwhile. Where they cannot be fetched its tests say so.
PYTHONPATH= python/tests/torch.sh python3 -c pass >/dev/null 2>&1 & torch=$!
trap 'kill "$torch" 2>/dev/null || true' EXIT
tools/build.sh build -DKFUSE_BUILD_TESTS=ON
wait "$torch" || true
# New memory is filled, freed memory too, so that what is read too early or too late shows.
MALLOC_PERTURB_=170 ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)"
# Parts of tests, too, that cannot run here.
grep -ho 'skipped: .*' build/Testing/Temporary/LastTest.log | sort | uniq -c || true
