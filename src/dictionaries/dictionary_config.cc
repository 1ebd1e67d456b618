#include "hooked/dictionaries/dictionary_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dictionaries/dictionary_data.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1}
                                  << 24;  // of a size; the widest that are published have 2^20

using Sizes = std::vector<std::int64_t>;
using Shape = std::optional<Sizes>;
using Config = DictionaryConfig;

bool has_encoder(const Config& c) { return c.activation != CodeActivation::matching_pursuit; }
bool is_gated(const Config& c) { return c.activation == CodeActivation::gated; }
Shape of_features(const Config& c, bool exists) { return exists ? Shape(Sizes{c.features}) : std::nullopt; }

constexpr std::int64_t kAnyNumber = -1;

constexpr std::array<DictionaryWeightRow, 9> kWeights = {{
    {"W_enc", &DictionaryWeights::W_enc,
     [](const Config& c) {
       return has_encoder(c) ? Shape(Sizes{c.d_in, c.features}) : std::nullopt;
     }},
    {"b_enc", &DictionaryWeights::b_enc,
     [](const Config& c) { return of_features(c, has_encoder(c) && !is_gated(c)); }},
    {"W_dec", &DictionaryWeights::W_dec,
     [](const Config& c) {
       return c.crosses_layers ? Shape(Sizes{c.features, kAnyNumber, c.d_out})
                               : Shape(Sizes{c.features, c.d_out});
     }},
    {"b_dec", &DictionaryWeights::b_dec, [](const Config& c) { return Shape(Sizes{c.d_out}); }},
    {"threshold", &DictionaryWeights::threshold,
     [](const Config& c) { return of_features(c, c.activation == CodeActivation::jump_relu); }},
    {"W_skip", &DictionaryWeights::W_skip,
     [](const Config& c) {
       return c.skips ? Shape(Sizes{c.d_out, c.d_in}) : std::nullopt;
     }},
    {"b_gate", &DictionaryWeights::b_gate, [](const Config& c) { return of_features(c, is_gated(c)); }},
    {"b_mag", &DictionaryWeights::b_mag, [](const Config& c) { return of_features(c, is_gated(c)); }},
    {"r_mag", &DictionaryWeights::r_mag, [](const Config& c) { return of_features(c, is_gated(c)); }},
}};

bool fits(at::IntArrayRef got, const std::vector<std::int64_t>& wanted) {
  return got.size() == wanted.size() &&
         std::equal(wanted.begin(), wanted.end(), got.begin(), [](std::int64_t want, std::int64_t is) {
           return want == kAnyNumber ? is > 0 : want == is;
         });
}

std::string wanted_text(const std::vector<std::int64_t>& wanted) {
  std::string text;
  for (const std::int64_t size : wanted)
    text +=
        fmt::format("{}{}", text.empty() ? "" : ", ", size == kAnyNumber ? "layers" : std::to_string(size));
  return fmt::format("[{}]", text);
}

std::string codes_text(const Config& c) {
  const std::string_view signs = c.rectified ? "" : ", negative ones included";
  switch (c.activation) {
    case CodeActivation::relu:
      return "ReLU";
    case CodeActivation::jump_relu:
      return fmt::format("JumpReLU: pre-activations above a threshold{}",
                         c.rectified ? "" : ", also negative ones");
    case CodeActivation::top_k:
      return fmt::format("top-k: the {} largest codes of a token{}", c.k, signs);
    case CodeActivation::abs_top_k:
      return fmt::format("top-k by size: the {} codes of a token that are largest without their sign", c.k);
    case CodeActivation::gated:
      return "gated: magnitudes where a gate is open";
    case CodeActivation::group_max:
      return fmt::format("the largest code of each of {} groups{}", c.k, signs);
    case CodeActivation::matching_pursuit:
      return "matching pursuit: features are chosen one by one";
  }
  return {};
}

}  // namespace

const std::array<DictionaryWeightRow, 9>& dictionary_weight_rows() { return kWeights; }

std::string_view code_activation_name(CodeActivation activation) noexcept {
  switch (activation) {
    case CodeActivation::relu:
      return "relu";
    case CodeActivation::jump_relu:
      return "jump_relu";
    case CodeActivation::top_k:
      return "top_k";
    case CodeActivation::abs_top_k:
      return "abs_top_k";
    case CodeActivation::gated:
      return "gated";
    case CodeActivation::group_max:
      return "group_max";
    case CodeActivation::matching_pursuit:
      return "matching_pursuit";
  }
  return {};
}

std::string architecture_text(const DictionaryConfig& c) {
  const std::string_view kind = c.crosses_layers ? "cross-layer transcoder, one of its layers"
                                : c.transcodes   ? "transcoder"
                                                 : "sparse autoencoder";
  return fmt::format("{}{}; {}", kind, c.skips ? " with a skip connection" : "", codes_text(c));
}

void check_config(const DictionaryConfig& c, std::string_view where) {
  const auto require = [&](bool holds, std::string_view what, std::string_view wanted, const auto& got) {
    if (!holds) throw ConfigError(where, fmt::format("{}; expected {}, got {}", what, wanted, got));
  };
  for (const auto& [name, size] : {std::pair("d_in", c.d_in), {"d_out", c.d_out}, {"features", c.features}})
    require(size > 0 && size <= kLargest, fmt::format("{} is no size", name),
            fmt::format("1 to {}", kLargest), size);
  require(c.transcodes || c.d_in == c.d_out, "a sparse autoencoder decodes to another width than it encodes",
          fmt::format("{}", c.d_in), c.d_out);
  require(!c.transcodes || !c.subtracts_decoder_bias,
          "a transcoder subtracts b_dec from its input, which b_dec does "
          "not fit",
          "no b_dec on the input", "it");
  require(!(c.crosses_layers && !c.transcodes), "only transcoders cross layers", "a transcoder",
          "an autoencoder");
  const bool keeps = keeps_a_number(c);
  require(!keeps || (c.k > 0 && c.k <= c.features), "k is not a number of features",
          fmt::format("1 to {}", c.features), c.k);
  require(c.activation != CodeActivation::group_max || c.features % c.k == 0,
          "features do not divide into k groups", fmt::format("a divisor of {}", c.features), c.k);
  const bool always = c.activation == CodeActivation::relu || c.activation == CodeActivation::gated ||
                      c.activation == CodeActivation::matching_pursuit;
  require(!always || c.rectified, "codes of this activation are never negative", "rectified",
          "not rectified");
  require(c.activation != CodeActivation::abs_top_k || !c.rectified, "abs_top_k keeps signs", "not rectified",
          "rectified");
  require(c.decoder_norms == DecoderNorms::ignored || (keeps && c.activation != CodeActivation::group_max),
          "only top_k and abs_top_k use the decoder's norms", "ignored norms", "others");
  require(c.dtype == at::kFloat || c.dtype == at::kDouble || c.dtype == at::kHalf || c.dtype == at::kBFloat16,
          "a dictionary cannot compute in this dtype", "float32, float64, float16 or bfloat16",
          dtype_text(c.dtype));
  require(c.max_iterations >= 0, "max_iterations is negative", "0 or more", c.max_iterations);
  require(c.activation != CodeActivation::matching_pursuit || !c.transcodes,
          "matching pursuit reconstructs its input", "an autoencoder", "a transcoder");
}

void check_weights(const DictionaryConfig& config, const DictionaryWeights& weights) {
  for (const DictionaryWeightRow& row : kWeights) {
    const at::Tensor& tensor = weights.*row.tensor;
    const Shape wanted = row.shape(config);
    const auto refuse = [&](std::string_view expected, const std::string& got) {
      throw ShapeError(row.name,
                       fmt::format("the weight is not the dictionary's; expected {}, got {}", expected, got));
    };
    if (!wanted && tensor.defined()) refuse("none, by its config", shape_text(tensor.sizes()));
    if (!wanted) continue;
    if (!tensor.defined()) refuse(wanted_text(*wanted), "none");
    if (!fits(tensor.sizes(), *wanted)) refuse(wanted_text(*wanted), shape_text(tensor.sizes()));
    if (tensor.scalar_type() != config.dtype)
      refuse(dtype_text(config.dtype), std::string(dtype_text(tensor.scalar_type())));
    if (tensor.device() != weights.b_dec.device())
      refuse(weights.b_dec.device().str(), tensor.device().str());
  }
}

}  // namespace hooked
