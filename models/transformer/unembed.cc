#include "models/transformer/unembed.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "models/ops/activations.h"
#include "models/ops/ops.h"

namespace hooked {

MlmHead::MlmHead(const GraphContext& context) : activation_(*context.config.unembedding->mlm_head) {
  const ModelConfig& c = context.config;
  W_ = add_matrix(*this, "W", c.d_model, c.d_model, {.out = c.d_model, .in = c.d_model}, context);
  b_ = add_parameter(*this, "b", {c.d_model}, context);
  ln_ = add_norm(*this, "ln", outer_norm(c, NormKind::layer_norm, Site::mlm_head_ln_normalized), context);
}

at::Tensor MlmHead::forward(const at::Tensor& x, Run& run) const {
  return ln_->forward(ops::activate(activation_, ops::linear(x, W_, b_, run), run), run);
}

WeightSlots MlmHead::slots(const std::string& path) const {
  WeightSlots slots{{path + ".W", W_.as_in_out()}, {path + ".b", b_}};
  add_slots(slots, ln_, path + ".ln");
  return slots;
}

Unembed::Unembed(const Matrix& W_E, const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = context.config;
  W_U_ = c.tied_unembedding() ? W_E : add_rows(*this, "W_U", c.d_vocab_out(), c.d_model, context);
  if (c.unembedding->bias) b_U_ = add_parameter(*this, "b_U", {c.d_vocab_out()}, context);
  // Buffers: nothing that a training run computes depends on them.
  const auto add_mean = [&](const char* name, std::int64_t size) {
    return register_buffer(name, at::empty({size}, context.options));
  };
  if (c.unembedding->keeps_mean) W_mean_ = add_mean("W_mean", c.d_model);
  if (c.unembedding->keeps_mean && c.unembedding->bias) b_mean_ = add_mean("b_mean", 1);
  hook_in_ = add_point(*this, Site::unembed_in, context);
  hook_out_ = add_point(*this, Site::unembed_out, context);
}

at::Tensor Unembed::forward(const at::Tensor& x, const at::Tensor& tokens, Run& run) const {
  const double scale = config_.unembedding->in_scale;
  const at::Tensor input = hook_in_->forward(scale == 1.0 ? x : x * scale, run.watch);
  // Watching the logits shows those of the whole vocabulary.
  const bool some = tokens.defined() && !hook_out_->watched(run.watch);
  at::Tensor logits = some ? ops::unrounded_linear(input, W_U_.of_outputs(tokens),
                                                   b_U_.defined() ? b_U_.index_select(0, tokens) : b_U_, run)
                           : ops::unrounded_linear(input, W_U_, b_U_, run);
  if (run.uncentred && W_mean_.defined()) {
    const at::Tensor taken =
        input.to(logits.scalar_type()).matmul(W_mean_.to(logits.scalar_type())).unsqueeze(-1);
    logits = logits + (b_mean_.defined() ? taken + b_mean_ : taken);
  }
  if (config_.unembedding->scale != 1.0) logits = logits * config_.unembedding->scale;
  logits = hook_out_->forward(std::move(logits), run.watch);
  if (tokens.defined() && !some) logits = logits.index_select(2, tokens);
  return config_.unembedding->soft_cap > 0 ? ops::soft_cap(logits, config_.unembedding->soft_cap) : logits;
}

WeightSlots Unembed::slots(const std::string& path) const {
  WeightSlots slots;
  if (!config_.tied_unembedding()) slots.push_back({path + ".W_U", W_U_.as_in_out()});
  add_slot(slots, path + ".b_U", b_U_);
  add_slot(slots, path + ".W_mean", W_mean_);
  add_slot(slots, path + ".b_mean", b_mean_);
  return slots;
}

}  // namespace hooked
