#include "models/transformer/block.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "models/mixers/delta_net.h"
#include "models/mixers/short_convolution.h"
#include "models/mlp/mixture_mlp.h"
#include "models/mlp/mlp.h"
#include "models/ops/ops.h"

namespace hooked {

Block::Block(const GraphContext& context)
    : config_(context.config),
      layer_(context.layer),
      lends_keys_(config_.lends_keys(layer_)),
      reads_through_norms_(!config_.norms_stream()) {
  const ModelConfig& c = config_;
  hook_resid_pre_ = add_point(*this, Site::resid_pre, context);
  hook_attn_in_ = add_point(*this, Site::attn_in, context);
  hook_q_input_ = add_point(*this, Site::q_input, context);
  hook_k_input_ = add_point(*this, Site::k_input, context);
  hook_v_input_ = add_point(*this, Site::v_input, context);

  const auto norm = [&](const char* name, Site normalized, bool weighted) -> std::shared_ptr<Norm> {
    if (!has_point(normalized, context)) return nullptr;
    return add_norm(*this, name, stream_norm(c, c.norm, normalized, weighted), context);
  };
  const bool weighted = !c.norm_folded;
  ln1_ = norm("ln1", Site::ln1_normalized, weighted);
  // With one norm for both branches, ln2 is ln1 with a second pair of points.
  ln2_ = norm("ln2", Site::ln2_normalized, weighted && c.layout != BlockLayout::parallel_one_norm);
  ln3_ = norm("ln3", Site::ln3_normalized, weighted);
  // Output norms are never folded: nothing linear reads them.
  ln1_post_ = norm("ln1_post", Site::ln1_post_normalized, true);
  ln2_post_ = norm("ln2_post", Site::ln2_post_normalized, true);
  if (c.layout == BlockLayout::parallel_one_norm && ln2_) ln2_->share_weights_of(*ln1_);

  if (c.convolves(context.layer)) {
    mixer_ = register_module("conv", std::make_shared<ShortConvolutionMixer>(context));
  } else if (c.recurs(context.layer)) {
    mixer_ = register_module("linear_attn", std::make_shared<DeltaNetMixer>(context));
  } else {
    mixer_ = attn_ = register_module("attn", std::make_shared<Attention>(context));
  }
  if (c.has_encoder() && context.stack == Stack::decoder) {
    cross_attn_ = register_module("cross_attn", std::make_shared<Attention>(context, Attends::encoder));
  }
  if (reads_through_norms_) mlp_norm_ = cross_attn_ ? ln3_ : ln2_;
  if (c.mixture(context.layer)) {
    mlp_ = register_module("mlp", std::make_shared<MixtureMlp>(context));
  } else if (c.has_mlp()) {
    mlp_ = register_module("mlp", std::make_shared<Mlp>(context, dense_mlp(c, layer_)));
  }
  hook_attn_out_ = add_point(*this, Site::attn_out, context);
  hook_resid_mid_ = add_point(*this, Site::resid_mid, context);
  hook_cross_attn_in_ = add_point(*this, Site::cross_attn_in, context);
  hook_cross_attn_out_ = add_point(*this, Site::cross_attn_out, context);
  hook_resid_mid_cross_ = add_point(*this, Site::resid_mid_cross, context);
  hook_mlp_in_ = add_point(*this, Site::mlp_in, context);
  hook_mlp_out_ = add_point(*this, Site::mlp_out, context);
  if (c.layer_input) {
    layer_input_ = register_module("layer_input", std::make_shared<LayerInputBranch>(context));
  }
  hook_resid_mid_mlp_ = add_point(*this, Site::resid_mid_mlp, context);
  hook_layer_input_out_ = add_point(*this, Site::layer_input_out, context);
  hook_resid_sum_ = add_point(*this, Site::resid_sum, context);
  hook_resid_post_ = add_point(*this, Site::resid_post, context);
  if (c.layer_scale) resid_scale_ = add_parameter(*this, "resid_scale", {1}, context);
  hook_normalized_resid_post_ = add_point(*this, Site::normalized_resid_post, context);
}

at::Tensor Block::replaced(const Point& point, const Point& after, const at::Tensor& resid, const Run& run) {
  if (!point || run.watch.plan().watches_between(after->number(), point->number())) return {};
  return run.watch.replacement(point->number(), resid.sizes(), resid.options());
}

at::Tensor Block::replaced_with_attention(const Point& point, const at::Tensor& resid,
                                          const StackInputs& stack, const Run& run) const {
  if (lends_keys_ || stack.sequence.cache() != nullptr) return {};
  return replaced(point, hook_resid_pre_, resid, run);
}

at::Tensor Block::forward(at::Tensor resid, const StackInputs& stack, Run& run) const {
  resid = hook_resid_pre_->forward(std::move(resid), run.watch);
  if (config_.norm_place == NormPlace::post) return forward_post_norm(resid, stack, run);
  // Norms on the stream itself: what sublayers read is also what they add to.
  const bool norms_stream = config_.norm_place == NormPlace::stream;
  if (const at::Tensor post = replaced_with_attention(hook_resid_post_, resid, stack, run); post.defined()) {
    return hook_resid_post_->forward(post, run.watch);
  }
  if (norms_stream) resid = ln1_->forward(resid, run);
  if (config_.parallel()) {
    const at::Tensor attn_out = attention_branch(resid, stack, run);
    resid = stack.asked_of(resid);
    const at::Tensor mlp_out = mlp_branch(resid, run);
    return finish_block(ops::add(ops::add(resid, attn_out, run), mlp_out, run), stack, run);
  }
  const at::Tensor mid = replaced_with_attention(hook_resid_mid_, resid, stack, run);
  if (mid.defined()) {
    resid = mid;
  } else {
    const at::Tensor attn_out = attention_branch(resid, stack, run);
    resid = ops::add(stack.asked_of(resid), attn_out, run);
  }
  if (!mlp_) return finish_block(std::move(resid), stack, run);
  resid = hook_resid_mid_->forward(std::move(resid), run.watch);
  if (norms_stream) resid = ln2_->forward(resid, run);
  if (cross_attn_) {
    resid = hook_resid_mid_cross_->forward(ops::add(resid, cross_attention_branch(resid, stack, run), run),
                                           run.watch);
  }
  return finish_block(ops::add(resid, mlp_branch(resid, run), run), stack, run);
}

at::Tensor Block::finish_block(at::Tensor sum, const StackInputs& stack, Run& run) const {
  if (layer_input_) {
    sum = hook_resid_mid_mlp_->forward(std::move(sum), run.watch);
    const at::Tensor out = layer_input_->forward(sum, stack, run);
    sum = ops::add(sum, hook_layer_input_out_->forward(out, run.watch), run);
  }
  if (resid_scale_.defined()) {
    sum = ops::multiply(hook_resid_sum_->forward(std::move(sum), run.watch), resid_scale_, run);
  }
  return hook_resid_post_->forward(std::move(sum), run.watch);
}

at::Tensor Block::forward_post_norm(const at::Tensor& resid, const StackInputs& stack, Run& run) const {
  const at::Tensor attn_out = attention_branch(resid, stack, run);
  at::Tensor sum = ops::add(stack.asked_of(resid), attn_out, run);
  if (!mlp_) return hook_resid_post_->forward(ln1_->forward(sum, run), run.watch);
  sum = hook_resid_mid_->forward(sum, run.watch);
  at::Tensor normed = ln1_->forward(sum, run);
  if (cross_attn_) {
    sum = hook_resid_mid_cross_->forward(ops::add(normed, cross_attention_branch(normed, stack, run), run),
                                         run.watch);
    normed = ln2_->forward(sum, run);
  }
  const at::Tensor post =
      hook_resid_post_->forward(ops::add(normed, mlp_branch(normed, run), run), run.watch);
  return hook_normalized_resid_post_->forward((cross_attn_ ? ln3_ : ln2_)->forward(post, run), run.watch);
}

at::Tensor Block::attention_branch(const at::Tensor& resid, const StackInputs& stack, Run& run) const {
  if (at::Tensor out = replaced_with_attention(hook_attn_out_, resid, stack, run); out.defined()) {
    return hook_attn_out_->forward(std::move(out), run.watch);
  }
  AttentionInput input = read_stream(resid, run);
  input.query_key_positions = stack.query_key_positions;
  at::Tensor out = mixer_->forward(input, stack, run);
  if (ln1_post_) out = ln1_post_->forward(out, run);
  return hook_attn_out_->forward(std::move(out), run.watch);
}

at::Tensor Block::cross_attention_branch(const at::Tensor& resid, const StackInputs& stack, Run& run) const {
  const at::Tensor seen = hook_cross_attn_in_->forward(resid, run.watch);
  const at::Tensor read = reads_through_norms_ ? ln2_->forward(seen, run) : seen;
  return hook_cross_attn_out_->forward(cross_attn_->forward({.shared = read}, stack, run), run.watch);
}

at::Tensor Block::mlp_branch(const at::Tensor& resid, Run& run) const {
  if (at::Tensor out = replaced(hook_mlp_out_, hook_attn_out_, resid, run); out.defined()) {
    return hook_mlp_out_->forward(std::move(out), run.watch);
  }
  const at::Tensor input = hook_mlp_in_->forward(resid, run.watch);
  at::Tensor out =
      mlp_->forward({.stream = input, .normed = mlp_norm_ ? mlp_norm_->forward(input, run) : input}, run);
  if (ln2_post_) out = ln2_post_->forward(out, run);
  return hook_mlp_out_->forward(std::move(out), run.watch);
}

AttentionInput Block::read_stream(const at::Tensor& resid, Run& run) const {
  const bool reads_through_ln1 = ln1_ && reads_through_norms_;
  const auto per_head = [&](const at::Tensor& x, std::int64_t heads) {
    return x.unsqueeze(2).expand({-1, -1, heads, -1});
  };

  // Note [Split inputs]
  // Each branch may read its own copy of the stream, one per head. A branch whose copy a hook or edit may
  // change computes its own norm from it; the others keep the shared norm's output. To give an unchanged
  // copy its own gradient, it enters as a leaf that contributes N(leaf) - N(leaf).detach(): zero in value,
  // N's derivative in gradient, while the stream's gradient keeps flowing through ln1 and is not counted
  // twice. If some copy may change, copies with a requested gradient are on the path instead, like the
  // changed one.
  const auto watched = [&](const Point& point) { return point && point->watched(run.watch); };
  const auto may_change = [&](const Point& point) { return point && run.watch.may_change(point->number()); };
  const auto wants_gradient = [&](const Point& point) {
    return point && run.watch.wants_gradient(point->number());
  };
  const bool any_changes = may_change(hook_attn_in_) || may_change(hook_q_input_) ||
                           may_change(hook_k_input_) || may_change(hook_v_input_);
  enum class Reads { shared, leaf, own };
  const auto how = [&](const Point& point) {
    if (may_change(point)) return Reads::own;
    if (!wants_gradient(point)) return Reads::shared;
    return any_changes ? Reads::own : Reads::leaf;
  };
  const auto copy_for = [&](const Point& point, std::int64_t heads) {
    const at::Tensor copies = per_head(resid, heads);
    return how(point) == Reads::leaf ? copies.detach().requires_grad_(true) : copies;
  };
  at::Tensor shared_copy;  // [batch, pos, head, d_model], undefined while nobody watches hook_attn_in
  if (watched(hook_attn_in_))
    shared_copy = hook_attn_in_->forward(copy_for(hook_attn_in_, config_.n_heads), run.watch);
  struct Branch {
    at::Tensor input;
    Reads reads = Reads::shared;
  };
  const auto split = [&](const Point& point, std::int64_t heads) {
    Branch branch{shared_copy, how(hook_attn_in_)};
    if (!watched(point)) return branch;
    branch.input = point->forward(shared_copy.defined() ? shared_copy : copy_for(point, heads), run.watch);
    branch.reads = std::max(branch.reads, how(point));
    return branch;
  };
  const Branch q = split(hook_q_input_, config_.n_heads);
  const Branch k = split(hook_k_input_, config_.kv_heads(layer_));
  const Branch v = split(hook_v_input_, config_.kv_heads(layer_));

  Norm::Output normed{resid, false};
  if (reads_through_ln1) normed = ln1_->forward_with_edits(resid, run);
  const auto own_input = [&](const Branch& branch) -> std::optional<at::Tensor> {
    // An edited ln1 applies to all branches.
    if (branch.reads == Reads::shared || (branch.reads == Reads::own && normed.edited)) return std::nullopt;
    const at::Tensor own = reads_through_ln1 ? ln1_->without_points(branch.input, run) : branch.input;
    if (branch.reads == Reads::own) return own;
    return normed.normed.unsqueeze(2) + (own - own.detach());
  };
  return {.shared = normed.normed, .query = own_input(q), .key = own_input(k), .value = own_input(v)};
}

WeightSlots Block::slots(const std::string& path) const {
  WeightSlots slots;
  add_slots(slots, ln1_, path + ".ln1");
  if (config_.layout != BlockLayout::parallel_one_norm) add_slots(slots, ln2_, path + ".ln2");
  add_slots(slots, ln3_, path + ".ln3");
  add_slots(slots, ln1_post_, path + ".ln1_post");
  add_slots(slots, ln2_post_, path + ".ln2_post");
  add_slots(slots, mixer_, path + "." + std::string(config_.mixer(layer_)));
  add_slots(slots, cross_attn_, path + ".cross_attn");
  add_slots(slots, mlp_, path + ".mlp");
  add_slots(slots, layer_input_, path + ".layer_input");
  add_slot(slots, path + ".resid_scale", resid_scale_);
  return slots;
}

}  // namespace hooked
