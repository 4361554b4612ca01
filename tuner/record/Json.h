// JSON as commands write it and the public interface returns it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kfuse::tuner {

using Json = nlohmann::ordered_json;

/// In lines, two blanks deeper for each level. Names of models and files may be no UTF-8: bytes that are none become
/// U+FFFD.
std::string linesOf(const Json &json);
/// The same as the text of a file or of standard output: with the last line's end.
std::string textOf(const Json &json);

} // namespace kfuse::tuner
