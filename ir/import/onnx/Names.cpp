#include "ir/import/onnx/Names.h"

#include <utility>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

Error malformed(std::string message) { return {ErrorCode::BadModel, std::move(message)}; }

} // namespace

Names::Scope::Scope(Names &names) : names(names), outer(std::exchange(names.scope, this)) {}

Names::Scope::~Scope() {
  for (const auto &name : own.keys()) {
    names.values.erase(name);
    names.missing.erase(name);
  }
  for (const auto &[name, value] : hidden)
    names.values[name] = value;
  for (const auto &[name, maker] : hiddenMissing)
    names.missing[name] = maker;
  names.scope = outer;
}

/// Takes away what the name means around.
void Names::Scope::hide(const std::string &name) {
  if (Value value = names.values.lookup(name))
    hidden[name] = value;
  names.values.erase(name);
  if (auto maker = names.missing.find(name); maker != names.missing.end()) {
    hiddenMissing[name] = maker->second;
    names.missing.erase(maker);
  }
}

Result<void> Names::define(const std::string &name, Value value) {
  if (name.empty())
    return malformed("an input or initializer has no name");
  const bool isNew = !scope || scope->own.insert(name).second;
  if (scope && isNew)
    scope->hide(name);
  if (isNew && values.try_emplace(name, value).second)
    return {};
  return malformed("the name '" + name + "' is given to two values");
}

void Names::setMissing(const std::string &name, const std::string &maker) {
  if (scope && scope->own.insert(name).second)
    scope->hide(name);
  values.erase(name);
  missing[name] = maker;
}

const std::string *Names::makerOfMissing(const std::string &name) const {
  auto maker = missing.find(name);
  return maker == missing.end() ? nullptr : &maker->second;
}

Result<Value> Names::read(const std::string &name, const std::string &reader) const {
  if (const std::string *maker = makerOfMissing(name))
    return malformed(reader + "reads '" + name + "', a result of " + *maker + " that kfuse does not make");
  if (Value value = values.lookup(name))
    return value;
  return malformed(reader + "reads '" + name + "', which nothing before it makes");
}

} // namespace kfuse::ir::onnx
