#include "tuner/record/Json.h"

namespace kfuse::tuner {

std::string linesOf(const Json &json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string textOf(const Json &json) { return linesOf(json) + "\n"; }

} // namespace kfuse::tuner
