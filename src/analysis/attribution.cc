#include "hooked/analysis/attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "analysis/cache_reading.h"
#include "analysis/final_stage.h"
#include "analysis/row_columns.h"
#include "core/to_device.h"
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

at::Tensor as_double(const at::Tensor& value) { return value.to(at::kCPU, at::kDouble); }

/// The mean over each row's answers of their places on the last axis of `by_token`, [row, ...].
at::Tensor at_answers(const at::Tensor& by_token, const Answers& answers, std::int64_t rows) {
  const auto of_row = [&](std::int64_t row) {
    const auto ids = to_device(answers.of_row(row), by_token.device());
    return as_double(by_token.index_select(-1, ids)).mean(-1);
  };
  std::vector<at::Tensor> each;
  for (std::int64_t row = 0; row < rows; ++row)
    each.push_back(answers.rows() == 0 && row > 0 ? each.front() : of_row(row));
  return at::stack(each);
}

/// Turns what a part wrote to the stream into logits, and collects the parts.
class Ledger {
 public:
  Ledger(const HookedTransformer& model, const ActivationCache& cache, const AttributionOptions& options,
         RowColumns columns)
      : cache_(cache),
        columns_(std::move(columns)),
        stacks_{.n_layers = model.config().n_layers, .n_encoder_layers = model.config().n_encoder_layers()} {
    const auto& config = model.config();
    const auto weights = model.weights();
    const auto difference = [&](const at::Tensor& by_token) {  // [..., vocab] to [row, ...]
      const auto answer = at_answers(by_token, options.answer, columns_.rows());
      return options.against ? answer - at_answers(by_token, *options.against, columns_.rows()) : answer;
    };
    const auto affine = final_affine(model);
    const auto direction = difference(weights.W_U()) * config.unembedding->scale;  // [row, d_model]
    norm_bias_ = direction.matmul(affine.bias).unsqueeze(1);
    unembed_bias_ = difference(weights.b_U()).unsqueeze(1) * config.unembedding->scale;
    // A part x counts (w * centred(x) / scale) . d = x . centred(w * d) / scale: the centring moves to the
    // direction.
    auto reading = affine.weight * direction;
    if (config.final_norm == NormKind::layer_norm) reading = reading - reading.mean(-1, true);
    reading_ = reading.unsqueeze(1).expand({-1, columns_.positions(), -1});
    if (config.final_norm != NormKind::none) reading_ = reading_ / read(final_norm_of(config).scale);
  }

  /// What was kept at the positions, [row, position, ...] float64.
  at::Tensor read(const Address& address) const { return as_double(read_columns(cache_, address, columns_)); }

  /// What was kept under that name is a part.
  void add(std::string part, const Address& address) { add(std::move(part), read(address), full(address)); }
  /// `written` [row, position, d_model], or [d_model] where it is the same everywhere.
  void add(std::string part, const at::Tensor& written, std::optional<Address> place = std::nullopt) {
    add_logits(std::move(part), (written * reading_).sum(-1), std::move(place));
  }

  /// Heads that read `z` [row, position, head, d_head] and write it through W_O, without what each wrote as
  /// vectors: [head, row, position] logits.
  at::Tensor through(const at::Tensor& z, const at::Tensor& W_O) const {
    return (z * at::einsum("hdm,rpm->rphd", {W_O, reading_})).sum(-1).movedim(2, 0);
  }
  /// Heads that wrote `written` [row, position, head, d_model], in the same way.
  at::Tensor of_heads(const at::Tensor& written) const {
    return (written * reading_.unsqueeze(2)).sum(-1).movedim(2, 0);
  }
  /// A part per head: `head 1.3`, whose place is that head's `result`.
  void add_heads(std::string_view word, const at::Tensor& logits, const Address& result) {
    const auto layer = result.name().layer;
    for (std::int64_t head = 0; head < logits.size(0); ++head)
      add_logits(fmt::format("{} {}.{}", word, layer, head), logits[head], full(result).head(head));
  }

  Grid finish(const Address& last_stream, std::string title) && {
    const auto whole = (read(last_stream) * reading_).sum(-1);  // [row, position]
    add_logits("remainder", whole - at::stack(logits_).sum(0));
    add_logits("final norm bias", norm_bias_);
    add_logits("unembed bias", unembed_bias_);
    return Grid(without_padding(at::stack(logits_, 1), columns_),
                {numbered_axis("row", columns_.rows()), std::move(parts_), columns_.axis},
                {.title = std::move(title), .unit = "logits"});
  }

 private:
  Address full(const Address& address) const { return stacks_.resolve(address.name()); }

  void add_logits(std::string part, const at::Tensor& logits, std::optional<Address> place = std::nullopt) {
    parts_.labels.push_back(std::move(part));
    parts_.places.push_back(std::move(place));
    logits_.push_back(logits.expand({columns_.rows(), columns_.positions()}));
  }

  const ActivationCache& cache_;
  RowColumns columns_;
  Stacks stacks_;
  at::Tensor reading_;              // [row, position, d_model]
  at::Tensor norm_bias_;            // [row, 1]
  at::Tensor unembed_bias_;         // [row, 1]
  std::vector<at::Tensor> logits_;  // [row, position] each
  GridAxis parts_{.name = "part", .labels = {}};
};

/// What the stream begins with. What the embedding shows in an encoder-decoder are the encoder's tokens; a
/// decoder's stream begins with its own. Of a sum of embeddings that is normed no part can be told apart.
Address embedding_of(const ModelConfig& config) {
  if (config.has_encoder()) return act::resid_pre(0);
  return config.embedding_sum_norm ? act::full_embed : act::embed;
}

void add_attention(Ledger& ledger, const HookedTransformer& model, std::int32_t layer) {
  ledger.add(fmt::format("attn {}", layer), act::attn_out(layer));
  if (model.config().has_encoder())
    ledger.add(fmt::format("cross attn {}", layer), act::cross_attn_out(layer));
}

void add_heads(Ledger& ledger, const HookedTransformer& model, std::int32_t layer) {
  const auto bias = fmt::format("attn bias {}", layer);
  if (!model.config().has_encoder()) {
    const auto weights = model.weights();
    const auto logits = ledger.through(ledger.read(act::z(layer)), as_double(weights.W_O(layer)));
    ledger.add_heads("head", logits, act::result(layer));
    return ledger.add(bias, as_double(weights.b_O(layer)));
  }
  // Of two stacks: what the heads do not write of an attention's output is the bias.
  const auto add = [&](const char* word, const std::string& bias_part, const Address& result,
                       const Address& out) {
    const auto written = ledger.read(result);
    ledger.add_heads(word, ledger.of_heads(written), result);
    ledger.add(bias_part, ledger.read(out) - written.sum(2));
  };
  add("head", bias, act::result(layer), act::attn_out(layer));
  add("cross head", "cross " + bias, act::cross_result(layer), act::cross_attn_out(layer));
}

}  // namespace

Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache,
                              const AttributionOptions& options) {
  const auto& config = model.config();
  require_exact(config, options.grain);
  const auto embedding = embedding_of(config);
  auto columns = columns_of(cache, embedding, options.positions);
  options.answer.require_fit(columns.rows(), config.d_vocab_out(), "answer");
  if (options.against) options.against->require_fit(columns.rows(), config.d_vocab_out(), "against");

  Ledger ledger(model, cache, options, std::move(columns));
  ledger.add("embed", embedding);
  if (!config.has_encoder() && config.learned_positions() && !config.embedding_sum_norm)
    ledger.add("pos_embed", act::pos_embed);
  const auto n_layers = static_cast<std::int32_t>(config.n_layers);
  for (std::int32_t layer = 0; layer < n_layers; ++layer) {
    if (options.grain == Grain::head) {
      add_heads(ledger, model, layer);
    } else {
      add_attention(ledger, model, layer);
    }
    if (config.has_mlp()) ledger.add(fmt::format("mlp {}", layer), act::mlp_out(layer));
  }
  return std::move(ledger).finish(n_layers > 0 ? Address(act::resid_post(n_layers - 1)) : embedding,
                                  "Direct logit attribution");
}

}  // namespace hooked
