// What cannot be, unless kfuse has a bug.
#pragma once

#include <stdexcept>

namespace kfuse::codegen {

/// Thrown where a template prints something that its match() should have refused. KernelTemplate::print() makes it an
/// Error of the code Internal.
class InternalError : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

} // namespace kfuse::codegen
