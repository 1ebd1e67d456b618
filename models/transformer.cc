#include "models/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "hooked/core/error.h"
#include "models/ops.h"

namespace hooked {
namespace {

// A plain container module, so that `blocks.0` and `pos_embed` are places in the path.
class Folder : public torch::nn::Module {};

void append(WeightSlots& all, WeightSlots slots) {
  for (WeightSlot& slot : slots) all.push_back(std::move(slot));
}

// Rows [1 or batch, pos, d_model] as the point shows them; one row stands for the batch while nobody looks.
at::Tensor see_rows(const HookPoint& point, const at::Tensor& rows, const at::Tensor& like, Run& run) {
  if (!point.watched(run)) return rows;
  return point.forward(rows.expand(like.sizes()).contiguous(), run);
}

}  // namespace

Embed::Embed(const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = config_;
  if (c.embedding_scale != 1.0) {
    scale_ = at::scalar_tensor(c.embedding_scale, at::TensorOptions(c.dtype));
  }
  W_E_ =
      register_parameter("W_E", at::empty({c.d_vocab, c.d_model}, context.options), /*requires_grad=*/false);
  if (c.token_types > 0) {
    const auto types = register_module("token_type_embed", std::make_shared<Folder>());
    W_token_type_ = types->register_parameter(
        "W_token_type", at::empty({c.token_types, c.d_model}, context.options), /*requires_grad=*/false);
    hook_token_type_embed_ = add_point(*this, Site::token_type_embed, context);
  }
  if (c.post_embedding_norm || c.embedding_sum_norm) {
    ln_ = register_module("ln", std::make_shared<Norm>(Norm::Layout{NormKind::layer_norm,
                                                                    Site::embed_ln_scale,
                                                                    Site::embed_ln_normalized,
                                                                    {c.d_model},
                                                                    true,
                                                                    c.norm_bias},
                                                       context));
  }
}

at::Tensor Embed::forward(const at::Tensor& tokens, Run& run) const {
  at::Tensor embedded = at::embedding(W_E_, tokens);
  if (scale_.defined()) embedded = embedded * scale_;
  if (run.gradients() && !embedded.requires_grad())
    embedded.requires_grad_(true);  // the leaf of gradient runs
  return config_.post_embedding_norm ? ln_->forward(embedded, run) : embedded;
}

at::Tensor Embed::finish_sum(const at::Tensor& sum, Run& run) const {
  if (!W_token_type_.defined()) return ln_->forward(sum, run);
  at::Tensor types = at::embedding(W_token_type_, run.token_types());  // [1 or batch, pos, d_model], a copy
  if (run.gradients() && !types.requires_grad()) types.requires_grad_(true);
  return ln_->forward(sum + see_rows(*hook_token_type_embed_, types, sum, run), run);
}

WeightSlots Embed::slots() const {
  WeightSlots slots{{"embed.W_E", W_E_}};
  if (W_token_type_.defined()) slots.push_back({"embed.token_type_embed.W_token_type", W_token_type_});
  if (ln_) append(slots, ln_->slots("embed.ln"));
  return slots;
}

MlmHead::MlmHead(const GraphContext& context) : activation_(*context.config.mlm_head) {
  const ModelConfig& c = context.config;
  W_ = add_matrix(*this, "W", c.d_model, c.d_model, context);
  b_ = register_parameter("b", at::empty({c.d_model}, context.options), /*requires_grad=*/false);
  ln_ = register_module("ln", std::make_shared<Norm>(Norm::Layout{NormKind::layer_norm,
                                                                  Site::mlm_head_ln_scale,
                                                                  Site::mlm_head_ln_normalized,
                                                                  {c.d_model},
                                                                  true,
                                                                  c.norm_bias},
                                                     context));
}

at::Tensor MlmHead::forward(const at::Tensor& x, Run& run) const {
  return ln_->forward(ops::activate(activation_, ops::linear(x, W_, b_, run), run), run);
}

WeightSlots MlmHead::slots() const {
  WeightSlots slots{{"mlm_head.W", W_.t()}, {"mlm_head.b", b_}};
  append(slots, ln_->slots("mlm_head.ln"));
  return slots;
}

Unembed::Unembed(const at::Tensor& W_E, const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = context.config;
  W_U_ = c.tied_unembedding
             ? W_E
             : register_parameter("W_U", at::empty({c.d_vocab_out, c.d_model}, context.options),
                                  /*requires_grad=*/false);
  if (c.unembed_bias) {
    b_U_ = register_parameter("b_U", at::empty({c.d_vocab_out}, context.options), /*requires_grad=*/false);
  }
  hook_in_ = add_point(*this, Site::unembed_in, context);
  hook_out_ = add_point(*this, Site::unembed_out, context);
}

at::Tensor Unembed::forward(const at::Tensor& x, Run& run) const {
  const double scale = config_.unembed_in_scale;
  const at::Tensor input = hook_in_->forward(scale == 1.0 ? x : x * scale, run);
  at::Tensor logits = ops::linear(input, W_U_, b_U_, run);
  if (config_.logit_scale != 1.0) logits = logits * config_.logit_scale;
  logits = hook_out_->forward(std::move(logits), run);
  return config_.logit_soft_cap > 0 ? ops::soft_cap(logits, config_.logit_soft_cap) : logits;
}

WeightSlots Unembed::slots() const {
  WeightSlots slots;
  if (!config_.tied_unembedding) slots.push_back({"unembed.W_U", W_U_.t()});
  if (b_U_.defined()) slots.push_back({"unembed.b_U", b_U_});
  return slots;
}

Transformer::Transformer(const ModelConfig& config, const PointIndex& points,
                         const at::TensorOptions& options)
    : config_(config) {
  const GraphContext context{config, points, options};
  hook_tokens_ = add_point(*this, Site::tokens, context);
  embed_ = register_module("embed", std::make_shared<Embed>(context));
  // The parts of a normed sum belong to the module that makes the sum.
  const bool summed = config.embedding_sum_norm;
  hook_embed_ =
      summed ? add_point(*embed_, Site::token_embed, context) : add_point(*this, Site::embed, context);
  if (config.has_pos_embed()) {
    const auto positions = register_module("pos_embed", std::make_shared<Folder>());
    W_pos_ =
        positions->register_parameter("W_pos", at::empty({config.n_ctx, config.d_model}, options), false);
  }
  hook_pos_embed_ =
      summed ? add_point(*embed_, Site::position_embed, context) : add_point(*this, Site::pos_embed, context);
  hook_full_embed_ = add_point(*this, Site::full_embed, context);
  const auto stack = [&](Stack name) {
    const auto folder = register_module(std::string(stack_name(name)), std::make_shared<Folder>());
    std::vector<std::shared_ptr<Block>> blocks;
    for (const BlockPlace& place : config.blocks()) {
      if (place.stack != name) continue;
      blocks.push_back(folder->register_module(
          std::to_string(place.layer),
          std::make_shared<Block>(GraphContext{config, points, options, name, place.layer})));
    }
    return blocks;
  };
  const bool weighted = !config.norm_folded;
  const auto norm = [&](const char* name, NormKind kind, Site scale, Site normalized) {
    const bool biased = weighted && config.norm_bias && kind == NormKind::layer_norm;
    return register_module(
        name,
        std::make_shared<Norm>(
            Norm::Layout{kind, scale, normalized, {config.d_model}, weighted, biased, config.norm_offset},
            context));
  };
  if (config.has_encoder()) {
    encoder_ = stack(Stack::encoder);
    encoder_final_ln_ = norm("encoder_final_ln", config.norm, Site::encoder_final_ln_scale,
                             Site::encoder_final_ln_normalized);
  }
  blocks_ = stack(config.main_stack());
  if (config.final_norm != NormKind::none) {
    ln_final_ = config.has_encoder()
                    ? norm("decoder_final_ln", config.final_norm, Site::decoder_final_ln_scale,
                           Site::decoder_final_ln_normalized)
                    : norm("ln_final", config.final_norm, Site::ln_final_scale, Site::ln_final_normalized);
  }
  if (config.mlm_head) mlm_head_ = register_module("mlm_head", std::make_shared<MlmHead>(context));
  if (config.has_unembedding()) {
    unembed_ = register_module("unembed", std::make_shared<Unembed>(embed_->W_E(), context));
  }
}

at::Tensor Transformer::pos_embed(Run& run) const {
  const Sequence& sequence = run.sequence(config_.main_stack());
  at::Tensor rows = at::embedding(W_pos_, sequence.positions());  // [1 or batch, pos, d_model], a copy
  if (sequence.real().defined()) rows = rows * sequence.real().unsqueeze(-1);
  if (run.gradients() && !rows.requires_grad()) rows.requires_grad_(true);
  return rows;
}

at::Tensor Transformer::seen_tokens(const at::Tensor& tokens, Run& run) const {
  const at::Tensor seen = hook_tokens_->watched(run) ? hook_tokens_->forward(tokens.clone(), run) : tokens;
  // The caller's ids were checked at the door; on a GPU an id without a row would break the whole process.
  if (run.may_change(hook_tokens_->number()) &&
      (seen < 0).logical_or(seen >= config_.d_vocab).any().item<bool>()) {
    throw HookError(
        row(Site::tokens).path,
        fmt::format(
            "a hook or edit put in a token id that is not in the vocabulary; expected 0 to {}, got {} "
            "to {}",
            config_.d_vocab - 1, seen.min().item<std::int64_t>(), seen.max().item<std::int64_t>()));
  }
  return seen;
}

void Transformer::encode(const at::Tensor& tokens, const Reach& reach, Run& run) const {
  at::Tensor stream = hook_embed_->forward(embed_->forward(seen_tokens(tokens, run), run), run);
  const auto reached = std::min<std::int64_t>(reach.end_block, reach.encoder_blocks);
  for (std::int64_t layer = 0; layer < reached; ++layer) {
    stream = encoder_[static_cast<std::size_t>(layer)]->forward(std::move(stream), run);
  }
  if (reach.encodes()) run.encoded = encoder_final_ln_->forward(stream, run);
}

at::Tensor Transformer::embed(const at::Tensor& tokens, Run& run) const {
  // The points of the embedding are the encoder's where there is one: a decoder's is its first resid_pre.
  if (config_.has_encoder()) return embed_->forward(tokens, run);
  at::Tensor stream = hook_embed_->forward(embed_->forward(seen_tokens(tokens, run), run), run);
  if (W_pos_.defined()) {
    const at::Tensor positions = see_rows(*hook_pos_embed_, pos_embed(run), stream, run);
    if (config_.positions == PositionKind::shortformer) {
      run.query_key_positions = positions;
    } else {
      stream = stream + positions;
    }
  }
  if (!hook_full_embed_) return stream;
  return hook_full_embed_->forward(embed_->finish_sum(stream, run), run);
}

void Transformer::prepare(const Reach& reach, Run& run) const {
  if (config_.positions == PositionKind::shortformer && !run.query_key_positions.defined()) {
    run.query_key_positions = pos_embed(run);
  }
  if (reach.first_block > 0) blocks_.front()->prepare(run);
}

at::Tensor Transformer::blocks(at::Tensor resid, const Reach& reach, Run& run) const {
  for (std::int64_t block = std::max(reach.first_block, reach.encoder_blocks); block < reach.end_block;
       ++block) {
    resid = blocks_[static_cast<std::size_t>(block - reach.encoder_blocks)]->forward(std::move(resid), run);
  }
  return resid;
}

at::Tensor Transformer::unembed(const at::Tensor& resid, Run& run) const {
  const auto logits_of = [&](const at::Tensor& x) {
    return unembed_->forward(mlm_head_ ? mlm_head_->forward(x, run) : x, run);
  };
  const auto asked_for = [&](const at::Tensor& x) {
    return run.logit_positions.defined() ? x.index_select(1, run.logit_positions) : x;
  };
  // A watched final norm shows every position; otherwise only those whose logits are asked for are normed.
  if (!ln_final_) return logits_of(asked_for(resid));
  const bool watched = ln_final_->watched(run);
  const at::Tensor input = watched ? resid : asked_for(resid);
  const at::Tensor normed = ln_final_->forward(input, run);
  return logits_of(watched ? asked_for(normed) : normed);
}

WeightSlots Transformer::slots() const {
  WeightSlots all = embed_->slots();
  if (W_pos_.defined()) all.push_back({"pos_embed.W_pos", W_pos_});
  for (const BlockPlace& place : config_.blocks()) {
    const auto& stack = place.stack == Stack::encoder ? encoder_ : blocks_;
    append(all, stack[static_cast<std::size_t>(place.layer)]->slots(place.path()));
  }
  if (encoder_final_ln_) append(all, encoder_final_ln_->slots("encoder_final_ln"));
  if (ln_final_) append(all, ln_final_->slots(config_.has_encoder() ? "decoder_final_ln" : "ln_final"));
  if (mlm_head_) append(all, mlm_head_->slots());
  if (unembed_) append(all, unembed_->slots());
  return all;
}

}  // namespace hooked
