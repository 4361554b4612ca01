#include "tools/kfuse/bench/GemmComparison.h"

#include "ir/reference/Policy.h"
#include "kfuse/graph.h"
#include "tools/kfuse/bench/CublasLt.h"
#include "tuner/api/Handles.h"
#include "tuner/model/PlannedModel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

namespace kfuse::tools {
namespace {

constexpr double callsUs = 400; ///< Microseconds of calls in one graph.
/// Pieces all over a result that are compared: one in every 32 rows of 32768.
constexpr std::int64_t comparedElements = 4 << 20, comparedPieces = 1024;
/// Pairs of measurements, their order alternating. At the card's power limit those of one product lie 4 % apart (p10 to
/// p90, on an H200), and medians of six pairs of the same config, taken twice in one process, by 1 to 2 %.
constexpr int rounds = 25;
/// Milliseconds of work before the first timing of a process, before that of another product, and before every other.
/// Operands are made and cuBLASLt is opened while the device idles; beside other processes' work two first products of
/// a process were seen whose launches took 4.4 us each for half a second (1 x 1024 x 1024 4.3 us instead of 2.1), which
/// costs calls of two kernels more than those of one.
constexpr double firstWarmupMs = 600, productWarmupMs = 60, warmupMs = 2;

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}
double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

/// Where piece `i` of `pieces` begins: in each stride a golden section of the room there further on, so that pieces
/// of neighbouring rows lie in other columns, and the last one at the end of the result.
std::int64_t beginningOf(std::int64_t i, std::int64_t pieces, std::int64_t piece, std::int64_t elements) {
  if (pieces == 1)
    return 0;
  constexpr std::int64_t section = 632; // It has no factor in common with comparedPieces - 1.
  const std::int64_t strides = pieces - 1, room = std::max<std::int64_t>((elements - piece) / strides - piece, 0);
  return (elements - piece) * i / strides + (i < strides ? room * (i * section % strides) / strides : 0);
}

} // namespace

/// Operands and results at enough addresses that none is in the L2 when its turn comes.
class GemmComparison::Operands {
public:
  static Result<Operands> make(runtime::Device &device, DType type, DType result, const Product &product,
                               double l2Bytes) {
    Operands operands;
    const std::array<Shape, 3> shapes{product.shape(product.M, product.K), product.shape(product.N, product.K),
                                      product.shape(product.M, product.N)};
    const std::array<DType, 3> types{type, type, result};
    auto bytesOf = [&](std::size_t i) {
      return byteWidth(types[i]) * static_cast<std::size_t>(elementCount(shapes[i]));
    };
    operands.bytes = bytesOf(0) + bytesOf(1) + bytesOf(2);
    operands.rotation = Rotation::of(static_cast<double>(operands.bytes), product.batches, l2Bytes);
    for (int set = 0; set < operands.rotation.sets; ++set)
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        std::size_t size = bytesOf(i);
        Result<std::unique_ptr<runtime::DeviceBuffer>> buffer = device.allocate(size);
        if (!buffer)
          return buffer.error();
        operands.pointers.push_back((*buffer)->data());
        operands.buffers.push_back(std::move(*buffer));
        Result<void> filled = i == 2    ? device.fill(operands.pointers.back(), 0xff, size)
                              : set > 0 ? device.copy(nullptr, operands.pointers.back(), operands.pointers[i], size)
                                        : uploadRandom(device, *operands.buffers.back(), type, i + 1);
        if (!filled)
          return filled.error();
      }
    if (Result<void> done = device.synchronize(nullptr); !done)
      return done.error();
    return operands;
  }

  int sets() const { return rotation.sets; }
  std::span<void *const> set(int i) const { return {pointers.data() + 3 * static_cast<std::size_t>(i), 3}; }
  std::size_t bytes = 0; ///< The bytes of one set.
  Rotation rotation{};

private:
  /// Random numbers for some 2^24 elements, again and again: making them takes longer than measuring. Their number is
  /// odd, so that no two batches are equal.
  static Result<void> uploadRandom(runtime::Device &device, runtime::DeviceBuffer &buffer, DType type,
                                   std::uint64_t seed) {
    constexpr std::size_t most = (1 << 24) - 4097;
    const std::size_t size = buffer.size(), elements = std::min(size / byteWidth(type), most);
    const reference::HostTensor piece = reference::uniform(type, {static_cast<std::int64_t>(elements)}, seed);
    for (std::size_t at = 0; at < size; at += piece.bytes.size())
      if (Result<void> uploaded = device.upload(static_cast<std::byte *>(buffer.data()) + at, piece.bytes.data(),
                                                std::min(piece.bytes.size(), size - at));
          !uploaded)
        return uploaded;
    return {};
  }

  std::vector<std::unique_ptr<runtime::DeviceBuffer>> buffers;
  std::vector<void *> pointers;
};

/// Calls of a kernel one after the other, each on the next set of operands.
class GemmComparison::RotatingCalls : public runtime::LoadedKernel {
public:
  RotatingCalls(runtime::LoadedKernel &kernel, const Operands &operands, int calls, Order order)
      : kernel(kernel), operands(operands), calls(calls), order(order) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const>, void *workspace) override {
    for (int i = 0; i < calls; ++i) {
      std::span<void *const> set = operands.set(i % operands.sets());
      bool programmaticLaunch = i > 0 && order == Order::Overlapped;
      Result<void> launched = programmaticLaunch ? kernel.launchProgrammatic(stream, set, workspace)
                                                 : kernel.launch(stream, set, workspace);
      if (!launched)
        return launched;
    }
    return {};
  }

private:
  runtime::LoadedKernel &kernel;
  const Operands &operands;
  int calls;
  Order order;
};

GemmComparison::GemmComparison(tuner::Workbench &bench, runtime::Device &device, tuner::TuneOptions tuning,
                               const std::string &type)
    : bench(bench), device(device), tuning(std::move(tuning)), type(type == "tf32" ? DType::F32 : *parseDType(type)),
      result(isFloat8(this->type) ? DType::BF16 : this->type), tf32(type == "tf32") {}

Result<GemmRow> GemmComparison::run(const Product &product) {
  Result<tuner::CompiledModel> compiled = tune(product);
  if (!compiled)
    return compiled.error();
  const runtime::ProgramKernel &chosen = compiled->main.kernels.front();
  Result<std::unique_ptr<runtime::LoadedKernel>> ours = device.load(chosen.plan, chosen.binary);
  if (!ours)
    return ours.error();
  auto peers = cublasLtAlgorithms(type, result, tf32, product);
  if (!peers)
    return peers.error();
  Result<Operands> operands = Operands::make(device, type, result, product, bench.target->l2Bytes);
  if (!operands)
    return operands.error();
  // Each side has its own: ours may keep flags there from call to call.
  Result<std::unique_ptr<runtime::DeviceBuffer>> workspace = device.allocate(
                                                     std::max<std::size_t>(chosen.plan.workspaceBytes, 1)),
                                                 peersWorkspace = device.allocate(cublasWorkspaceBytes);
  if (!workspace || !peersWorkspace)
    return (workspace ? peersWorkspace : workspace).error();
  if (chosen.plan.zeroedBytes > 0)
    if (Result<void> filled = device.fill((*workspace)->data(), 0, chosen.plan.zeroedBytes); !filled)
      return filled.error();
  if (Result<void> ran = dropFailing(*peers, device, operands->set(0), (*peersWorkspace)->data()); !ran)
    return ran.error();
  const Contender mine{**ours, (*workspace)->data()};
  std::vector<Contender> theirs;
  for (const std::unique_ptr<runtime::LoadedKernel> &peer : *peers)
    theirs.push_back({*peer, (*peersWorkspace)->data()});
  if (!theirs.empty())
    if (Result<void> agreed = compare(product, mine, theirs.front(), *operands); !agreed)
      return agreed.error();
  Result<GemmRow> row = measure(product, mine, theirs, *operands);
  if (row)
    row->report = compiled->report.kernels.front();
  if (row)
    row->boundUs = row->report.bound.boundUs;
  return row;
}

Result<tuner::CompiledModel> GemmComparison::tune(const Product &product) {
  GraphBuilder graph;
  Tensor x = graph.input("x", type, product.shape(product.M, product.K)),
         w = graph.parameter("w", type, product.shape(product.N, product.K));
  Tensor y =
      graph.matmul(x, w, {.a = false, .b = true}, tf32 ? GraphBuilder::Precision::TF32 : GraphBuilder::Precision::F32);
  graph.output("y", isFloat8(type) ? graph.cast(y, result) : y);
  Result<Graph> built = graph.build();
  if (!built)
    return built.error();
  Result<Model> model = Model::fromGraph(*built);
  if (!model)
    return model.error();
  Result<tuner::PlannedModel> planned = tuner::planModel(*model->internals().model.module, *bench.target);
  if (!planned)
    return planned.error();
  return tuner::compileModel(*planned, bench.context(tuning));
}

/// Both compute the same product: their results, rounded once each, differ by less than the format's
/// tolerance (docs/numbers.md).
Result<void> GemmComparison::compare(const Product &product, const Contender &ours, const Contender &peer,
                                     const Operands &operands) {
  std::array<std::vector<reference::Number>, 2> numbers;
  for (std::size_t i = 0; i < 2; ++i) {
    Result<std::vector<reference::Number>> computed = sampled(product, i == 0 ? ours : peer, operands);
    if (!computed)
      return computed.error();
    numbers[i] = std::move(*computed);
  }
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < numbers[0].size(); ++i) {
    double a = numbers[0][i].real, b = numbers[1][i].real;
    difference += (a - b) * (a - b), norm += b * b;
  }
  double error = std::sqrt(difference / norm), allowed = tf32 ? 1e-3 : reference::tolerance(result);
  if (error <= allowed) // False for NaN, too.
    return {};
  return Error{ErrorCode::WrongResult, fmt::format("{}: kfuse and cuBLASLt differ by {:.1e}, expected at most {:.0e}",
                                                   product.str(), error, allowed)};
}

/// Pieces of what a contender computes: all of a result of gigabytes would take seconds to bring here.
Result<std::vector<reference::Number>> GemmComparison::sampled(const Product &product, const Contender &contender,
                                                               const Operands &operands) {
  const std::span<void *const> buffers = operands.set(0);
  const std::int64_t width = static_cast<std::int64_t>(byteWidth(result)),
                     elements = elementCount(product.shape(product.M, product.N)),
                     piece = std::min(elements, comparedElements / comparedPieces),
                     pieces = std::min((elements + piece - 1) / piece, comparedPieces);
  if (Result<void> filled = device.fill(buffers[2], 0xff, static_cast<std::size_t>(elements * width)); !filled)
    return filled.error();
  if (Result<void> ran = contender.kernel.launch(nullptr, buffers, contender.workspace); !ran)
    return ran.error();
  if (Result<void> done = device.synchronize(nullptr); !done)
    return done.error();
  std::vector<reference::Number> numbers;
  std::vector<std::byte> bytes(static_cast<std::size_t>(piece * width));
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::byte *from =
        static_cast<const std::byte *>(buffers[2]) + beginningOf(i, pieces, piece, elements) * width;
    if (Result<void> read = device.download(bytes.data(), from, bytes.size()); !read)
      return read.error();
    numbers.resize(numbers.size() + static_cast<std::size_t>(piece));
    reference::readNumbers(result, bytes.data(), 0, 1, piece, numbers.data() + numbers.size() - piece);
  }
  return numbers;
}

Result<double> GemmComparison::time(const Contender &contender, const Operands &operands, int calls, int repetitions,
                                    Order order) {
  RotatingCalls many(contender.kernel, operands, calls, order);
  const double warmUp = isWarm ? warmupMs : hasRun ? productWarmupMs : firstWarmupMs;
  hasRun = isWarm = true;
  Result<std::vector<double>> samples =
      device.measure(many, {}, contender.workspace, {.repetitions = repetitions, .warmupMs = warmUp, .cold = false});
  if (!samples)
    return samples.error();
  return median(*samples) / calls;
}

Result<GemmRow> GemmComparison::measure(const Product &product, const Contender &ours,
                                        const std::vector<Contender> &peers, const Operands &operands) {
  GemmRow row{};
  row.product = product;
  row.bytes = static_cast<double>(operands.bytes);
  row.rotation = operands.rotation;
  isWarm = false;
  Result<double> once = time(ours, operands, operands.sets(), 1);
  if (!once)
    return once.error();
  int turns = static_cast<int>(std::ceil(callsUs / (*once * operands.sets())));
  int calls = std::min(turns * operands.sets(), std::max(operands.sets(), 256));

  const Contender *best = nullptr;
  PeerTimes peer{};
  peer.algorithms = peers.size();
  for (const Contender &candidate : peers) {
    Result<double> us = time(candidate, operands, calls, 3);
    if (!us)
      return us.error();
    if (!best)
      peer.firstUs = *us;
    if (!best || *us < peer.us)
      peer.us = *us, best = &candidate;
  }
  std::vector<double> mine, theirs, ratios;
  for (int round = 0; round < rounds; ++round) {
    std::array<double, 2> us{};
    for (std::size_t turn : {0, 1}) {
      std::size_t which = (static_cast<std::size_t>(round) + turn) % 2;
      const Contender *contender = which == 0 ? &ours : best;
      if (!contender)
        continue;
      Result<double> timed = time(*contender, operands, calls, 1);
      if (!timed)
        return timed.error();
      us[which] = *timed;
    }
    mine.push_back(us[0]);
    if (best)
      theirs.push_back(us[1]), ratios.push_back(us[1] / us[0]);
  }
  Result<double> overlapped = time(ours, operands, calls, rounds, Order::Overlapped);
  if (!overlapped)
    return overlapped.error();
  row.overlappedUs = *overlapped;
  row.kfuseUs = median(mine);
  if (best) {
    peer.us = median(theirs);
    peer.ratio = median(ratios), peer.low = percentile(ratios, 0.1), peer.high = percentile(ratios, 0.9);
    row.peer = peer;
  }
  return row;
}

} // namespace kfuse::tools
