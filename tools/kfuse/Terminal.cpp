#include "Terminal.h"

#include <cstdlib>
#include <unistd.h>

namespace kfuse::tools {

bool isTerminal(int descriptor) { return isatty(descriptor) == 1; }

bool wantsColour() {
  const char *refused = std::getenv("NO_COLOR");
  return isTerminal(STDOUT_FILENO) && !(refused && *refused);
}

} // namespace kfuse::tools
