#include "models/transformer/embed.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

namespace hooked {

at::Tensor see_rows(const HookPoint& point, const at::Tensor& rows, const at::Tensor& like, Run& run) {
  if (!point.watched(run.watch)) return rows;
  return point.forward(rows.expand(like.sizes()).contiguous(), run.watch);
}

Embed::Embed(const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = config_;
  if (c.embedding_scale != 1.0) {
    scale_ = at::scalar_tensor(c.embedding_scale, at::TensorOptions(c.dtype));
  }
  W_E_ = add_rows(*this, "W_E", c.d_vocab, c.d_model, context);
  if (c.token_types > 0) {
    const auto types = register_module("token_type_embed", std::make_shared<Folder>());
    W_token_type_ = add_parameter(*types, "W_token_type", {c.token_types, c.d_model}, context);
    hook_token_type_embed_ = add_point(*this, Site::token_type_embed, context);
  }
  if (c.post_embedding_norm || c.embedding_sum_norm) {
    ln_ = add_norm(*this, "ln", outer_norm(c, c.embedding_norm, Site::embed_ln_normalized), context);
  }
}

at::Tensor Embed::scaled_rows(const at::Tensor& tokens) const {
  at::Tensor embedded = W_E_.rows_at(tokens);
  if (scale_.defined()) embedded = embedded * scale_;
  return embedded;
}

at::Tensor Embed::forward(const at::Tensor& tokens, Run& run) const {
  const at::Tensor embedded = scaled_rows(tokens);
  return config_.post_embedding_norm ? ln_->forward(embedded, run) : embedded;
}

at::Tensor Embed::without_points(const at::Tensor& tokens, Run& run) const {
  const at::Tensor embedded = scaled_rows(tokens);
  return config_.post_embedding_norm ? ln_->without_points(embedded, run) : embedded;
}

at::Tensor Embed::finish_sum(const at::Tensor& sum, Run& run) const {
  const auto normed = [&](const at::Tensor& whole) { return ln_ ? ln_->forward(whole, run) : whole; };
  if (!W_token_type_.defined()) return normed(sum);
  const at::Tensor ids = run.token_types.defined()
                             ? run.token_types
                             : at::zeros({1, sum.size(1)}, at::TensorOptions(at::kLong).device(sum.device()));
  at::Tensor types = at::embedding(W_token_type_, ids);  // [1 or batch, pos, d_model], a copy
  return normed(sum + see_rows(*hook_token_type_embed_, types, sum, run));
}

WeightSlots Embed::slots(const std::string& path) const {
  WeightSlots slots{{path + ".W_E", W_E_.as_out_in()}};
  add_slot(slots, path + ".token_type_embed.W_token_type", W_token_type_);
  add_slots(slots, ln_, path + ".ln");
  return slots;
}

DecoderEmbed::DecoderEmbed(const GraphContext& context) {
  const ModelConfig& c = context.config;
  W_pos_ = add_parameter(*this, "W_pos", {c.n_ctx, c.d_model}, context);
  if (!c.embedding_sum_norm) return;
  Norm::Layout layout = outer_norm(c, c.embedding_norm, Site::embed_ln_normalized);
  layout.silent = true;
  ln_ = add_norm(*this, "ln", layout, context);
}

at::Tensor DecoderEmbed::forward(const at::Tensor& tokens, const at::Tensor& positions,
                                 const Run& run) const {
  const at::Tensor sum = tokens + positions;
  return ln_ ? ln_->without_points(sum, run) : sum;
}

WeightSlots DecoderEmbed::slots(const std::string& path) const {
  WeightSlots slots{{path + ".W_pos", W_pos_}};
  add_slots(slots, ln_, path + ".ln");
  return slots;
}

}  // namespace hooked
