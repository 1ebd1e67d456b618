#include "families/unsupported.h"

#include <algorithm>

namespace hooked {
namespace {

// Gemma 3n (Google 2025).
constexpr std::string_view kGemma3n =
    "several streams that predict one another (altup_num_inputs), a low-rank path parallel to attention "
    "(laurel_rank), inputs of their own for each layer (hidden_size_per_layer_input), layers that read the "
    "keys and values of others (num_kv_shared_layers) and MLPs that keep their largest neurons only "
    "(activation_sparsity_pattern)";

constexpr std::string_view kStateSpace =
    "layers of a state-space model (Mamba) instead of attention or parallel to it";

constexpr UnsupportedKind kKinds[] = {
    {"albert", "blocks that share one block's weights, and an embedding narrower than the stream"},
    {"bamba", kStateSpace},
    {"falcon_h1", kStateSpace},
    {"falcon_mamba", kStateSpace},
    {"gemma3n", kGemma3n},
    {"gemma3n_text", kGemma3n},
    {"jamba", kStateSpace},
    {"mamba", kStateSpace},
    {"mamba2", kStateSpace},
    {"nemotron_h", kStateSpace},
    {"zamba2", kStateSpace},
};

}  // namespace

std::span<const UnsupportedKind> unsupported_kinds() { return kKinds; }

std::optional<std::string_view> lacking_for(std::string_view model_type) {
  const auto* const found = std::ranges::find(kKinds, model_type, &UnsupportedKind::model_type);
  return found == std::end(kKinds) ? std::nullopt : std::optional(found->lacking);
}

}  // namespace hooked
