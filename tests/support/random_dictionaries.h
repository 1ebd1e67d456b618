#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hooked/dictionaries/dictionary.h"
#include "hooked/weights/processing.h"
#include "tests/support/test.h"

namespace hooked {

/// Kinds of random transcoders. For designated initialisers.
struct DictionaryKind {
  bool skips = false, jumps = false, crosses = false;
  std::string site = "mlp.hook_in";
  std::int64_t features = 20;
  bool negative = false;  ///< codes too: of JumpReLU with thresholds below 0, not rectified

  std::string text() const {
    return fmt::format("skips {} jumps {} crosses {} {} ", skips, jumps, crosses, site);
  }
};

/// Random weights for that config; a cross-layer decoder writes to `targets` layers.
inline Dictionary random_dictionary(const DictionaryConfig& c, std::uint64_t seed, std::int64_t targets = 1) {
  const auto numbers = [&](std::vector<std::int64_t> sizes, std::uint64_t more) {
    return at::randn(sizes, at::detail::createCPUGenerator(seed + more), at::kDouble).mul(0.4).to(c.dtype);
  };
  DictionaryWeights w{};
  w.W_enc = numbers({c.d_in, c.features}, 1);
  w.b_enc = numbers({c.features}, 2);
  w.W_dec = c.crosses_layers ? numbers({c.features, targets, c.d_out}, 3) : numbers({c.features, c.d_out}, 3);
  w.b_dec = numbers({c.d_out}, 4);
  if (c.activation == CodeActivation::jump_relu) w.threshold = numbers({c.features}, 5).abs();
  if (c.skips) w.W_skip = numbers({c.d_out, c.d_in}, 6);
  return {c, w};
}

/// A sparse autoencoder of an activation.
inline Dictionary random_autoencoder(const std::string& place, std::int64_t width,
                                     at::ScalarType dtype = at::kFloat, std::uint64_t seed = 100) {
  DictionaryConfig c;
  c.d_in = c.d_out = width;
  c.features = 20;
  c.dtype = dtype;
  c.subtracts_decoder_bias = true;
  c.input = c.output = place;
  return random_dictionary(c, seed);
}

/// The dictionary as one that was fitted to the activations of a model of that config.
inline Dictionary fitted_to(const Dictionary& dictionary, const ModelConfig& model) {
  const auto has = [&](ProcessingStep step) {
    return std::ranges::count(model.processing, processing_step_name(step)) > 0;
  };
  DictionaryConfig config = dictionary.config();
  config.basis = {.folded_norms = has(ProcessingStep::fold_ln),
                  .centred_writes = has(ProcessingStep::center_writing_weights),
                  .centred_unembedding = has(ProcessingStep::center_unembed),
                  .folded_value_biases = has(ProcessingStep::fold_value_biases)};
  return {config, dictionary.weights()};
}

/// A transcoder for each MLP of a model.
inline std::vector<Dictionary> random_transcoders(const ModelConfig& model, const DictionaryKind& kind) {
  std::vector<Dictionary> all;
  for (std::int64_t layer = 0; layer < model.n_layers; ++layer) {
    DictionaryConfig c;
    c.d_in = c.d_out = model.d_model;
    c.features = kind.features;
    c.dtype = model.dtype;
    c.transcodes = true;
    c.skips = kind.skips;
    c.crosses_layers = kind.crosses;
    c.layer = layer;
    c.input = fmt::format("blocks.{}.{}", layer, kind.site);
    c.output = fmt::format("blocks.{}.hook_mlp_out", layer);
    if (kind.jumps) c.activation = CodeActivation::jump_relu;
    c.rectified = !kind.negative;
    all.push_back(random_dictionary(c, 100 + 10 * static_cast<std::uint64_t>(layer), model.n_layers - layer));
    if (!kind.negative) continue;
    DictionaryWeights w = all.back().weights();
    w.threshold = -w.threshold;
    all.back() = Dictionary(c, w);
  }
  return all;
}

}  // namespace hooked
