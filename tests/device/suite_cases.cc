#include "tests/device/suite_cases.h"

#include <array>
#include <cstdlib>

namespace hooked::device_tests {
namespace {

// The mechanism that each of them covers.
constexpr std::array kOfTheSuite = {
    "gpt2",                    // learned positions, LayerNorm, biases
    "gpt2_all_points",         // every point of it
    "gpt2_left_padding",       // a golden run with padding
    "bloom",                   // ALiBi, embedding norm
    "llama",                   // rotary, RMSNorm, gated, shared keys
    "llama_dynamic",           // angles by the length of a row
    "llama_longrope",          // angles by the length of a row, keys that turn again
    "gptj",                    // adjacent pairs, some dimensions, parallel with one norm
    "gpt_neox",                // parallel with two norms
    "mistral",                 // windows
    "gemma2",                  // windows in some layers, soft caps, output norms, scaled embedding
    "gemma3_text",             // two kinds of frequencies, head norms
    "qwen3",                   // norms of queries and keys
    "olmo2",                   // norms of whole projections
    "falcon",                  // one key for all heads
    "mixtral",                 // a mixture
    "phimoe",                  // a sparse mixer
    "deepseek_v3",             // latent attention, shared experts, groups
    "gpt_oss",                 // sinks, biased experts
    "qwen2_moe",               // a gated shared expert
    "llama4_text_dense",       // chunks, weighted inputs of experts, norms in some layers
    "bert",                    // both directions, token types, norms after, a masked-LM head
    "t5",                      // an encoder and a decoder, relative positions
    "t5_encoder",              // an encoder alone
    "xglm",                    // sinusoids
    "opt_post_norm",           // norms after the additions, projected embedding
    "apertus",                 // xIELU
    "tl_shortformer_mlp",      // positions for queries and keys only
    "tl_attn_only",            // no MLP
    "tl_solu_ln",              // SoLU, normed neurons
    "tl_bidirectional_alibi",  // ALiBi in both directions
    "tl_left_padding_window",  // windows together with padding
    "tl_score_cap_alibi",      // capped scores with biases
    "tl_rotary_yarn_partial",  // a stream narrower than its heads: results by head are made within the run
    "gemma4_text",             // heads of two sizes, normed values, a number that multiplies the stream
    "gemma4_text_e2b",         // keys that layers share, inputs of single blocks
    "gemma4_text_experts",     // experts and a shared expert with norms of their own
    "lfm2",                    // short convolutions
    "qwen3_next",              // gated delta nets, gated heads, mixtures
    "olmo_hybrid",             // norms by layer, a doubled beta
    "umt5",                    // relative positions in every block of two stacks
};

}  // namespace

bool all_checkpoints() { return std::getenv("HOOKED_ALL_CHECKPOINTS") != nullptr; }

std::vector<GoldenCase> suite_cases() {
  if (all_checkpoints()) return golden_cases();
  std::vector<GoldenCase> some;
  for (const char* name : kOfTheSuite) some.push_back(golden_case(name));
  return some;
}

}  // namespace hooked::device_tests
