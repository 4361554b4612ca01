// JSON as commands write it and the public interface returns it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kfuse::tuner {

using Json = nlohmann::ordered_json;

/// Names of models and files may be no UTF-8: bytes that are none become U+FFFD.
inline std::string textOf(const Json &json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

} // namespace kfuse::tuner
