// Errors at kfuse's edges are values: a code that a program can act on and one line for a person.
#pragma once

#include "kfuse/api.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
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
  Cancelled = 9,   ///< A callback returned false or threw, or `stop` was requested.
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

/// What value() throws for a Result that holds an Error. It is thrown by these headers, in the caller's own code: kfuse
/// itself throws nothing.
class KFUSE_API Exception : public std::exception {
public:
  explicit Exception(Error error) : held(std::make_shared<const Error>(std::move(error))) {}
  ErrorCode code() const noexcept { return held->code; }
  const Error &error() const noexcept { return *held; }
  const char *what() const noexcept override { return held->message.c_str(); }

private:
  std::shared_ptr<const Error> held; ///< Shared, so that copying an exception never throws.
};

namespace detail {

/// Without exceptions (-fno-exceptions) it prints the message and ends the process.
[[noreturn]] inline void raise(Error error) {
#ifdef __cpp_exceptions
  throw Exception(std::move(error));
#else
  std::fprintf(stderr, "kfuse: %s\n", error.message.c_str());
  std::abort();
#endif
}

[[noreturn]] inline void raiseNoError() {
  raise({ErrorCode::Usage, "error() of a Result that holds a value was asked for; test the Result first"});
}

} // namespace detail

/// A value or the Error that kept it from being made; bool(R) tells which. value(), *R and R-> of an Error throw an
/// Exception that carries it; error() of a value throws one of ErrorCode::Usage.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &value() & { return *held(state); }
  const T &value() const & { return *held(state); }
  T &&value() && { return std::move(*held(state)); }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T &&operator*() && { return std::move(*this).value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  Error &error() & { return *failure(state); }
  const Error &error() const & { return *failure(state); }
  Error &&error() && { return std::move(*failure(state)); }

private:
  template <class State> static auto *held(State &state) {
    auto *value = std::get_if<0>(&state);
    if (!value)
      detail::raise(*failure(state));
    return value;
  }
  template <class State> static auto *failure(State &state) {
    auto *error = std::get_if<1>(&state);
    if (!error)
      detail::raiseNoError();
    return error;
  }

  std::variant<T, Error> state;
};

/// Success or an Error.
template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failure(std::move(error)), failed(true) {}

  explicit operator bool() const { return !failed; }
  /// Nothing, or an Exception that carries the Error.
  void value() const {
    if (failed)
      detail::raise(failure);
  }
  Error &error() {
    requireError();
    return failure;
  }
  const Error &error() const {
    requireError();
    return failure;
  }

private:
  void requireError() const {
    if (!failed)
      detail::raiseNoError();
  }

  Error failure;
  bool failed = false;
};

} // namespace kfuse
