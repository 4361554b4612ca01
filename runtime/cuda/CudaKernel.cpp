#include "runtime/cuda/CudaKernel.h"

#include "runtime/Elf.h"

#include <algorithm>

namespace kfuse::runtime::cuda {
namespace {

using codegen::KernelArg;
using codegen::Launch;
using codegen::TensorMapRecipe;

constexpr std::uint32_t portableClusterBlocks = 8; // More needs the function's consent.
constexpr int firstToOverlap = 12030;              // CUDA 12.3: stream capture keeps programmatic dependencies.

CUtensorMapDataType tensorMapType(DType type) {
  switch (type) {
  case DType::F32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case DType::F16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DType::BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DType::I32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  case DType::I64:
    return CU_TENSOR_MAP_DATA_TYPE_INT64;
  case DType::Bool:
  case DType::F8E4M3:
  case DType::F8E5M2:
  case DType::I8:
  case DType::U8:
  case DType::I4:
  case DType::U4:
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle swizzle(std::uint32_t bytes) {
  switch (bytes) {
  case 32:
    return CU_TENSOR_MAP_SWIZZLE_32B;
  case 64:
    return CU_TENSOR_MAP_SWIZZLE_64B;
  case 128:
    return CU_TENSOR_MAP_SWIZZLE_128B;
  default:
    return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

/// Encoding is plain host arithmetic of the driver, well under a microsecond.
Result<CUtensorMap> encode(const DriverApi &api, const TensorMapRecipe &recipe, void *pointer) {
  CUtensorMap map;
  std::vector<cuuint64_t> sizes(recipe.sizes.begin(), recipe.sizes.end());
  std::vector<cuuint64_t> strides(recipe.strideBytes.begin(), recipe.strideBytes.end());
  std::vector<cuuint32_t> steps(sizes.size(), 1);
  KFUSE_DRIVER(api, cuTensorMapEncodeTiled(&map, tensorMapType(recipe.type), static_cast<cuuint32_t>(sizes.size()),
                                           pointer, sizes.data(), strides.data(), recipe.box.data(), steps.data(),
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(recipe.swizzleBytes),
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

/// The values of a launch's arguments and the addresses the driver wants of them.
struct Arguments {
  std::vector<void *> pointers;
  std::vector<CUtensorMap> maps;
  std::vector<void *> addresses;
};

Result<void> resolve(Arguments &arguments, const DriverApi &api, const codegen::KernelPlan &plan, const Launch &launch,
                     std::span<void *const> buffers, void *workspace) {
  arguments.pointers.reserve(launch.args.size()); // Addresses are taken while both grow.
  arguments.maps.reserve(launch.args.size());
  for (const KernelArg &arg : launch.args) {
    if (arg.kind == KernelArg::Kind::TensorMap) {
      const TensorMapRecipe &recipe = plan.tensorMaps[arg.index];
      void *tensor = recipe.inWorkspace ? workspace : buffers[recipe.buffer];
      Result<CUtensorMap> map = encode(api, recipe, static_cast<std::byte *>(tensor) + recipe.offsetBytes);
      if (!map)
        return map.error();
      arguments.addresses.push_back(&arguments.maps.emplace_back(*map));
    } else {
      void *pointer =
          arg.kind == KernelArg::Kind::Buffer ? buffers[arg.index] : static_cast<std::byte *>(workspace) + arg.index;
      arguments.addresses.push_back(static_cast<void *>(&arguments.pointers.emplace_back(pointer)));
    }
  }
  return {};
}

std::uint32_t clusterBlocks(const Launch &launch) { return launch.cluster[0] * launch.cluster[1] * launch.cluster[2]; }

CUlaunchAttribute clusterAttribute(const Launch &launch) {
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  return cluster;
}

/// The launch without stream and attributes.
CUlaunchConfig configOf(const Launch &launch) {
  CUlaunchConfig config{};
  config.gridDimX = launch.grid[0];
  config.gridDimY = launch.grid[1];
  config.gridDimZ = launch.grid[2];
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.sharedBytes;
  return config;
}

/// Whether `image` is text with its only zero at its end, where the driver looks for it.
bool isPtx(std::span<const std::byte> image) {
  return !image.empty() && std::find(image.begin(), image.end(), std::byte{0}) == image.end() - 1;
}

Error inKernel(const codegen::KernelPlan &plan, const std::string &entry, Error error) {
  error.message = "kernel '" + plan.name + "' (" + entry + ", " + plan.target + "): " + error.message;
  return error;
}

} // namespace

Result<std::unique_ptr<LoadedKernel>> CudaKernel::load(const ContextRef &context, const codegen::KernelPlan &plan,
                                                       const CompiledKernel &compiled) {
  if (!isWholeElf(compiled.image) && !(plan.target.starts_with("compute_") && isPtx(compiled.image)))
    return inKernel(plan, "load", {ErrorCode::BadModel, "its machine code is damaged; compile it again"});
  Result<Module> module = loadModule(context, compiled.image.data());
  if (!module)
    return inKernel(plan, "load", module.error());
  std::unique_ptr<CudaKernel> kernel(new CudaKernel(context, plan, std::move(*module)));
  if (Result<void> found = kernel->findFunctions(); !found)
    return found.error();
  return std::unique_ptr<LoadedKernel>(std::move(kernel));
}

Result<void> CudaKernel::findFunctions() {
  Current current(*context);
  const DriverApi &api = context->api;
  int version = 0;
  KFUSE_DRIVER(api, cuDriverGetVersion(&version));
  driverOverlaps = version >= firstToOverlap;
  for (const Launch &launch : plan.launches) {
    auto check = [&](CUresult status, const char *call) -> Result<void> {
      Result<void> checked = api.check(status, call);
      return checked ? checked : inKernel(plan, launch.entry, checked.error());
    };
    CUfunction function = nullptr;
    if (auto found =
            check(api.cuModuleGetFunction(&function, module.get(), launch.entry.c_str()), "cuModuleGetFunction");
        !found)
      return found;
    functions.push_back(function);

    std::uint32_t shared = 0; // The most of all launches of this entry: each call sets a maximum.
    for (const Launch &other : plan.launches)
      shared = std::max(shared, other.entry == launch.entry ? other.sharedBytes : 0);
    auto attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    if (auto set = check(api.cuFuncSetAttribute(function, attribute, static_cast<int>(shared)), "cuFuncSetAttribute");
        !set)
      return set;
    // How an SM divides its memory changes only while it is empty: a kernel with little shared memory between two
    // products keeps the second from starting early, unless it asks for their division. In a chain of 19 products and
    // norms on an H200 that is 16 of 127 us. Kernels that read again need their L1: streamed products take 6 % longer
    // without.
    attribute = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    if (plan.programmaticLaunch && launch.needsNoL1)
      if (auto set = check(api.cuFuncSetAttribute(function, attribute, CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                           "cuFuncSetAttribute");
          !set)
        return set;
    attribute = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    if (clusterBlocks(launch) > portableClusterBlocks)
      if (auto set = check(api.cuFuncSetAttribute(function, attribute, 1), "cuFuncSetAttribute"); !set)
        return set;
  }
  return {};
}

Result<void> CudaKernel::ReadyLaunch::enqueue(const DriverApi &api, CUstream stream) const {
  CUlaunchConfig onStream = config;
  onStream.hStream = stream;
  KFUSE_DRIVER(api, cuLaunchKernelEx(&onStream, function, arguments, nullptr));
  return {};
}

/// The node's parameters without attributes (cluster, dependent launch), which a node keeps.
CUDA_KERNEL_NODE_PARAMS CudaKernel::ReadyLaunch::nodeParams() const {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = config.gridDimX;
  params.gridDimY = config.gridDimY;
  params.gridDimZ = config.gridDimZ;
  params.blockDimX = config.blockDimX;
  params.blockDimY = config.blockDimY;
  params.blockDimZ = config.blockDimZ;
  params.sharedMemBytes = config.sharedMemBytes;
  params.kernelParams = arguments;
  return params;
}

Result<void> CudaKernel::enqueue(Stream stream, const KernelRun &run) const {
  Current current(*context);
  return visit(run,
               [&](const ReadyLaunch &ready) { return ready.enqueue(context->api, static_cast<CUstream>(stream)); });
}

Result<void> CudaKernel::visit(const KernelRun &run, const Visit &show) const {
  if (std::size_t expected = plan.inputs.size() + plan.outputs.size(); run.buffers.size() != expected)
    return Error{ErrorCode::Internal, "kernel '" + plan.name + "' was given " + std::to_string(run.buffers.size()) +
                                          " buffers, expected " + std::to_string(expected)};
  for (std::size_t i = 0; i < plan.launches.size(); ++i)
    if (Result<void> shown = visitOne(i, run, show); !shown)
      return inKernel(plan, plan.launches[i].entry, shown.error());
  return {};
}

Result<void> CudaKernel::visitOne(std::size_t index, const KernelRun &run, const Visit &show) const {
  const Launch &launch = plan.launches[index];
  Arguments arguments;
  if (Result<void> resolved = resolve(arguments, context->api, plan, launch, run.buffers, run.workspace); !resolved)
    return resolved;

  std::array<CUlaunchAttribute, 2> attributes{};
  CUlaunchConfig config = configOf(launch);
  config.attrs = attributes.data();
  if (clusterBlocks(launch) > 1)
    attributes[config.numAttrs++] = clusterAttribute(launch);
  const bool mayOverlap = run.programmaticLaunch || index > 0;
  if (launch.programmaticLaunch && mayOverlap && driverOverlaps) {
    CUlaunchAttribute &dependent = attributes[config.numAttrs++];
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  return show({functions[index], config, arguments.addresses.data()});
}

} // namespace kfuse::runtime::cuda
