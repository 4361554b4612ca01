#include "tuner/record/BootId.h"

#include <fstream>

namespace kfuse::tuner {

std::string bootId() {
  std::string line;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), line);
  return line;
}

} // namespace kfuse::tuner
