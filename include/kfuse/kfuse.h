// All of kfuse's public interface.
#pragma once

#include "kfuse/compiler.h"
#include "kfuse/error.h"
#include "kfuse/graph.h"
#include "kfuse/half.h"
#include "kfuse/inspect.h"
#include "kfuse/pack.h"
#include "kfuse/tuning.h"
#include "kfuse/types.h"
