// Whether a search's first eight candidates hold what exhaustive searches on an H200 found.
#include "codegen/cuda/Templates.h"
#include "tests/cuda/TemplateCases.h"
#include "tuner/model/RegionConfigs.h"
#include "tuner/search/Candidates.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

using namespace kfuse;
using namespace kfuse::test;

namespace {

struct Product {
  std::int64_t M, N, K;
};

/// x[M,K] w[N,K]^T in bf16.
TemplateCase productOf(const Product &product) {
  auto tensor = [](std::int64_t rows, std::int64_t columns) {
    return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xbf16>";
  };
  const std::string x = tensor(product.M, product.K), w = tensor(product.N, product.K),
                    y = tensor(product.M, product.N);
  return {"product", "func.func @f(%x: " + x + ", %w: " + w + ") -> " + y +
                         " { %0 = kfuse.matmul %x, %w {transpose_b} : (" + x + ", " + w + ") -> " + y +
                         " return %0 : " + y + " }"};
}

/// The kinds of the candidates that a quick search tries.
std::set<codegen::TileConfig> firstKinds(const codegen::Region &region) {
  constexpr std::size_t tried = 8;
  const ir::Target &target = *ir::findTarget("sm_90a");
  const codegen::KernelTemplate &products = codegen::cuda::matmulTemplate();
  tuner::TuningTask task;
  task.space = std::make_shared<tuner::RegionConfigs>(region, products, target);
  tuner::CandidateQueue queue(task, target, tuner::nominalPeaks(target), "compiler", "sku");
  std::set<codegen::TileConfig> kinds;
  for (std::size_t i = 0; i < tried; ++i)
    if (std::optional<tuner::Candidate> next = queue.next())
      kinds.insert(products.kind(next->config));
  return kinds;
}

} // namespace

TEST_CASE("CUDA templates: the best kind measured on an H200 is among the first eight of products") {
  struct Known {
    Product product;
    const char *best;
  };
  const Known known[] = {
      {{1, 4608, 3584}, "outputs=4,split=4,unroll=1,warps=4,variant=3"},
      {{1, 3584, 18944}, "outputs=4,split=4,unroll=2,warps=4,variant=3"},
      {{8, 10240, 8192}, "panels=1,split=8,unroll=1,variant=5"},
      {{16, 5120, 5120}, "panels=1,split=4,unroll=2,variant=5"},
      {{64, 12288, 4096},
       "blocks_k=1,cluster_m=1,cluster_n=2,groups_k=1,k=64,m=64,n=96,swizzle=1,split_k=1,stages=11,swap=0,variant=2"},
      {{128, 18944, 3584},
       "cluster_m=1,cluster_n=1,k=64,m=128,n=160,pingpong=0,swizzle=1,swizzle_n=0,split_k=1,stages=5,variant=1"},
      {{160, 3072, 8192},
       "blocks_k=2,cluster_m=2,cluster_n=1,groups_k=1,k=64,m=80,n=128,swizzle=1,split_k=1,stages=8,swap=1,variant=2"},
      {{256, 4096, 4096},
       "cluster_m=1,cluster_n=1,k=64,m=64,n=128,pingpong=1,swizzle=1,swizzle_n=1,split_k=1,stages=8,variant=1"},
      {{256, 5120, 5120},
       "blocks_k=1,cluster_m=1,cluster_n=1,groups_k=1,k=64,m=88,n=128,swizzle=1,split_k=1,stages=8,swap=1,variant=2"},
      {{320, 8192, 3072},
       "blocks_k=1,cluster_m=1,cluster_n=2,groups_k=1,k=64,m=160,n=128,swizzle=1,split_k=1,stages=6,swap=1,variant=2"},
      {{1536, 5120, 5120},
       "cluster_m=1,cluster_n=1,k=64,m=128,n=160,pingpong=1,swizzle=4,swizzle_n=1,split_k=1,stages=5,variant=1"}};
  for (const auto &[product, best] : known) {
    INFO(product.M, " x ", product.N, " x ", product.K);
    const codegen::TileConfig kind = codegen::cuda::matmulTemplate().kind(*codegen::TileConfig::parse(best));
    RegionCase given(productOf(product));
    given.region.isFixed[1] = true;
    CHECK(firstKinds(given.region).count(kind) == 1);
  }
}
