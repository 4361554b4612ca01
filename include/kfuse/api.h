// What the shared library exports: all else, LLVM and Boost with it, stays inside.
#pragma once

#define KFUSE_API __attribute__((visibility("default")))
