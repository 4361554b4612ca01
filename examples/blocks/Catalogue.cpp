#include "examples/blocks/Catalogue.h"

namespace kfuse::examples {

std::vector<Example> catalogue() {
  using enum DType;
  return {
      // Sizes that models have.
      {"gpt2_block_s128", [] { return gpt2Block(1, 128); }},
      {"llama_block_prefill_s128", [] { return llamaPrefill(1, 128); }},
      {"llama_block_decode_b1_kv1024", [] { return llamaDecode(1, 1024); }},

      // Tiny, in f32.
      {"gpt2_tiny", [] { return gpt2Block(2, 16, 96, 3, F32); }},
      {"llama_tiny_prefill", [] { return llamaPrefill(1, 16, tinyLlama, F32); }},
      {"llama_tiny_decode", [] { return llamaDecode(1, 16, tinyLlama, F32); }},
      {"linear_head_tiny", [] { return linearHead(8, 3, 128, F32); }},
      {"stacked_heads_tiny", [] { return stackedHeads(8, 3, 3, 128, F32); }},
      {"seqlen_head_tiny", [] { return seqLenHead(4, 16, 3, 128, F32); }},
      {"ffn_tiny", [] { return ffn(16, 128, 256, F32); }},
      {"ln_gelu_tiny", [] { return lnGelu(16, 128, F32); }},

      // Odd sizes, in 16 bits.
      {"gpt2_odd_bf16", [] { return gpt2Block(3, 7, 165, 5, BF16); }},
      {"gpt2_odd_f16", [] { return gpt2Block(1, 33, 132, 4, F16); }},
      {"llama_odd_prefill_bf16", [] { return llamaPrefill(3, 13, oddLlama, BF16); }},
      {"llama_odd_prefill_f16", [] { return llamaPrefill(1, 37, oddLlama, F16); }},
      {"llama_odd_decode_bf16", [] { return llamaDecode(3, 37, oddLlama, BF16); }},
      {"llama_odd_decode_f16", [] { return llamaDecode(1, 127, oddLlama, F16); }},
      {"linear_head_odd_bf16", [] { return linearHead(1, 4, 127, BF16); }},
      {"linear_head_odd_f16", [] { return linearHead(127, 2, 333, F16); }},
      {"stacked_heads_odd_bf16", [] { return stackedHeads(7, 5, 2, 191, BF16); }},
      {"seqlen_head_odd_f16", [] { return seqLenHead(3, 9, 3, 101, F16); }},
      {"ffn_odd_bf16", [] { return ffn(127, 33, 1000, BF16); }},
      {"ln_gelu_odd_f16", [] { return lnGelu(7, 261, F16); }},
  };
}

} // namespace kfuse::examples
