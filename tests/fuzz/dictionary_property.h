#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "dictionaries/dictionary_data.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// A file of a golden dictionary, which the fuzzed bytes replace.
struct DictionaryFile {
  std::string_view folder, file;
};
inline constexpr std::array<DictionaryFile, 14> kDictionaryFiles = {{
    {"saelens/topk", "cfg.json"},
    {"saelens/jumprelu_skip_transcoder", "cfg.json"},
    {"saelens/matching_pursuit", "cfg.json"},
    {"saelens/standard", "sae_weights.safetensors"},
    {"published/before_6_scaled", "cfg.json"},
    {"published/learning_topk", "config.json"},
    {"published/learning_gated", "ae.pt"},
    {"published/sparsify/layers.4", "cfg.json"},
    {"published/Llama3_1-8B-Base-L15R-8x", "hyperparams.json"},
    {"published/llamascopium_jumprelu", "config.json"},
    {"published/llamascopium_clt", "config.json"},
    {"published/circuit_tracer_set", "config.yaml"},
    {"published/google/gemma-scope-2b-pt-res/layer_3/width_12/average_l0_4", "params.npz"},
    {"published/google/gemma-scope-2-1b-it/transcoder/layer_7_width_12_affine", "config.json"},
}};

/// Copies of the goldens, one for each of these files.
inline std::filesystem::path folder_for(std::size_t number) {
  namespace fs = std::filesystem;
  static const bool copied = [] {
    for (std::size_t i = 0; i < kDictionaryFiles.size(); ++i) {
      const fs::path folder = scratch() / std::to_string(i) / kDictionaryFiles.at(i).folder;
      fs::create_directories(folder);
      fs::copy(fs::path(HOOKED_SOURCE_DIR "/tests/dictionaries/golden") / kDictionaryFiles.at(i).folder,
               folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    return true;
  }();
  static_cast<void>(copied);
  return scratch() / std::to_string(number) / kDictionaryFiles.at(number).folder;
}

/// What computes the same: all that SAELens's format keeps.
inline void hold_same(const Dictionary& one, const Dictionary& other) {
  const DictionaryConfig& a = one.config();
  const DictionaryConfig& b = other.config();
  hold(architecture_text(a) == architecture_text(b) && a.d_in == b.d_in && a.d_out == b.d_out &&
           a.features == b.features && a.dtype == b.dtype && a.k == b.k &&
           a.decoder_norms == b.decoder_norms && a.subtracts_decoder_bias == b.subtracts_decoder_bias &&
           a.adds_decoder_bias == b.adds_decoder_bias && a.input_norm == b.input_norm &&
           a.residual_threshold == b.residual_threshold && a.max_iterations == b.max_iterations &&
           a.stops_on_repeat == b.stops_on_repeat,
       "another computation");
  hold(a.model_name == b.model_name && a.input == b.input && a.head == b.head && a.basis == b.basis &&
           a.excluded.special == b.excluded.special && a.excluded.ids == b.excluded.ids,
       "another place");
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    const at::Tensor& x = one.weights().*row.tensor;
    const at::Tensor& y = other.weights().*row.tensor;
    hold(x.defined() == y.defined(), "another weight");
    if (!x.defined()) continue;
    const at::Tensor p = x.contiguous(), q = y.contiguous();
    hold(p.sizes() == q.sizes() && std::memcmp(p.const_data_ptr(), q.const_data_ptr(), p.nbytes()) == 0,
         "other numbers");
  }
}

/// What must hold for any bytes in the place of one file of a dictionary, which the first byte chooses: the
/// dictionary is refused with an Error, or what SAELens's format takes of it is the same after it was saved
/// and loaded. Returns whether they were accepted; throws std::logic_error where this does not hold.
inline bool dictionary_property(std::string_view input) {
  const auto [number, bytes] = chosen(input, kDictionaryFiles.size());
  const std::filesystem::path folder = folder_for(number);
  write_bytes(folder / kDictionaryFiles.at(number).file, bytes);
  return accepts([&] {
    const DictionaryDescription described = describe_dictionary(folder.native());
    hold(!described.members.empty(), "no dictionary");
    const Dictionary read = Dictionary::load(folder.native(), {.layer = described.members.front().layer});
    const std::filesystem::path saved = scratch() / "saved";
    std::filesystem::remove_all(saved);
    if (!accepts<ConfigError>([&] { read.save(saved); })) return;
    hold_same(read, Dictionary::load(saved.native()));
  });
}

}  // namespace hooked
