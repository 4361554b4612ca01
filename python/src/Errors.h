// kfuse's errors as Python exceptions: kfuse.Error and its subclasses (kfuse/errors.py).
#pragma once

#include "kfuse/error.h"

#include <nanobind/nanobind.h>
// All of them in every file: a cast that does not see its caster compiles to another function of the same name.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

namespace kfuse::python {

namespace nb = nanobind;

/// Throws the exception of `error`'s code.
[[noreturn]] void raise(const Error &error);
[[noreturn]] inline void raiseUsage(std::string message) { raise({ErrorCode::Usage, std::move(message)}); }

/// The value, or its error as an exception.
template <class T> T valueOf(Result<T> result) {
  if (!result)
    raise(result.error());
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

/// The name of the type of what was given, for errors.
std::string typeName(nb::handle given);
/// What was given as the argument `what`; a UsageError if it is no dictionary.
nb::dict dictOf(const nb::object &given, const char *what);

} // namespace kfuse::python
