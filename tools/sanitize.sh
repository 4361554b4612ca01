#!/usr/bin/env bash
# Builds kfuse's compiler with AddressSanitizer and UBSan, and passes with it its unit tests, lit, and the fuzzers'
# corpora and whole models from import to emitted kernels: what is wrong with memory or undefined ends a test. Threads of
# the runtime library run with ThreadSanitizer.
# Usage: tools/sanitize.sh
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
tools/build.sh build-sanitize -DKFUSE_BUILD_TESTS=ON -DKFUSE_SANITIZE=ON
ctest --test-dir build-sanitize --output-on-failure --no-tests=error -j "$(nproc)"
cmake --build build-sanitize --target kfuse_thread_tests
build-sanitize/tests/sanitized/kfuse_thread_tests
