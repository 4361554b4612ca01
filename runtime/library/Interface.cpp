// The C interface, include/kfuse/runtime.h.
#include "kfuse/runtime.h"

#include "runtime/library/BoundSession.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

using namespace kfuse;
using namespace kfuse::runtime;

struct kfr_pack {
  std::shared_ptr<const Pack> pack;
};

namespace {

constexpr std::size_t roles = KFR_OUTPUT + 1;

/// The tensors of a role as C sees them.
using Tensors = std::vector<kfr_tensor>;

} // namespace

struct kfr_program {
  std::shared_ptr<const LoadedProgram> program;
  std::array<Tensors, roles> tensors;
  std::vector<kfr_dim> dims;
};

struct kfr_weights {
  std::shared_ptr<const PreparedWeights> weights;
};

struct kfr_session {
  std::unique_ptr<BoundSession> session;
};

namespace {

static_assert(KFR_F32 == static_cast<int>(DType::F32) && KFR_F16 == static_cast<int>(DType::F16) &&
              KFR_BF16 == static_cast<int>(DType::BF16) && KFR_I32 == static_cast<int>(DType::I32) &&
              KFR_I64 == static_cast<int>(DType::I64) && KFR_BOOL == static_cast<int>(DType::Bool) &&
              KFR_F8E4M3 == static_cast<int>(DType::F8E4M3) && KFR_F8E5M2 == static_cast<int>(DType::F8E5M2) &&
              KFR_I8 == static_cast<int>(DType::I8) && KFR_U8 == static_cast<int>(DType::U8) &&
              KFR_I4 == static_cast<int>(DType::I4) && KFR_U4 == static_cast<int>(lastDType));
constexpr int mostThreads = 1024;

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

kfr_code codeOf(ErrorCode code) {
  switch (code) {
  case ErrorCode::Usage:
  case ErrorCode::NoDevice:
  case ErrorCode::OutOfMemory:
  case ErrorCode::Io:
    return static_cast<kfr_code>(code);
  case ErrorCode::BadModel:
    return KFR_BAD_PACK;
  default:
    return KFR_INTERNAL;
  }
}

/// Writes to as much of the caller's struct as it says there is.
kfr_code tell(kfr_error *error, kfr_code code, const char *message) {
  if (!error || error->struct_size < offsetof(kfr_error, message) + 1)
    return code;
  error->code = code;
  const std::size_t room = std::min(error->struct_size, sizeof *error) - offsetof(kfr_error, message) - 1;
  const std::size_t length = std::min(room, std::strlen(message));
  std::memcpy(error->message, message, length);
  error->message[length] = '\0';
  return code;
}

/// What a function of the interface does; nothing is thrown at its caller.
template <class Work> kfr_code guarded(kfr_error *error, Work work) {
  try {
    const Result<void> done = work();
    return done ? tell(error, KFR_OK, "") : tell(error, codeOf(done.error().code), done.error().message.c_str());
  } catch (const std::bad_alloc &) {
    return tell(error, KFR_OUT_OF_MEMORY, "the host is out of memory");
  } catch (const std::exception &thrown) {
    return tell(error, KFR_INTERNAL, thrown.what());
  }
}

/// Usage where a pointer that must not be null is.
Result<void> given(std::initializer_list<const void *> pointers) {
  for (const void *pointer : pointers)
    if (!pointer)
      return usage("a null pointer was given for what is needed");
  return {};
}

Tensors describe(const std::vector<TensorDesc> &descs) {
  Tensors tensors;
  for (const TensorDesc &desc : descs)
    tensors.push_back({sizeof(kfr_tensor), desc.name.c_str(), static_cast<kfr_type>(desc.type), desc.shape.size(),
                       desc.shape.data(), desc.bytes(), 0, -1});
  return tensors;
}

void describeAll(kfr_program &handle) {
  const Manifest &manifest = handle.program->manifest();
  handle.tensors = {describe(manifest.inputs), describe(manifest.parameters), describe(manifest.states),
                    describe(manifest.outputs)};
  for (std::size_t i = 0; i < manifest.parameters.size(); ++i)
    handle.tensors[KFR_PARAMETER][i].in_pack = handle.program->pack->comesWith(i);
  for (const Dim &dim : manifest.dims)
    handle.dims.push_back({sizeof(kfr_dim), dim.name.c_str(), dim.low, dim.high});
  for (std::size_t i = 0; i < manifest.updatedStates.size(); ++i)
    handle.tensors[KFR_OUTPUT][i].state = manifest.updatedStates[i];
}

const Tensors &tensorsOf(const kfr_program *program, kfr_role role) {
  static const Tensors none;
  return program && static_cast<std::size_t>(role) < roles ? program->tensors[role] : none;
}

/// The number of the tensor of that name, or that there is none and which there are.
Result<std::size_t> find(const std::vector<TensorDesc> &tensors, const char *name) {
  std::string names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name)
      return i;
    names += (i > 0 ? ", " : "") + tensors[i].name;
  }
  return usage("there is no '" + std::string(name) + "'; there are: " + names);
}

/// What the caller's struct has, which is that of version 1.0 or later; defaults behind it.
Result<kfr_load_options> optionsOf(const kfr_load_options *given) {
  constexpr std::size_t leastBytes = offsetof(kfr_load_options, variant) + sizeof(const char *);
  kfr_load_options options{sizeof options, KFR_AUTO, 0, nullptr, nullptr, 0};
  if (!given)
    return options;
  if (given->struct_size < leastBytes)
    return usage("kfr_load_options says it has " + std::to_string(given->struct_size) + " bytes, expected " +
                 std::to_string(leastBytes) + " or more; set struct_size to its sizeof");
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  if (options.threads < 0 || options.threads > mostThreads)
    return usage(std::to_string(options.threads) + " threads were asked for, expected 0 to " +
                 std::to_string(mostThreads));
  return options;
}

VariantWish wishOf(const kfr_load_options &options) {
  const std::string variant = options.variant ? options.variant : "";
  if (options.device == KFR_AUTO)
    return {"auto", 0, variant};
  const bool isCpu = options.device == KFR_CPU;
  return {isCpu ? "cpu" : "gpu", isCpu ? 0 : options.device, variant};
}

/// The manifest's tensors of a role that sessions bind; Usage for another.
Result<const std::vector<TensorDesc> *> boundBySessions(const Manifest &manifest, kfr_role role) {
  switch (role) {
  case KFR_INPUT:
    return &manifest.inputs;
  case KFR_STATE:
    return &manifest.states;
  case KFR_OUTPUT:
    return &manifest.outputs;
  case KFR_PARAMETER:
    return usage("parameters are given to kfr_prepare(), not bound by a session");
  }
  return usage("there is no role " + std::to_string(static_cast<int>(role)));
}

Result<void> bind(BoundSession &session, kfr_role role, std::size_t index, void *memory, std::size_t bytes) {
  Result<const std::vector<TensorDesc> *> tensors = boundBySessions(session.program().manifest(), role);
  if (!tensors)
    return tensors.error();
  if (index >= (*tensors)->size())
    return usage("there is no tensor " + std::to_string(index) + ", there are " + std::to_string((*tensors)->size()));
  const BoundTensor tensor{memory, bytes};
  return role == KFR_OUTPUT  ? session.bindOutput(index, tensor)
         : role == KFR_STATE ? session.bindState(index, tensor)
                             : session.bindInput(index, tensor);
}

} // namespace

extern "C" {

uint32_t kfr_version(void) { return KFR_VERSION_MAJOR << 16 | KFR_VERSION_MINOR; }

//===- Packs ---------------------------------------------------------------------------------===//

kfr_code kfr_open(const char *path, kfr_pack **pack, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({path, pack}); !valid)
      return valid;
    Result<Pack> opened = Pack::open(path);
    if (!opened)
      return opened.error();
    *pack = new kfr_pack{std::make_shared<const Pack>(std::move(*opened))};
    return {};
  });
}

kfr_code kfr_open_memory(const void *bytes, size_t size, kfr_pack **pack, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({bytes, pack}); !valid)
      return valid;
    Result<Pack> opened = Pack::parse({static_cast<const std::byte *>(bytes), size}, "the pack in memory");
    if (!opened)
      return opened.error();
    *pack = new kfr_pack{std::make_shared<const Pack>(std::move(*opened))};
    return {};
  });
}

void kfr_pack_release(kfr_pack *pack) { delete pack; }

//===- Programs ------------------------------------------------------------------------------===//

kfr_code kfr_load(kfr_pack *pack, const kfr_load_options *options, kfr_program **program, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({pack, program}); !valid)
      return valid;
    Result<kfr_load_options> asked = optionsOf(options);
    if (!asked)
      return asked.error();
    Result<std::shared_ptr<const LoadedProgram>> loaded = LoadedProgram::load(
        pack->pack,
        {wishOf(*asked), asked->threads, {asked->weights ? asked->weights : "", asked->check_weights != 0}});
    if (!loaded)
      return loaded.error();
    auto handle = std::make_unique<kfr_program>();
    handle->program = std::move(*loaded);
    describeAll(*handle);
    *program = handle.release();
    return {};
  });
}

void kfr_program_release(kfr_program *program) { delete program; }

const char *kfr_target(const kfr_program *program) { return program ? program->program->title.c_str() : ""; }

int kfr_device(const kfr_program *program) { return program ? program->program->ordinal : KFR_CPU; }

size_t kfr_count(const kfr_program *program, kfr_role role) { return tensorsOf(program, role).size(); }

const kfr_tensor *kfr_tensor_at(const kfr_program *program, kfr_role role, size_t index) {
  const Tensors &tensors = tensorsOf(program, role);
  return index < tensors.size() ? &tensors[index] : nullptr;
}

const kfr_tensor *kfr_tensor_named(const kfr_program *program, kfr_role role, const char *name) {
  for (const kfr_tensor &tensor : tensorsOf(program, role))
    if (name && std::strcmp(tensor.name, name) == 0)
      return &tensor;
  return nullptr;
}

//===- Lengths -------------------------------------------------------------------------------===//

size_t kfr_dim_count(const kfr_program *program) { return program ? program->dims.size() : 0; }

const kfr_dim *kfr_dim_at(const kfr_program *program, size_t index) {
  return program && index < program->dims.size() ? &program->dims[index] : nullptr;
}

kfr_code kfr_shape(const kfr_program *program, kfr_role role, size_t index, const int64_t *lengths, size_t count,
                   int64_t *shape, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = count > 0 ? given({program, lengths, shape}) : given({program, shape}); !valid)
      return valid;
    const kfr_tensor *tensor = kfr_tensor_at(program, role, index);
    if (!tensor)
      return usage("there is no tensor " + std::to_string(index) + ", there are " +
                   std::to_string(kfr_count(program, role)));
    std::copy(tensor->shape, tensor->shape + tensor->rank, shape);
    Result<const LengthEdges *> edges = program->program->edgesFor({lengths, count});
    if (!edges)
      return edges.error();
    if (*edges && (role == KFR_INPUT || role == KFR_OUTPUT))
      std::ranges::copy(shapeAt((role == KFR_INPUT ? (*edges)->inputs : (*edges)->results)[index], {lengths, count}),
                        shape);
    return {};
  });
}

//===- Memory --------------------------------------------------------------------------------===//

kfr_code kfr_allocate(kfr_program *program, size_t bytes, void **memory, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({program, memory}); !valid)
      return valid;
    Result<std::unique_ptr<DeviceBuffer>> buffer = program->program->device->allocate(bytes);
    if (!buffer)
      return buffer.error();
    *memory = program->program->given->keep(std::move(*buffer));
    return {};
  });
}

void kfr_free(kfr_program *program, void *memory) {
  if (program && memory)
    program->program->given->free(memory);
}

kfr_code kfr_upload(kfr_program *program, void *device, const void *host, size_t bytes, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = bytes > 0 ? given({program, device, host}) : given({program});
    return valid ? program->program->device->upload(device, host, bytes) : valid;
  });
}

kfr_code kfr_download(kfr_program *program, void *host, const void *device, size_t bytes, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = bytes > 0 ? given({program, device, host}) : given({program});
    return valid ? program->program->device->download(host, device, bytes) : valid;
  });
}

kfr_code kfr_synchronize(kfr_program *program, void *stream, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = given({program});
    return valid ? program->program->device->synchronize(stream) : valid;
  });
}

//===- Weights -------------------------------------------------------------------------------===//

kfr_code kfr_prepare(kfr_program *program, const kfr_binding *parameters, size_t count, kfr_weights **weights,
                     kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({program, weights}); !valid)
      return valid;
    if (Result<void> valid = count > 0 ? given({parameters}) : Result<void>(); !valid)
      return valid;
    const std::vector<TensorDesc> &described = program->program->manifest().parameters;
    Parameters bound(described.size());
    for (const kfr_binding &binding : std::span(parameters, count)) {
      if (Result<void> valid = given({binding.name, binding.data}); !valid)
        return valid;
      Result<std::size_t> index = find(described, binding.name);
      if (!index)
        return index.error();
      if (const std::size_t expected = described[*index].bytes(); binding.bytes != expected)
        return usage("parameter '" + described[*index].name + "' is given " + std::to_string(binding.bytes) +
                     " bytes, expected " + std::to_string(expected));
      bound[*index] = binding.data;
    }
    Result<std::shared_ptr<const PreparedWeights>> made = PreparedWeights::make(program->program, std::move(bound));
    if (!made)
      return made.error();
    *weights = new kfr_weights{std::move(*made)};
    return {};
  });
}

void kfr_weights_release(kfr_weights *weights) { delete weights; }

//===- Sessions ------------------------------------------------------------------------------===//

size_t kfr_session_bytes(const kfr_program *program) {
  return program ? BucketContexts::bytes(mainsOf(program->program->programs), program->program->manifest().dims.size())
                 : 0;
}

kfr_code kfr_session_new(kfr_weights *weights, void *memory, size_t bytes, kfr_session **session, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({weights, session}); !valid)
      return valid;
    std::span<std::byte> region(static_cast<std::byte *>(memory), memory ? bytes : 0);
    Result<std::unique_ptr<BoundSession>> made = BoundSession::make(weights->weights, region);
    if (!made)
      return made.error();
    *session = new kfr_session{std::move(*made)};
    return {};
  });
}

void kfr_session_release(kfr_session *session) { delete session; }

kfr_code kfr_bind(kfr_session *session, kfr_role role, const char *name, void *memory, size_t bytes, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> valid = given({session, name}); !valid)
      return valid;
    Result<const std::vector<TensorDesc> *> tensors = boundBySessions(session->session->program().manifest(), role);
    if (!tensors)
      return tensors.error();
    Result<std::size_t> index = find(**tensors, name);
    return index ? bind(*session->session, role, *index, memory, bytes) : index.error();
  });
}

kfr_code kfr_bind_at(kfr_session *session, kfr_role role, size_t index, void *memory, size_t bytes, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = given({session});
    return valid ? bind(*session->session, role, index, memory, bytes) : valid;
  });
}

kfr_code kfr_run(kfr_session *session, void *stream, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = given({session});
    return valid ? session->session->run(stream, {}) : valid;
  });
}

kfr_code kfr_run_lengths(kfr_session *session, void *stream, const int64_t *lengths, size_t count, kfr_error *error) {
  return guarded(error, [&]() -> Result<void> {
    Result<void> valid = count > 0 ? given({session, lengths}) : given({session});
    return valid ? session->session->run(stream, {lengths, count}) : valid;
  });
}

} // extern "C"
