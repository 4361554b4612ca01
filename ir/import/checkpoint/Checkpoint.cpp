#include "ir/import/checkpoint/Checkpoint.h"

#include "ir/MappedFile.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace kfuse::ir {
namespace {

namespace fs = std::filesystem;
using checkpoint::QuantisedMatrix;
using checkpoint::Unreadable;

/// What cannot be opened, with its code.
struct Failed : std::runtime_error {
  explicit Failed(const Error &error) : std::runtime_error(error.message), code(error.code) {}
  ErrorCode code;
};

std::string textOf(const fs::path &path) {
  constexpr std::size_t most = std::size_t{64} << 20; // An index names some hundred thousand tensors at most.
  const Result<MappedFile> file = MappedFile::open(path.string());
  if (!file)
    throw Failed(file.error());
  std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > most)
    throw Unreadable("its " + path.filename().string() + " has over 64 MiB");
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// The files that an index names, which lie beside it.
std::set<std::string> filesOfIndex(const std::string &text) {
  const nlohmann::json index = nlohmann::json::parse(text);
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw Unreadable("its index has no weight_map");
  std::set<std::string> files;
  for (const nlohmann::json &file : *map) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name || name == ".." || name == ".")
      throw Unreadable("its index names '" + name + "', which is no file beside it");
    files.insert(name);
  }
  return files;
}

std::set<std::string> filesIn(const fs::path &folder) {
  std::set<std::string> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      files.insert(entry.path().filename().string());
  if (files.empty())
    throw Failed({ErrorCode::Io, "it holds no .safetensors; save the model with save_pretrained(FOLDER, "
                                 "safe_serialization=True)"});
  return files;
}

/// `make`, with what it throws as an Error.
template <class Make> auto guarded(const std::string &title, const Make &make) -> Result<decltype(make())> {
  auto failure = [&](ErrorCode code, const std::string &reason) {
    return Error{code, "checkpoint " + title + ": " + reason};
  };
  try {
    return make();
  } catch (const Failed &failed) {
    return failure(failed.code, failed.what());
  } catch (const fs::filesystem_error &error) {
    return failure(ErrorCode::Io, error.code().message());
  } catch (const std::exception &error) { // nlohmann's, too.
    return failure(ErrorCode::BadModel, error.what());
  }
}

} // namespace

void Checkpoint::add(checkpoint::StoredTensors tensors) {
  stored.merge(tensors);
  if (!tensors.empty())
    throw Unreadable("two of its files hold '" + tensors.begin()->first + "'");
}

void Checkpoint::openFiles(const checkpoint::ReadTensors &read) {
  const fs::path folder = title;
  if (!fs::is_directory(folder))
    throw Failed({ErrorCode::Io, "it is no folder; give that of config.json and the .safetensors"});
  if (fs::exists(folder / "config.json"))
    scheme = checkpoint::readScheme(textOf(folder / "config.json"));
  const fs::path index = folder / "model.safetensors.index.json";
  std::set<std::string> names;
  if (fs::exists(index))
    names = filesOfIndex(textOf(index));
  else if (fs::exists(folder / "model.safetensors"))
    names = {"model.safetensors"};
  else
    names = filesIn(folder);
  for (const std::string &name : names) {
    Result<checkpoint::StoredTensors> tensors = read((folder / name).string());
    if (!tensors)
      throw Failed(tensors.error());
    add(std::move(*tensors));
  }
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string &folder,
                                                           const checkpoint::ReadTensors &read) {
  return guarded(folder, [&] {
    std::shared_ptr<Checkpoint> opened(new Checkpoint(folder));
    opened->openFiles(read);
    return std::shared_ptr<const Checkpoint>(std::move(opened));
  });
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::parse(std::string_view config, checkpoint::StoredTensors tensors,
                                                            std::string name) {
  return guarded(name, [&] {
    std::shared_ptr<Checkpoint> parsed(new Checkpoint(name));
    parsed->scheme = checkpoint::readScheme(config);
    parsed->add(std::move(tensors));
    return std::shared_ptr<const Checkpoint>(std::move(parsed));
  });
}

std::vector<std::string> Checkpoint::tensors() const {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : stored)
    names.push_back(name);
  return names;
}

checkpoint::Layer Checkpoint::layer(std::string_view name) const {
  return checkpoint::Layer([this, prefix = std::string(name) + "."](std::string_view tensor) {
    auto found = stored.find(prefix + std::string(tensor));
    return found == stored.end() ? nullptr : &found->second;
  });
}

Result<ParameterData> Checkpoint::tensor(std::string_view name) const {
  return guarded(title, [&] {
    const checkpoint::StoredTensor &tensor = stored.find(name)->second;
    if (!tensor.kind)
      throw Unreadable("'" + std::string(name) + "' is of " + tensor.type + ", which kfuse does not have");
    return ParameterData{*tensor.kind, tensor.shape, tensor.bytes, tensor.owner};
  });
}

bool Checkpoint::quantises(std::string_view name) const { return !checkpoint::codesIn(layer(name)).empty(); }

Result<std::shared_ptr<const QuantisedMatrix>> Checkpoint::matrix(const std::string &name, std::int64_t n,
                                                                  std::int64_t k) const {
  const auto key = std::tuple(name, n, k);
  {
    std::lock_guard lock(reading);
    if (auto known = matrices.find(key); known != matrices.end())
      return known->second;
  }
  return guarded(title, [&] {
    try {
      if (!scheme.format)
        throw Unreadable("is quantised, but no quantization_config in config.json says how; copy the exporter's");
      auto read = std::make_shared<const QuantisedMatrix>(scheme.format->read(layer(name), scheme, n, k));
      std::lock_guard lock(reading);
      return matrices.try_emplace(key, std::move(read)).first->second;
    } catch (const Unreadable &unreadable) {
      throw Unreadable("its layer '" + name + "' " + unreadable.what());
    }
  });
}

} // namespace kfuse::ir
