#include "hooked/analysis/attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/einsum.h>
#include <fmt/format.h>

#include "analysis/cache_reading.h"
#include "analysis/final_stage.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

constexpr const char* kWhere = "direct_logit_attribution";

/// Throws unless the logits of this model are the sum of its parts once the final scale is given.
void require_exact(const ModelConfig& config, Grain grain) {
  if (!config.has_unembedding()) {
    throw HookError(kWhere, "this model has no unembedding and so no logits; expected a model with one");
  }
  if (config.unembedding->soft_cap > 0) {
    throw HookError(
        kWhere,
        fmt::format("the logits pass through a soft cap of {}, which no sum of parts does; expected a "
                    "model without logit_soft_cap",
                    config.unembedding->soft_cap));
  }
  if (config.has_mlm_head()) {
    throw HookError(kWhere,
                    "the logits are read through a masked-LM head, whose activation no sum of parts passes; "
                    "expected a model without mlm_head");
  }
  if (config.norm == NormKind::none) return;
  if (config.norms_stream()) {
    throw HookError(
        kWhere,
        "the blocks norm the stream itself (norm_place post or stream), so later parts rescale earlier ones; "
        "expected another norm_place");
  }
  if (grain == Grain::head && config.norm_place != NormPlace::pre) {
    throw HookError(kWhere,
                    "the attention's output is normed before it is added, so heads do not add up; use "
                    "Grain::layer");
  }
}

void require_token(const ModelConfig& config, std::int64_t token) {
  if (token >= 0 && token < config.d_vocab_out()) return;
  throw HookError(kWhere, fmt::format("token id {} is outside the vocabulary; expected 0 to {}", token,
                                      config.d_vocab_out() - 1));
}

at::Tensor as_double(const at::Tensor& value) { return value.to(at::kCPU, at::kDouble); }

/// Turns what a part wrote to the stream into logits, and collects the rows.
class Ledger {
 public:
  Ledger(const HookedTransformer& model, const ActivationCache& cache, const AttributionOptions& options)
      : cache_(cache), place_{options.row, options.position} {
    const auto& config = model.config();
    const auto weights = model.weights();
    const auto difference = [&](const at::Tensor& by_token) {  // [..., vocab] to [...]
      const auto answer = as_double(by_token.select(-1, options.answer));
      return options.against ? answer - as_double(by_token.select(-1, *options.against)) : answer;
    };
    const auto affine = final_affine(model);
    const auto direction = difference(weights.W_U()) * config.unembedding->scale;  // [d_model]
    norm_bias_ = affine.bias.dot(direction).item<double>();
    unembed_bias_ = difference(weights.b_U()).item<double>() * config.unembedding->scale;
    // A part x counts (w * centred(x) / scale) . d = x . centred(w * d) / scale: the centring moves to the
    // direction.
    reading_ = affine.weight * direction;
    if (config.final_norm == NormKind::layer_norm) reading_ = reading_ - reading_.mean();
    if (config.final_norm != NormKind::none)
      reading_ = reading_ / as_double(read(final_norm_of(config).scale));
  }

  at::Tensor read(const Address& address) const { return read_token(cache_, address, place_); }

  void add(std::string part, const at::Tensor& written) {  // [d_model]
    rows_.push_back({std::move(part), as_double(written).dot(reading_).item<double>()});
  }

  std::vector<Attribution> finish() && {
    rows_.push_back({"final norm bias", norm_bias_});
    rows_.push_back({"unembed bias", unembed_bias_});
    return std::move(rows_);
  }

 private:
  const ActivationCache& cache_;
  TokenPlace place_;
  at::Tensor reading_;  // [d_model]
  double norm_bias_ = 0;
  double unembed_bias_ = 0;
  std::vector<Attribution> rows_;
};

void add_embedding(Ledger& ledger, const ModelConfig& config) {
  // What the embedding shows in an encoder-decoder are the encoder's tokens; a decoder's stream begins with
  // its own.
  if (config.has_encoder()) return ledger.add("embed", ledger.read(act::resid_pre(0)));
  const bool normed_sum = config.embedding_sum_norm;  // then no part of it can be told apart
  ledger.add("embed", ledger.read(normed_sum ? act::full_embed : act::embed));
  if (config.learned_positions() && !normed_sum) ledger.add("pos_embed", ledger.read(act::pos_embed));
}

/// What one attention of a block wrote, head by head, and its words in the rows.
struct HeadRows {
  at::Tensor written;  ///< [head, d_model]
  at::Tensor bias;     ///< [d_model]
  std::string_view head, attn;
};

void add_heads(Ledger& ledger, const HeadRows& rows, std::int32_t layer) {
  for (std::int64_t head = 0; head < rows.written.size(0); ++head) {
    ledger.add(fmt::format("{} {}.{}", rows.head, layer, head), rows.written[head]);
  }
  ledger.add(fmt::format("{} bias {}", rows.attn, layer), rows.bias);
}

HeadRows heads_of(const Ledger& ledger, const WeightView& weights, std::int32_t layer) {
  const auto z = as_double(ledger.read(act::z(layer)));  // [head, d_head]
  const auto W_O = as_double(weights.W_O(layer));        // [head, d_head, d_model]
  return {at::einsum("hd,hdm->hm", {z, W_O}), weights.b_O(layer), "head", "attn"};
}

/// Of cross-attention, and of a decoder's own: what the heads do not write of `out` is the bias.
HeadRows heads_of(const Ledger& ledger, const Address& result, const Address& out) {
  const auto written = as_double(ledger.read(result));
  return {written, as_double(ledger.read(out)) - written.sum(0), "head", "attn"};
}

void add_attention(Ledger& ledger, const HookedTransformer& model, Grain grain, std::int32_t layer) {
  const bool two_stacks = model.config().has_encoder();
  if (grain == Grain::layer) {
    ledger.add(fmt::format("attn {}", layer), ledger.read(act::attn_out(layer)));
    if (two_stacks) ledger.add(fmt::format("cross attn {}", layer), ledger.read(act::cross_attn_out(layer)));
    return;
  }
  if (!two_stacks) return add_heads(ledger, heads_of(ledger, model.weights(), layer), layer);
  add_heads(ledger, heads_of(ledger, act::result(layer), act::attn_out(layer)), layer);
  auto cross = heads_of(ledger, act::cross_result(layer), act::cross_attn_out(layer));
  cross.head = "cross head";
  cross.attn = "cross attn";
  add_heads(ledger, cross, layer);
}

}  // namespace

std::vector<Attribution> direct_logit_attribution(const HookedTransformer& model,
                                                  const ActivationCache& cache,
                                                  const AttributionOptions& options) {
  const auto& config = model.config();
  require_exact(config, options.grain);
  require_token(config, options.answer);
  if (options.against) require_token(config, *options.against);

  Ledger ledger(model, cache, options);
  add_embedding(ledger, config);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    add_attention(ledger, model, options.grain, layer);
    if (config.has_mlp()) ledger.add(fmt::format("mlp {}", layer), ledger.read(act::mlp_out(layer)));
  }
  return std::move(ledger).finish();
}

}  // namespace hooked
