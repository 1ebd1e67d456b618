#include "hooked/dictionaries/dictionary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/weight_sample.h"
#include "dictionaries/dictionary_data.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kNoun = "dictionary";

void require_width(const at::Tensor& x, std::int64_t width, std::string_view what) {
  if (!x.defined() || x.dim() == 0 || x.size(-1) != width) {
    throw ShapeError(
        what, fmt::format("the last axis has another size than the dictionary's; expected {}, got {}", width,
                          x.defined() ? shape_text(x.sizes()) : "no tensor"));
  }
}

}  // namespace

void require_one_layer(const DictionaryConfig& config) {
  if (!config.crosses_layers) return;
  throw ConfigError(
      "dictionary",
      "its features write to several layers, whose outputs are sums over the dictionaries of the "
      "layers before; expected a dictionary that writes to one; the set of all layers decodes it");
}

std::string fingerprint_of(const Dictionary& dictionary) {
  const DictionaryConfig& config = dictionary.config();
  WeightSample sample;
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    const at::Tensor& weight = dictionary.weights().*row.tensor;
    if (!weight.defined()) continue;
    sample.add(std::string(row.name), weight.sizes(),
               [&](std::int64_t place) { return element_of(weight, place); });
  }
  return sample.fingerprint(
      fmt::format("{} {} {} {} {} {} {}\n", architecture_text(config), static_cast<int>(config.input_norm),
                  static_cast<int>(config.decoder_norms), config.rectified, config.subtracts_decoder_bias,
                  config.adds_decoder_bias, config.head.value_or(-1)));
}

Dictionary::Dictionary(DictionaryConfig config, DictionaryWeights weights) : data_(nullptr, kNoun) {
  check_config(config, "dictionary");
  check_weights(config, weights);
  data_ =
      Shared<const Data>(std::make_shared<const Data>(Data{
                             .config = std::move(config), .weights = std::move(weights), .read_from = {}}),
                         kNoun);
}

Dictionary::Dictionary(std::shared_ptr<const Data> data) : data_(std::move(data), kNoun) {}

const DictionaryConfig& Dictionary::config() const& { return data_->config; }
DictionaryConfig Dictionary::config() const&& { return data_->config; }
const DictionaryWeights& Dictionary::weights() const& { return data_->weights; }
DictionaryWeights Dictionary::weights() const&& { return data_->weights; }

at::Tensor Dictionary::encode(const at::Tensor& x) const {
  const at::Tensor input = input_of(x);
  return activations(preactivations(input), input);
}

at::Tensor Dictionary::decode(const at::Tensor& codes, const at::Tensor& x) const {
  const at::Tensor input = input_of(x);
  return output_of(reconstruction(codes, input), input, x);
}

at::Tensor Dictionary::reconstruct(const at::Tensor& x) const {
  const at::Tensor input = input_of(x);
  return output_of(reconstruction(activations(preactivations(input), input), input), input, x);
}

at::Tensor Dictionary::input_of(const at::Tensor& x) const {
  const DictionaryConfig& c = data_->config;
  const bool heads = c.flattens_heads;
  if (!x.defined() || x.dim() < (heads ? 2 : 1) || x.size(-1) * (heads ? x.size(-2) : 1) != c.d_in) {
    throw ShapeError("x",
                     fmt::format("the activation does not fit the dictionary; expected {}, got {}",
                                 heads ? fmt::format("[..., heads, d_head] with heads · d_head = {}", c.d_in)
                                       : fmt::format("[..., {}]", c.d_in),
                                 x.defined() ? shape_text(x.sizes()) : "no tensor"));
  }
  const at::Tensor cast = x.to(c.dtype);
  return heads ? cast.flatten(-2) : cast;
}

bool Dictionary::has_preactivations() const {
  return data_->config.activation != CodeActivation::matching_pursuit;
}

at::Tensor Dictionary::preactivations(const at::Tensor& input) const {
  const DictionaryConfig& c = data_->config;
  const DictionaryWeights& w = data_->weights;
  require_width(input, c.d_in, "input");
  if (!has_preactivations()) return {};
  at::Tensor x = normed_input(c, input);
  if (c.subtracts_decoder_bias) x = x - w.b_dec;
  const at::Tensor h = x.matmul(w.W_enc);
  return c.activation == CodeActivation::gated ? h * w.r_mag.exp() + w.b_mag : h + w.b_enc;
}

at::Tensor Dictionary::activations(const at::Tensor& preactivations, const at::Tensor& input) const {
  const DictionaryConfig& c = data_->config;
  const DictionaryWeights& w = data_->weights;
  const bool reads_input =
      c.activation == CodeActivation::gated || c.activation == CodeActivation::matching_pursuit;
  at::Tensor x;
  if (reads_input) {
    require_width(input, c.d_in, "input");
    x = normed_input(c, input);
    if (c.subtracts_decoder_bias) x = x - w.b_dec;
  }
  if (c.activation == CodeActivation::matching_pursuit) return matching_pursuit(c, w.W_dec, x);
  require_width(preactivations, c.features, "preactivations");
  const auto rectified = [&](const at::Tensor& h) { return c.rectified ? at::relu(h) : h; };
  if (c.activation == CodeActivation::relu) return at::relu(preactivations);
  if (c.activation == CodeActivation::jump_relu)
    return rectified(preactivations) * (preactivations > w.threshold).to(c.dtype);
  if (c.activation == CodeActivation::gated)
    return at::relu(preactivations) * ((x.matmul(w.W_enc) + w.b_gate) > 0).to(c.dtype);
  const KeptCodes kept = kept_codes(*this, preactivations);
  return at::zeros_like(preactivations).scatter(-1, kept.indices, kept.values);
}

at::Tensor Dictionary::reconstruction(const at::Tensor& codes, const at::Tensor& input) const {
  const DictionaryConfig& c = data_->config;
  const DictionaryWeights& w = data_->weights;
  require_one_layer(c);
  require_width(codes, c.features, "codes");
  at::Tensor decoded =
      (c.decoder_norms == DecoderNorms::scaled ? codes / decoder_norms() : codes).matmul(w.W_dec);
  if (c.adds_decoder_bias) decoded = decoded + w.b_dec;
  if (!c.skips) return decoded;
  require_width(input, c.d_in, "input");
  return decoded + input.matmul(w.W_skip.t());
}

at::Tensor Dictionary::output_of(const at::Tensor& reconstruction, const at::Tensor& input,
                                 const at::Tensor& x) const {
  const DictionaryConfig& c = data_->config;
  require_width(reconstruction, c.d_out, "reconstruction");
  if (c.transcodes) return reconstruction.to(x.scalar_type());
  at::Tensor output = without_norm(c, reconstruction, input);
  if (c.flattens_heads) output = output.unflatten(-1, {x.size(-2), x.size(-1)});
  return output.to(x.scalar_type());
}

at::Tensor Dictionary::decoder_norms() const {
  const at::Tensor& W_dec = data_->weights.W_dec;
  return at::linalg_vector_norm(W_dec.flatten(1), 2, {1});
}

Dictionary Dictionary::with_unit_decoder() const {
  Data data = *data_;
  const DictionaryConfig& c = data.config;
  const bool keeps = keeps_a_number(c) && c.decoder_norms == DecoderNorms::ignored;
  if (keeps || c.activation == CodeActivation::matching_pursuit) {
    throw ConfigError("dictionary",
                      fmt::format("with decoder rows of another norm, {} would choose other features; "
                                  "expected another activation",
                                  code_activation_name(c.activation)));
  }
  const at::NoGradGuard no_grad;
  DictionaryWeights& w = data.weights;
  const at::Tensor n = decoder_norms().clamp_min(1e-8);
  w.W_dec = w.W_dec / (c.crosses_layers ? n.view({-1, 1, 1}) : n.unsqueeze(1));
  w.W_enc = w.W_enc * n;
  for (at::Tensor* bias : {&w.b_enc, &w.threshold, &w.b_gate, &w.b_mag}) {
    if (bias->defined()) *bias = *bias * n;
  }
  data.config.decoder_norms = DecoderNorms::ignored;
  return Dictionary(std::make_shared<const Data>(std::move(data)));
}

}  // namespace hooked
