#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/dictionaries/dictionary.h"

namespace hooked {

/// What a Dictionary's handles share.
struct Dictionary::Data {
  DictionaryConfig config;
  DictionaryWeights weights;
  std::vector<std::filesystem::path> read_from;  ///< absolute paths of the files
};

/// A weight of dictionaries.
struct DictionaryWeightRow {
  std::string_view name;  ///< ours, and SAELens's
  at::Tensor DictionaryWeights::*tensor;
  /// Its shape by the config; nothing if a dictionary of that config has no such weight. The number of layers
  /// that W_dec writes to is -1: any.
  std::optional<std::vector<std::int64_t>> (*shape)(const DictionaryConfig& config);
};

/// All of them.
const std::array<DictionaryWeightRow, 9>& dictionary_weight_rows();

/// Tells a dictionary from others: of its config and a few numbers of each weight, which it reads from their
/// device.
std::string fingerprint_of(const Dictionary& dictionary);

/// Throws ConfigError about `where` if parts of the config do not go together.
void check_config(const DictionaryConfig& config, std::string_view where);

/// Throws ShapeError unless the weights are those of the config.
void check_weights(const DictionaryConfig& config, const DictionaryWeights& weights);

/// Throws ConfigError for a dictionary that is not decoded alone.
void require_one_layer(const DictionaryConfig& config);

/// The input with its norm applied, as the encoder reads it before b_dec.
at::Tensor normed_input(const DictionaryConfig& config, const at::Tensor& input);

/// What undoes normed_input on a reconstruction of the same input.
at::Tensor without_norm(const DictionaryConfig& config, const at::Tensor& reconstruction,
                        const at::Tensor& input);

/// The codes that matching pursuit chooses for x [..., d_in], from which b_dec was subtracted.
at::Tensor matching_pursuit(const DictionaryConfig& config, const at::Tensor& W_dec, const at::Tensor& x);

/// Places [..., k] of the codes that stay, of a dictionary that keeps a number of them, and these codes.
struct KeptCodes {
  at::Tensor indices;
  at::Tensor values;
};
KeptCodes kept_codes(const Dictionary& dictionary, const at::Tensor& preactivations);

/// Whether the activation keeps a fixed number of codes per token.
bool keeps_a_number(const DictionaryConfig& config);

}  // namespace hooked
