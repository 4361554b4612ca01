// kfuse bench gemm: tuned products, plain and batched, beside cuBLASLt, every algorithm it offers tried.
#include "Commands.h"
#include "CublasLt.h"
#include "ModelOptions.h"
#include "Table.h"
#include "Terminal.h"
#include "ir/reference/Policy.h"
#include "ir/reference/Tensor.h"
#include "kfuse/graph.h"
#include "tuner/api/Handles.h"
#include "tuner/model/PlannedModel.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <unistd.h>

namespace kfuse::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double rotatedBytes = 200e6; ///< Four times the L2 of an H200: no call finds its operands there.
constexpr int mostSets = 128;
constexpr double callsUs = 400; ///< Of calls in one graph.
/// Of a result, all over it: a piece in every 32 rows of 32768.
constexpr std::int64_t comparedElements = 4 << 20, comparedPieces = 1024;
constexpr int rounds = 9; ///< Pairs of measurements, their order alternating.

struct Product : Products {
  double flops() const {
    return 2.0 * static_cast<double>(batches * M) * static_cast<double>(N) * static_cast<double>(K);
  }
  std::string str() const {
    return (batches > 1 ? fmt::format("{}x", batches) : "") + fmt::format("{}x{}x{}", M, N, K);
  }
  /// [rows, columns], of each batch where there are several.
  Shape shape(std::int64_t rows, std::int64_t columns) const {
    return batches > 1 ? Shape{batches, rows, columns} : Shape{rows, columns};
  }
};

/// One line of the result.
struct Row {
  Product product;
  double kfuseUs, peerUs, peerFirstUs;
  double ratio, low, high; ///< Peer's time over ours: median, 10th and 90th percentile of the pairs.
  double overlappedUs;     ///< Ours, each call free to start before the one ahead ends (dependent launch).
  double bytes, boundUs;
  std::size_t algorithms;
  tuner::KernelReport report;
};

/// A product that could not be measured.
struct Missing {
  Product product;
  Error error;
};

struct GemmOptions : ModelOptions {
  std::vector<std::string> products; ///< "MxNxK" or "BxMxNxK".
  std::vector<std::int64_t> rows;
  std::string type = "bf16";
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}
double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

/// Operands and results at enough addresses that none is in the L2 when its turn comes.
class Operands {
public:
  static Result<Operands> make(runtime::Device &device, DType type, DType result, const Product &product) {
    Operands operands;
    const std::array<Shape, 3> shapes{product.shape(product.M, product.K), product.shape(product.N, product.K),
                                      product.shape(product.M, product.N)};
    const std::array<DType, 3> types{type, type, result};
    auto bytesOf = [&](std::size_t i) {
      return byteWidth(types[i]) * static_cast<std::size_t>(elementCount(shapes[i]));
    };
    operands.bytes = bytesOf(0) + bytesOf(1) + bytesOf(2);
    auto sets = std::clamp(static_cast<int>(rotatedBytes / static_cast<double>(operands.bytes)) + 1, 1, mostSets);
    for (int set = 0; set < sets; ++set)
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

  int sets() const { return static_cast<int>(pointers.size() / 3); }
  std::span<void *const> set(int i) const { return {pointers.data() + 3 * static_cast<std::size_t>(i), 3}; }
  std::size_t bytes = 0; ///< Of one set.

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

/// A kernel and the scratch memory it is called with.
struct Contender {
  runtime::LoadedKernel &kernel;
  void *workspace;
};

/// How a call follows the one before.
enum class Order : std::uint8_t {
  Serial,    ///< Stream order: it starts when the one before has ended.
  Overlapped ///< It may start earlier and waits by itself.
};

/// Calls of a kernel one after the other, each on the next set of operands.
class RotatingCalls : public runtime::LoadedKernel {
public:
  RotatingCalls(runtime::LoadedKernel &kernel, const Operands &operands, int calls, Order order)
      : kernel(kernel), operands(operands), calls(calls), order(order) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const>, void *workspace) override {
    for (int i = 0; i < calls; ++i) {
      std::span<void *const> set = operands.set(i % operands.sets());
      bool isBehind = i > 0 && order == Order::Overlapped;
      Result<void> launched =
          isBehind ? kernel.launchBehind(stream, set, workspace) : kernel.launch(stream, set, workspace);
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

class GemmBench {
public:
  GemmBench(tuner::Workbench &bench, runtime::Device &device, const GemmOptions &options)
      : bench(bench), device(device), options(options),
        type(options.type == "tf32" ? DType::F32 : *parseDType(options.type)),
        result(isFloat8(type) ? DType::BF16 : type), tf32(options.type == "tf32") {}

  Result<Row> run(const Product &product) {
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
    Result<Operands> operands = Operands::make(device, type, result, product);
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
    const Contender mine{**ours, (*workspace)->data()};
    std::vector<Contender> theirs;
    for (const std::unique_ptr<runtime::LoadedKernel> &peer : *peers)
      theirs.push_back({*peer, (*peersWorkspace)->data()});
    if (Result<void> agreed = compare(product, mine, theirs.front(), *operands); !agreed)
      return agreed.error();
    Result<Row> row = measure(product, mine, theirs, *operands);
    if (row)
      row->report = compiled->report.kernels.front();
    if (row)
      row->boundUs = row->report.bound.boundUs;
    return row;
  }

private:
  Result<tuner::CompiledModel> tune(const Product &product) {
    GraphBuilder graph;
    Tensor x = graph.input("x", type, product.shape(product.M, product.K)),
           w = graph.parameter("w", type, product.shape(product.N, product.K));
    Tensor y = graph.matmul(x, w, {.a = false, .b = true},
                            tf32 ? GraphBuilder::Precision::TF32 : GraphBuilder::Precision::F32);
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
    return tuner::compileModel(*planned, bench.workshop(options.tuning()));
  }

  /// Both compute the same product: their results, rounded once each, differ by less than the format's
  /// tolerance (docs/architecture.md).
  Result<void> compare(const Product &product, const Contender &ours, const Contender &peer, const Operands &operands) {
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

  /// Where piece `i` of `pieces` begins: in each stride a golden section of the room there further on, so that pieces
  /// of neighbouring rows lie in other columns, and the last one at the end of the result.
  static std::int64_t beginningOf(std::int64_t i, std::int64_t pieces, std::int64_t piece, std::int64_t elements) {
    if (pieces == 1)
      return 0;
    constexpr std::int64_t section = 632; // Of comparedPieces - 1, with no factor in common.
    const std::int64_t strides = pieces - 1, room = std::max<std::int64_t>((elements - piece) / strides - piece, 0);
    return (elements - piece) * i / strides + (i < strides ? room * (i * section % strides) / strides : 0);
  }

  /// Pieces of what a contender computes: all of a result of gigabytes would take seconds to bring here.
  Result<std::vector<reference::Number>> sampled(const Product &product, const Contender &contender,
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

  Result<double> time(const Contender &contender, const Operands &operands, int calls, int repetitions,
                      Order order = Order::Serial) {
    RotatingCalls many(contender.kernel, operands, calls, order);
    Result<std::vector<double>> samples =
        device.measure(many, {}, contender.workspace, {.repetitions = repetitions, .warmupMs = 2, .cold = false});
    if (!samples)
      return samples.error();
    return median(*samples) / calls;
  }

  Result<Row> measure(const Product &product, const Contender &ours, const std::vector<Contender> &peers,
                      const Operands &operands) {
    Row row{};
    row.product = product;
    row.algorithms = peers.size();
    row.bytes = static_cast<double>(operands.bytes);
    Result<double> once = time(ours, operands, operands.sets(), 1);
    if (!once)
      return once.error();
    int turns = static_cast<int>(std::ceil(callsUs / (*once * operands.sets())));
    int calls = std::min(turns * operands.sets(), std::max(operands.sets(), 256));

    std::size_t best = 0;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      Result<double> us = time(peers[i], operands, calls, 3);
      if (!us)
        return us.error();
      if (i == 0)
        row.peerFirstUs = *us;
      if (i == 0 || *us < row.peerUs)
        row.peerUs = *us, best = i;
    }
    std::vector<double> mine, theirs, ratios;
    for (int round = 0; round < rounds; ++round) {
      std::array<double, 2> us{};
      for (std::size_t turn : {0, 1}) {
        std::size_t which = (static_cast<std::size_t>(round) + turn) % 2;
        Result<double> timed = time(which == 0 ? ours : peers[best], operands, calls, 1);
        if (!timed)
          return timed.error();
        us[which] = *timed;
      }
      mine.push_back(us[0]), theirs.push_back(us[1]), ratios.push_back(us[1] / us[0]);
    }
    Result<double> overlapped = time(ours, operands, calls, rounds, Order::Overlapped);
    if (!overlapped)
      return overlapped.error();
    row.overlappedUs = *overlapped;
    row.kfuseUs = median(mine), row.peerUs = median(theirs);
    row.ratio = median(ratios), row.low = percentile(ratios, 0.1), row.high = percentile(ratios, 0.9);
    return row;
  }

  tuner::Workbench &bench;
  runtime::Device &device; ///< In this process, as cuBLASLt is.
  const GemmOptions &options;
  DType type, result; ///< Of the operands and of what is stored.
  bool tf32;
};

/// The layers of transformers that kfuse is judged on, N x K.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 8> layers{{{1024, 1024},
                                                                       {4096, 4096},
                                                                       {6144, 4096},
                                                                       {28672, 4096},
                                                                       {4096, 14336},
                                                                       {8192, 8192},
                                                                       {28672, 8192},
                                                                       {8192, 28672}}};
constexpr std::array<std::int64_t, 12> allRows{1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768};
/// The batches of squares that it is judged on.
constexpr std::array<Product, 4> squareBatches{
    {{{16, 1024, 1024, 1024}}, {{64, 1024, 1024, 1024}}, {{16, 2560, 2560, 2560}}, {{16, 4096, 4096, 4096}}}};

/// What a geometric mean is taken over.
struct Group {
  const char *name;
  bool (*holds)(const Product &);
};
double weightBytes(const Product &product) { return 2.0 * static_cast<double>(product.N * product.K); }
/// The rows of a product that is alone; 0 in a batch.
std::int64_t rowsAlone(const Product &product) { return product.batches > 1 ? 0 : product.M; }
constexpr std::array<Group, 6> groups{{
    {"M >= 2048", [](const Product &p) { return rowsAlone(p) >= 2048; }},
    {"128 <= M <= 1024", [](const Product &p) { return rowsAlone(p) >= 128 && rowsAlone(p) <= 1024; }},
    {"M = 1", [](const Product &p) { return rowsAlone(p) == 1; }},
    {"1 < M <= 64, weights up to 60 MB",
     [](const Product &p) { return rowsAlone(p) > 1 && rowsAlone(p) <= 64 && weightBytes(p) <= 60e6; }},
    {"1 < M <= 64, larger weights",
     [](const Product &p) { return rowsAlone(p) > 1 && rowsAlone(p) <= 64 && weightBytes(p) > 60e6; }},
    {"batches", [](const Product &p) { return p.batches > 1; }},
}};

/// The geometric mean of the ratios of a group's rows, and their number.
std::pair<double, int> geometricMean(const std::vector<Row> &rows, const Group &group) {
  double logs = 0;
  int count = 0;
  for (const Row &row : rows)
    if (group.holds(row.product))
      logs += std::log(row.ratio), ++count;
  return {count > 0 ? std::exp(logs / count) : 0, count};
}

std::string table(const std::vector<Row> &rows) {
  Table table({"[B x] M x N x K", ">kfuse", ">overlapped", ">cuBLASLt", ">its first", ">ratio", ">p10..p90", ">TFLOP/s",
               ">TB/s", ">roof", "way"});
  for (const Row &row : rows)
    table.add({row.product.str(), formatTime(row.kfuseUs), formatTime(row.overlappedUs), formatTime(row.peerUs),
               formatTime(row.peerFirstUs), fmt::format("{:.3f}", row.ratio),
               fmt::format("{:.2f}..{:.2f}", row.low, row.high),
               fmt::format("{:.0f}", row.product.flops() / row.kfuseUs / 1e6),
               fmt::format("{:.2f}", row.bytes / row.kfuseUs / 1e6),
               fmt::format("{:.0f}%", row.report.bound.percent(row.kfuseUs)), row.report.config});
  std::string text = table.str();
  for (const Group &group : groups)
    if (auto [mean, count] = geometricMean(rows, group); count > 0)
      text += fmt::format("{}: cuBLASLt's time over kfuse's {:.3f}, geometric mean of {}\n", group.name, mean, count);
  return text;
}

std::string json(const tuner::Workbench &bench, const GemmOptions &options, const std::vector<Row> &rows,
                 const std::vector<Missing> &missing) {
  Json all{{"device", bench.device->sku()}, {"driver", bench.device->driver()}, {"type", options.type}};
  for (const char *list : {"products", "not_measured", "geometric_means"})
    all[list] = Json::array();
  for (const Row &row : rows)
    all["products"].push_back({{"batches", row.product.batches},
                               {"m", row.product.M},
                               {"n", row.product.N},
                               {"k", row.product.K},
                               {"kfuse_us", row.kfuseUs},
                               {"kfuse_overlapped_us", row.overlappedUs},
                               {"cublaslt_us", row.peerUs},
                               {"cublaslt_first_us", row.peerFirstUs},
                               {"cublaslt_algorithms", row.algorithms},
                               {"ratio", row.ratio},
                               {"ratio_p10", row.low},
                               {"ratio_p90", row.high},
                               {"tflops", row.product.flops() / row.kfuseUs / 1e6},
                               {"tbps", row.bytes / row.kfuseUs / 1e6},
                               {"bound_us", row.boundUs},
                               {"roofline_percent", row.report.bound.percent(row.kfuseUs)},
                               {"config", row.report.config},
                               {"candidates", row.report.candidates}});
  for (const auto &[product, error] : missing)
    all["not_measured"].push_back(
        {{"batches", product.batches}, {"m", product.M}, {"n", product.N}, {"k", product.K}, {"error", error.message}});
  for (const Group &group : groups)
    if (auto [mean, count] = geometricMean(rows, group); count > 0)
      all["geometric_means"].push_back({{"group", group.name}, {"ratio", mean}, {"products", count}});
  return all.dump(2) + "\n";
}

/// "MxNxK", or "BxMxNxK" for B of them.
std::optional<Product> parseProduct(const std::string &text) {
  std::array<std::int64_t, 4> sizes{};
  int used = 0, count = std::sscanf(text.c_str(), "%ldx%ldx%ldx%ld", &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
  std::sscanf(text.c_str(), count == 4 ? "%*ldx%*ldx%*ldx%*ld%n" : "%*ldx%*ldx%*ld%n", &used);
  if (count == 3)
    sizes = {1, sizes[0], sizes[1], sizes[2]};
  const bool arePositive = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 0; });
  if (count < 3 || used != static_cast<int>(text.size()) || !arePositive)
    return std::nullopt;
  return Product{{sizes[0], sizes[1], sizes[2], sizes[3]}};
}

Result<std::vector<Product>> products(const GemmOptions &options) {
  std::vector<Product> all;
  for (const std::string &text : options.products) {
    std::optional<Product> product = parseProduct(text);
    if (!product)
      return Error{ErrorCode::Usage, "--shapes " + text + " is not of the form MxNxK or BxMxNxK with positive sizes"};
    all.push_back(*product);
  }
  if (!all.empty())
    return all;
  for (auto [N, K] : layers)
    for (std::int64_t M :
         options.rows.empty() ? std::vector<std::int64_t>(allRows.begin(), allRows.end()) : options.rows)
      all.push_back({{1, M, N, K}});
  if (options.rows.empty())
    all.insert(all.end(), squareBatches.begin(), squareBatches.end());
  return all;
}

/// Whether no other product can be measured after `error`, either.
bool endsAll(runtime::Device &device, const Error &error) {
  return error.code == ErrorCode::NoDevice || error.code == ErrorCode::Crash || !device.synchronize(nullptr);
}

/// A wrong result, if there is one, else the first thing that went wrong.
int statusOf(const std::vector<Missing> &missing) {
  if (missing.empty())
    return 0;
  const auto wrong = std::find_if(missing.begin(), missing.end(),
                                  [](const Missing &one) { return one.error.code == ErrorCode::WrongResult; });
  return static_cast<int>((wrong != missing.end() ? *wrong : missing.front()).error.code);
}

int benchGemm(const GemmOptions &options) {
  Result<std::vector<Product>> wanted = products(options);
  if (!wanted)
    return fail(wanted.error());
  Result<tuner::Workbench> bench = tuner::openWorkbench(options.workbench());
  if (!bench)
    return fail(bench.error());
  if (!bench->device || bench->target->isCpu())
    return fail({ErrorCode::NoDevice, "bench gemm needs a CUDA device, found none; see kfuse targets"});
  Result<std::unique_ptr<runtime::Device>> device = bench->openHere();
  if (!device)
    return fail(device.error());
  GemmBench gemm(*bench, **device, options);
  std::vector<Row> rows;
  std::vector<Missing> missing; // One product that a small GPU has no room for does not cost the others.
  for (const Product &product : *wanted) {
    if (!options.json && isTerminal(STDERR_FILENO))
      fmt::print(stderr, "\r\033[K[{}/{}] {}", rows.size() + missing.size() + 1, wanted->size(), product.str());
    Result<Row> row = gemm.run(product);
    if (row) {
      rows.push_back(std::move(*row));
      continue;
    }
    missing.push_back({product, row.error()});
    if (endsAll(**device, row.error()))
      break;
  }
  if (!options.json && isTerminal(STDERR_FILENO))
    fmt::print(stderr, "\r\033[K");
  fmt::print("{}", options.json ? json(*bench, options, rows, missing) : table(rows));
  for (const auto &[product, error] : missing)
    warn(fmt::format("{} was not measured: {}", product.str(), error.message));
  return statusOf(missing);
}

} // namespace

void addBenchGemm(CLI::App &bench, int &status) {
  CLI::App *gemm = bench.add_subcommand("gemm", "Matrix products x[M,K] w[N,K]^T beside cuBLASLt's best algorithm");
  auto options = std::make_shared<GemmOptions>();
  gemm->add_option("--shapes", options->products,
                   "Products: 4096x4096x4096 ..., batches of them: 16x1024x1024x1024;\nelse eight layers of "
                   "transformers and four batches");
  gemm->add_option("--rows", options->rows, "M of those layers; else 1 to 32768");
  gemm->add_option("--type", options->type, "Of the operands; products of 8-bit floats are stored as bf16")
      ->check(CLI::IsMember({"bf16", "f16", "tf32", "f32", "f8E4M3FN", "f8E5M2"}))
      ->capture_default_str();
  gemm->add_flag("--json", options->json, "One JSON object on stdout and nothing else there");
  options->addTuningTo(*gemm);
  gemm->footer(
      "Both run in turns, each call after the one before, on random operands that rotate past the L2;\n"
      "the ratio is cuBLASLt's time over kfuse's, the median of nine pairs. Of a batch the peer is the better of\n"
      "one strided call and a call a product. Overlapped: kfuse's, when\n"
      "a call may start before the one ahead has ended, as in a model.\n"
      "Examples:\n  kfuse bench gemm --shapes 4096x4096x4096 8192x8192x8192\n"
      "  kfuse bench gemm --rows 1 16 --json");
  gemm->callback([options, &status] { status = benchGemm(*options); });
}

} // namespace kfuse::tools
