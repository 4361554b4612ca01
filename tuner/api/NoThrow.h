// Exceptions stay inside: the caller may have another C++ runtime than the library.
#pragma once

#include "kfuse/error.h"

#include <new>
#include <string>
#include <system_error>

namespace kfuse {

/// What `call` returns, or the exception that it threw as an Error.
template <class Call> auto withoutThrowing(const Call &call) -> decltype(call()) {
  try {
    return call();
  } catch (const Exception &thrown) {
    return thrown.error();
  } catch (const std::bad_alloc &) {
    return Error{ErrorCode::OutOfMemory, "out of memory; use a smaller model or shape"};
  } catch (const std::system_error &thrown) {
    return Error{ErrorCode::Io, thrown.what()};
  } catch (const std::exception &thrown) {
    return Error{ErrorCode::Internal, std::string("internal error: ") + thrown.what()};
  }
}

} // namespace kfuse
