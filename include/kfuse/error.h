// Errors at kfuse's edges are values: a code that a program can act on and one line for a person.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace kfuse {

/// The number is also the exit status of the command line tool.
enum class ErrorCode : std::uint8_t {
  Usage = 2,       ///< A wrong option, argument, or shape given by the caller.
  BadModel = 3,    ///< The model file or graph is malformed or holds what kfuse does not support.
  NoDevice = 4,    ///< The device or its driver is missing or was lost.
  WrongResult = 5, ///< A computed result failed its check.
  NotTuned = 6,    ///< A kernel is not in the store and compiling was not allowed.
  OutOfMemory = 7, ///< Host or device memory did not suffice.
  Io = 8,          ///< A file could not be read or written.
  Cancelled = 9,   ///< The caller's callback asked to stop.
  Compile = 10,    ///< Generated code did not compile; the message holds the first line of the log.
  Timeout = 11,    ///< A kernel ran for too long and was ended.
  Crash = 12,      ///< A kernel took the process it ran in down.
  Internal = 70    ///< A bug of kfuse.
};

/// `message` is one line: what was given, what was expected, what to do.
struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message;
};

/// A value or the Error that kept it from being made. `R.value()` and `R.error()` are valid only
/// for the state `bool(R)` tells.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &value() & { return std::get<0>(state); }
  const T &value() const & { return std::get<0>(state); }
  T &&value() && { return std::get<0>(std::move(state)); }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T &&operator*() && { return std::get<0>(std::move(state)); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  Error &error() & { return std::get<1>(state); }
  const Error &error() const & { return std::get<1>(state); }
  Error &&error() && { return std::get<1>(std::move(state)); }

private:
  std::variant<T, Error> state;
};

/// Success or an Error.
template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failure(std::move(error)), failed(true) {}

  explicit operator bool() const { return !failed; }
  Error &error() { return failure; }
  const Error &error() const { return failure; }

private:
  Error failure;
  bool failed = false;
};

} // namespace kfuse
