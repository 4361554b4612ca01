// JSON as commands write it.
#pragma once

#include "tuner/record/Json.h"

namespace kfuse::tools {

using tuner::Json;
using tuner::textOf;

} // namespace kfuse::tools
