// Folders of SAELens 6.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "dictionaries/config_file.h"
#include "dictionaries/dictionary_data.h"
#include "dictionaries/formats.h"
#include "dictionaries/saelens_words.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/core/version.h"
#include "io/files/replaceable.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

/// The version whose form is written: SAELens reads configs without one, or of a lower major version, as
/// those before 6.
constexpr const char* kFormatVersion = "6.54.12";
constexpr const char* kVersionKey = "sae_lens_version";
constexpr const char* kOursKey = "hooked_version";

bool is_own(const std::filesystem::path& config) {
  try {
    const Json json = read_json_object(config);
    return json.contains("metadata") && json.at("metadata").is_object() &&
           json.at("metadata").contains(kOursKey);
  } catch (const Error&) {
    return false;
  }
}

FolderKind dictionary_folder() {
  return {.holds = "dictionary",
          .config = kSaeLensConfig,
          .names = {kSaeLensConfig, kSaeLensWeights},
          .is_ours = is_own};
}

/// Codes that SAELens never makes negative are the same without that rule only where none passes.
bool passes_no_negatives(const DictionaryConfig& c, const DictionaryWeights& w) {
  return c.rectified || c.activation == CodeActivation::abs_top_k ||
         (c.activation == CodeActivation::jump_relu && w.threshold.ge(0).all().item<bool>());
}

std::string_view architecture_of(const DictionaryConfig& c, const DictionaryWeights& w) {
  const auto refuse = [&](std::string_view what) {
    throw ConfigError("dictionary",
                      fmt::format("SAELens's format has no architecture for it: {}; expected a dictionary "
                                  "of another kind, got a {}",
                                  what, architecture_text(c)));
  };
  if (c.crosses_layers) refuse("its features write to several layers");
  if (c.decoder_norms == DecoderNorms::chosen)
    refuse("features are chosen by code times decoder norm, but codes are not multiplied by it");
  if (!passes_no_negatives(c, w)) refuse("its codes can be negative");
  const auto found = std::ranges::find_if(kSaeLensArchitectures, [&](const SaeLensArchitecture& row) {
    return row.activation == c.activation && row.transcodes == c.transcodes && row.skips == c.skips;
  });
  if (found == kSaeLensArchitectures.end()) refuse("no architecture has these parts together");
  const bool adds = c.activation != CodeActivation::matching_pursuit || c.subtracts_decoder_bias;
  if (c.adds_decoder_bias != adds) refuse("b_dec is added to its reconstruction by another rule");
  return found->name;
}

Json config_of(const DictionaryConfig& c, const DictionaryWeights& w) {
  Json config = {
      {"d_in", c.d_in},
      {"d_sae", c.features},
      {"dtype", dtype_text(c.dtype)},
      {"device", "cpu"},
      {"apply_b_dec_to_input", c.subtracts_decoder_bias},
      {"normalize_activations", std::ranges::find(kSaeLensNorms, c.input_norm, &SaeLensNorm::norm)->name},
      {"reshape_activations", c.flattens_heads ? "hook_z" : "none"}};
  if (c.activation == CodeActivation::top_k || c.activation == CodeActivation::abs_top_k) {
    config["k"] = c.k;
    config["rescale_acts_by_decoder_norm"] = c.decoder_norms == DecoderNorms::scaled;
  }
  if (c.transcodes) config["d_out"] = c.d_out;
  if (c.activation == CodeActivation::matching_pursuit) {
    config["residual_threshold"] = c.residual_threshold;
    config["max_iterations"] = c.max_iterations > 0 ? Json(c.max_iterations) : Json(nullptr);
    config["stop_on_duplicate_support"] = c.stops_on_repeat;
  }
  Json metadata = metadata_of(c);
  const Json stated = metadata.value(kVersionKey, Json());
  if (!stated.is_string() || is_before_version_6(stated.get<std::string>()))
    metadata[kVersionKey] = kFormatVersion;
  if (!metadata.contains("sae_lens_training_version")) metadata["sae_lens_training_version"] = nullptr;
  metadata[kOursKey] = version();
  config["metadata"] = std::move(metadata);
  config["architecture"] = architecture_of(c, w);
  return config;
}

}  // namespace

void Dictionary::save(const std::filesystem::path& folder) const {
  const DictionaryConfig& c = data_->config;
  const Json config = config_of(c, data_->weights);
  ReadFrom from{.folders = {}, .files = data_->read_from};
  for (const std::filesystem::path& file : data_->read_from) from.folders.push_back(file.parent_path());
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    const at::Tensor& tensor = data_->weights.*row.tensor;
    if (tensor.defined()) tensors.emplace_back(row.name, tensor.detach());
  }
  OwnFolder saved(folder, dictionary_folder(), from);
  write_safetensors(saved.add(kSaeLensWeights), tensors, {.metadata = {{"format", "pt"}}});
  saved.add(kSaeLensConfig, json_text(config));
  saved.commit();
}

}  // namespace hooked
