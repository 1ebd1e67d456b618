#include "families/unsupported.h"

#include <algorithm>

namespace hooked {
namespace {

// Gemma 4 (Google 2026). Every size has the first three; the others are those of E2B and E4B, and of 26B-A4B.
constexpr std::string_view kGemma4 =
    "heads of another width in layers without a window (global_head_dim, per_layer_config), norms of values, "
    "numbers that multiply the stream behind each block (layer_scalar), inputs of their own for each layer "
    "(hidden_size_per_layer_input), layers that read the keys and values of others (num_kv_shared_layers) "
    "and mixtures beside MLPs (enable_moe_block)";
constexpr std::string_view kGemma4Unified =
    "heads of another width in layers without a window (global_head_dim, per_layer_config), norms of values, "
    "numbers that multiply the stream behind each block (layer_scalar) and layers that read the keys and "
    "values of others (num_kv_shared_layers)";

// Gemma 3n (Google 2025).
constexpr std::string_view kGemma3n =
    "several streams that predict one another (altup_num_inputs), a low-rank path beside attention "
    "(laurel_rank), inputs of their own for each layer (hidden_size_per_layer_input), layers that read the "
    "keys and values of others (num_kv_shared_layers) and MLPs that keep their largest neurons only "
    "(activation_sparsity_pattern)";

// Llama 4 (Meta 2025).
constexpr std::string_view kLlama4 =
    "attention in chunks (attention_chunk_size), experts whose inputs are multiplied by their weights, and "
    "norms of "
    "queries and keys without weights in rotated layers only (use_qk_norm)";

constexpr std::string_view kStateSpace =
    "layers of a state-space model (Mamba) in attention's place or beside it";

constexpr UnsupportedKind kKinds[] = {
    {"albert", "blocks that share one block's weights, and an embedding narrower than the stream"},
    {"falcon_h1", kStateSpace},
    {"falcon_mamba", kStateSpace},
    {"gemma3n", kGemma3n},
    {"gemma3n_text", kGemma3n},
    {"gemma4", kGemma4},
    {"gemma4_text", kGemma4},
    {"gemma4_unified", kGemma4Unified},
    {"gemma4_unified_text", kGemma4Unified},
    {"jamba", kStateSpace},
    {"llama4", kLlama4},
    {"llama4_text", kLlama4},
    {"mamba", kStateSpace},
    {"mamba2", kStateSpace},
    {"olmo_hybrid",
     "norms that stand elsewhere in layers with a gated delta net than in those with attention"},
    {"umt5", "relative positions of its own for each block"},
    {"zamba2", kStateSpace},
};

}  // namespace

std::span<const UnsupportedKind> unsupported_kinds() { return kKinds; }

std::optional<std::string_view> lacking_for(std::string_view model_type) {
  const auto* const found = std::ranges::find(kKinds, model_type, &UnsupportedKind::model_type);
  return found == std::end(kKinds) ? std::nullopt : std::optional(found->lacking);
}

}  // namespace hooked
