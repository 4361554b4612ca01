#!/usr/bin/env python3
"""A file of one decode attention with a cache: 32 heads of 128 elements share 8 of keys and values, bf16, and see the
keys up to a position that is an input.

Usage: decode_position.py FILE KEYS [SEQUENCES]; then: kfuse bench block FILE --input position=127
What a position costs in a cache of 8192 keys, beside a file whose cache ends there.
"""
import sys

HEADS, SHARED, SIZE = 32, 8, 128


def text(keys, sequences):
    group = HEADS // SHARED
    query, cache = f"{sequences}x{SHARED}x{group}x{SIZE}xbf16", f"{sequences}x{SHARED}x{keys}x{SIZE}xbf16"
    scores, mask = f"{sequences}x{SHARED}x{group}x{keys}xbf16", f"1x1x1x{keys}xi1"
    names = [("query", query), ("position", "1xi64"), ("keys", cache), ("values", cache)]
    arguments = ", ".join(f'%{name}: tensor<{type}> {{kfuse.name = "{name}", kfuse.role = "input"}}' for name, type in names)
    return f"""module {{
  func.func @main({arguments}) -> (tensor<{query}> {{kfuse.name = "y"}}) {{
    %0 = kfuse.iota {{dim = 0 : i64}} : tensor<{keys}xi64>
    %1 = kfuse.reshape %position : (tensor<1xi64>) -> tensor<1x1x1x1xi64>
    %2 = kfuse.le %0, %1 : (tensor<{keys}xi64>, tensor<1x1x1x1xi64>) -> tensor<{mask}>
    %3 = kfuse.constant dense<0.0883883461> : tensor<bf16>
    %4 = kfuse.matmul %query, %keys {{transpose_b}} : (tensor<{query}>, tensor<{cache}>) -> tensor<{scores}>
    %5 = kfuse.mul %4, %3 : (tensor<{scores}>, tensor<bf16>) -> tensor<{scores}>
    %6 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %7 = kfuse.where %2, %5, %6 : (tensor<{mask}>, tensor<{scores}>, tensor<bf16>) -> tensor<{scores}>
    %8 = kfuse.softmax %7 : (tensor<{scores}>) -> tensor<{scores}>
    %9 = kfuse.matmul %8, %values : (tensor<{scores}>, tensor<{cache}>) -> tensor<{query}>
    return %9 : tensor<{query}>
  }}
}}
"""


def main():
    with open(sys.argv[1], "w") as file:
        file.write(text(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1))


if __name__ == "__main__":
    main()
