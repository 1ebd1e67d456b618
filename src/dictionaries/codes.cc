// How codes follow from pre-activations and inputs, and codes that are kept as places and values.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dictionaries/dictionary_data.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr double kLayerNormEps = 1e-5;

/// Numbers of [tokens, features], or of decoder rows, that are computed together where a whole would be
/// large.
constexpr std::int64_t kTogether = std::int64_t{1} << 22;

at::Tensor deviation(const at::Tensor& x) { return x.std(-1, /*unbiased=*/true, /*keepdim=*/true); }

at::Tensor constant_norm_scale(const DictionaryConfig& c, const at::Tensor& x) {
  return std::sqrt(static_cast<double>(c.d_in)) / at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true);
}

// Inputs and codes may be empty: then no size can be left to reshape.
std::int64_t count_of_tokens(const at::Tensor& input) { return input.numel() / input.size(-1); }

// Codes of each token of the input.
void require_codes_of(const DictionaryConfig& c, const SparseCodes& codes, const at::Tensor& input) {
  const at::Tensor& values = codes.values;
  const auto tokens = input.sizes().slice(0, input.dim() - 1);
  if (codes.indices.defined() && values.defined() && codes.features == c.features &&
      codes.indices.sizes() == values.sizes() && values.dim() == input.dim() &&
      values.sizes().slice(0, values.dim() - 1) == tokens)
    return;
  throw ShapeError(
      "codes", fmt::format("they are not those of this dictionary and activation; expected {} [..., n] of {} "
                           "features, got {} of {}",
                           shape_text(tokens), c.features,
                           values.defined() ? shape_text(values.sizes()) : "none", codes.features));
}

std::int64_t tokens_together(std::int64_t numbers_of_one) {
  return std::max<std::int64_t>(1, kTogether / std::max<std::int64_t>(1, numbers_of_one));
}

}  // namespace

bool keeps_a_number(const DictionaryConfig& c) {
  return c.activation == CodeActivation::top_k || c.activation == CodeActivation::abs_top_k ||
         c.activation == CodeActivation::group_max;
}

at::Tensor normed_input(const DictionaryConfig& c, const at::Tensor& input) {
  switch (c.input_norm) {
    case InputNorm::layer_norm: {
      const at::Tensor centred = input - input.mean(-1, /*keepdim=*/true);
      return centred / (deviation(centred) + kLayerNormEps);
    }
    case InputNorm::constant_norm:
      return input * constant_norm_scale(c, input);
    case InputNorm::none:
    case InputNorm::expected_average:
    case InputNorm::whitening:
      break;
  }
  return input;
}

at::Tensor without_norm(const DictionaryConfig& c, const at::Tensor& reconstruction,
                        const at::Tensor& input) {
  switch (c.input_norm) {
    case InputNorm::layer_norm:  // without the epsilon: so the dictionaries were trained
      return reconstruction * deviation(input) + input.mean(-1, /*keepdim=*/true);
    case InputNorm::constant_norm:
      return reconstruction / constant_norm_scale(c, input);
    case InputNorm::none:
    case InputNorm::expected_average:
    case InputNorm::whitening:
      break;
  }
  return reconstruction;
}

KeptCodes kept_codes(const Dictionary& dictionary, const at::Tensor& preactivations) {
  const DictionaryConfig& c = dictionary.config();
  const auto rectified = [&](const at::Tensor& h) { return c.rectified ? at::relu(h) : h; };
  if (c.activation == CodeActivation::group_max) {
    const std::int64_t group = c.features / c.k;
    const auto [values, places] = preactivations.unflatten(-1, {c.k, group}).max(-1);
    return {places + at::arange(0, c.features, group, places.options()), rectified(values)};
  }
  const at::Tensor scaled =
      c.decoder_norms == DecoderNorms::ignored ? preactivations : preactivations * dictionary.decoder_norms();
  const bool signs = c.activation == CodeActivation::abs_top_k;
  at::Tensor indices;
  {
    const at::NoGradGuard no_grad;
    indices =
        std::get<1>(at::topk(signs ? scaled.abs() : scaled, c.k, -1, /*largest=*/true, /*sorted=*/true));
  }
  const at::Tensor& codes = c.decoder_norms == DecoderNorms::scaled ? scaled : preactivations;
  return {indices, rectified(codes.gather(-1, indices))};
}

at::Tensor matching_pursuit(const DictionaryConfig& c, const at::Tensor& W_dec, const at::Tensor& x) {
  const std::int64_t tokens = count_of_tokens(x);
  at::Tensor residual = x.reshape({tokens, c.d_in});
  at::Tensor codes = at::zeros({tokens, c.features}, residual.options());
  at::Tensor support = at::zeros({tokens, c.features}, residual.options().dtype(at::kBool));
  at::Tensor going = at::zeros({tokens, 1}, residual.options().dtype(at::kBool)).logical_not();
  const bool ends_early = c.stops_on_repeat || c.residual_threshold > 0;
  for (std::int64_t step = 0; step < (c.max_iterations > 0 ? c.max_iterations : c.d_in); ++step) {
    at::Tensor chosen;
    {
      const at::NoGradGuard no_grad;  // what is chosen has no gradient
      chosen = std::get<1>(at::relu(residual.matmul(W_dec.t())).max(-1));
    }
    const at::Tensor rows = W_dec.index_select(0, chosen);
    const at::Tensor values =
        at::relu((residual * rows).sum(-1, /*keepdim=*/true)) * going.to(residual.scalar_type());
    codes = codes.scatter_add(1, chosen.unsqueeze(1), values);
    residual = residual - values * rows;
    if (!ends_early) continue;
    const at::NoGradGuard no_grad;
    if (c.stops_on_repeat) {
      const at::Tensor now = codes != 0;
      going = going.logical_and((now != support).any(1, /*keepdim=*/true));
      support = now;
    }
    if (c.residual_threshold > 0) {
      going = going.logical_and(at::linalg_vector_norm(residual, 2, {-1}, /*keepdim=*/true) >=
                                c.residual_threshold);
    }
    if (!going.any().item<bool>()) break;
  }
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = c.features;
  return codes.reshape(shape);
}

at::Tensor SparseCodes::dense() const {
  std::vector<std::int64_t> shape = values.sizes().vec();
  shape.back() = features;
  // Added: a token with few codes has zeros at places that may be those of its other codes.
  return at::zeros(shape, values.options()).scatter_add(-1, indices, values);
}

SparseCodes Dictionary::encode_sparse(const at::Tensor& x) const {
  const DictionaryConfig& c = config();
  const at::Tensor input = input_of(x);
  const at::Tensor tokens = input.reshape({count_of_tokens(input), c.d_in});
  std::vector<KeptCodes> parts;
  std::int64_t most = 0;
  for (const at::Tensor& some : tokens.split(tokens_together(c.features))) {
    const at::Tensor h = preactivations(some);
    if (keeps_a_number(c)) {
      parts.push_back(kept_codes(*this, h));
    } else {
      const at::Tensor codes = activations(h, some);
      const std::int64_t count = some.size(0) == 0 ? 0 : (codes != 0).sum(-1).max().item<std::int64_t>();
      at::Tensor indices;
      {
        const at::NoGradGuard no_grad;
        indices = std::get<1>(at::topk(codes.abs(), count, -1, /*largest=*/true, /*sorted=*/true));
      }
      parts.push_back({indices, codes.gather(-1, indices)});
    }
    most = std::max(most, parts.back().indices.size(-1));
  }
  std::vector<at::Tensor> indices, values;
  for (const KeptCodes& part : parts) {
    const std::int64_t missing = most - part.indices.size(-1);
    indices.push_back(at::constant_pad_nd(part.indices, {0, missing}));
    values.push_back(at::constant_pad_nd(part.values, {0, missing}));
  }
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = most;
  return {at::cat(indices).reshape(shape), at::cat(values).reshape(shape), c.features};
}

at::Tensor Dictionary::decode_sparse(const SparseCodes& codes, const at::Tensor& x) const {
  const DictionaryConfig& c = config();
  const DictionaryWeights& w = weights();
  require_one_layer(c);
  const at::Tensor input = input_of(x);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = c.d_out;
  require_codes_of(c, codes, input);
  const std::int64_t n = codes.values.size(-1);
  at::Tensor values = codes.values;
  if (c.decoder_norms == DecoderNorms::scaled)
    values = values / decoder_norms().index_select(0, codes.indices.reshape({-1})).reshape(values.sizes());
  std::vector<at::Tensor> parts;
  const std::int64_t tokens = count_of_tokens(input);
  const at::Tensor places = codes.indices.reshape({tokens, n});
  const std::int64_t together = tokens_together(n * c.d_out);
  const std::vector<at::Tensor> some = values.reshape({tokens, n}).split(together);
  const std::vector<at::Tensor> at_places = places.split(together);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const at::Tensor rows =
        w.W_dec.index_select(0, at_places[i].reshape({-1})).reshape({some[i].size(0), n, c.d_out});
    parts.push_back(some[i].unsqueeze(1).matmul(rows).squeeze(1));
  }
  at::Tensor decoded = at::cat(parts).reshape(shape);
  if (c.adds_decoder_bias) decoded = decoded + w.b_dec;
  if (c.skips) decoded = decoded + input.matmul(w.W_skip.t());
  return output_of(decoded, input, x);
}

}  // namespace hooked
