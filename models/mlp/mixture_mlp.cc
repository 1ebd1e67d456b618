#include "models/mlp/mixture_mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "models/graph/graph.h"
#include "models/mlp/expert_rows.h"
#include "models/ops/ops.h"

namespace hooked {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// The smallest positive sum, for weights in float32 or float64.
double least_positive(const at::Tensor& weights) {
  return weights.scalar_type() == at::kDouble ? std::numeric_limits<double>::denorm_min()
                                              : std::numeric_limits<float>::denorm_min();
}

at::Tensor largest(const at::Tensor& values, std::int64_t count) {
  return std::get<1>(at::topk(values, count, -1));
}

// Hooks and edits may send tokens anywhere; on a GPU a nonexistent expert would crash the process.
void require_experts(const at::Tensor& experts, std::int64_t n_experts, const std::string& where) {
  if (!(experts < 0).logical_or(experts >= n_experts).any().item<bool>()) return;
  throw HookError(
      where,
      fmt::format("a hook or edit chose an expert that does not exist; expected 0 to {}, got {} to {}",
                  n_experts - 1, experts.min().item<std::int64_t>(), experts.max().item<std::int64_t>()));
}

at::Tensor through(const std::shared_ptr<Norm>& norm, const at::Tensor& x, Run& run) {
  return norm ? norm->forward(x, run) : x;
}

// How often each number below `end` occurs. On CUDA bincount asks for the smallest and the largest, and waits
// for both.
at::Tensor counts_of(const at::Tensor& numbers, std::int64_t end) {
  if (numbers.device().is_cpu()) return at::bincount(numbers, {}, end);
  return at::zeros({end}, numbers.options()).scatter_add_(0, numbers, at::ones_like(numbers));
}

}  // namespace

MixtureMlp::MixtureMlp(const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = config_;
  const Experts& e = *c.experts;
  const auto parameter = [&](const char* name, at::IntArrayRef sizes,
                             KeptInFloat32 kept = KeptInFloat32::never) {
    return register_parameter(name, at::empty(sizes, context.options.dtype(c.dtype_of(kept))),
                              /*requires_grad=*/false);
  };
  GraphContext of_router = context;
  of_router.options = context.options.dtype(c.dtype_of(c.least_dtypes.router));
  // Products with unrounded sums read a matrix as it is.
  if (e.router_in_float32) of_router.storage = Storage::plain;
  W_gate_ =
      add_matrix(*this, "W_gate", e.n_experts, c.d_model, {.out = e.n_experts, .in = c.d_model}, of_router);
  if (e.router_bias) b_gate_ = parameter("b_gate", {e.n_experts}, c.least_dtypes.router);
  if (e.choice_bias) choice_bias_ = parameter("choice_bias", {e.n_experts}, c.least_dtypes.choice_bias);
  if (e.expert_scale) expert_scale_ = parameter("expert_scale", {e.n_experts});
  hook_in_ = add_point(*this, Site::mlp_input, context);
  hook_expert_weights_ = add_point(*this, Site::expert_weights, context);
  hook_expert_indices_ = add_point(*this, Site::expert_indices, context);

  const auto folder = register_module("experts", std::make_shared<Folder>());
  GraphContext of_expert = context;
  ParameterStack stack(e.n_experts);
  const bool on_cpu = context.options.device().is_cpu();
  if (!on_cpu) of_expert.stack_of_experts = &stack;
  for (of_expert.expert = 0; of_expert.expert < e.n_experts; ++of_expert.expert) {
    const MlpPlace place{.width = e.d_expert,
                         .bias = e.bias,
                         .pre = Site::expert_gate,
                         .pre_linear = Site::expert_pre,
                         .post = Site::expert_post,
                         .in = Site::expert_in,
                         .linear_names = true};
    experts_.push_back(
        folder->register_module(std::to_string(of_expert.expert), std::make_shared<Mlp>(of_expert, place)));
  }
  if (!on_cpu) {
    stacked_.emplace(StackedExperts::Weights{.W_in = stack.whole("W_gate_in"),
                                             .b_in = stack.whole("b_gate_in"),
                                             .W_out = stack.whole("W_out"),
                                             .b_out = stack.whole("b_out")},
                     neurons_of(c), context.multiplies_groups, e.weighted_inputs);
  }
  if (e.d_shared == 0) return;
  const MlpPlace place{.width = e.d_shared,
                       .bias = c.mlp_bias,
                       .pre = Site::shared_pre,
                       .pre_linear = Site::shared_pre_linear,
                       .post = Site::shared_post};
  shared_expert_ = register_module("shared_expert", std::make_shared<Mlp>(context, place));
  if (e.own_norms) add_norms(context);
  if (!e.shared_gate) return;
  W_shared_gate_ = parameter("W_shared_gate", {1, c.d_model});
  if (e.shared_gate_bias) b_shared_gate_ = parameter("b_shared_gate", {1});
  hook_shared_weight_ = add_point(*shared_expert_, Site::shared_weight, context);
}

void MixtureMlp::add_norms(const GraphContext& context) {
  const auto add = [&](torch::nn::Module& owner, const char* name, Site normalized, bool folds) {
    const bool weighted = !folds || !config_.norm_folded;
    return add_norm(owner, name, stream_norm(config_, config_.norm, normalized, weighted), context);
  };
  router_ln_ = add(*this, "router_ln", Site::router_ln_normalized, /*folds=*/true);
  experts_ln_ = add(*this, "experts_ln", Site::experts_ln_normalized, /*folds=*/true);
  experts_ln_post_ = add(*this, "experts_ln_post", Site::experts_ln_post_normalized, /*folds=*/false);
  shared_ln_post_ = add(*shared_expert_, "ln_post", Site::shared_ln_post_normalized, /*folds=*/false);
}

at::Tensor MixtureMlp::forward(const FeedForwardInput& input, Run& run) const {
  const at::Tensor normed = hook_in_->forward(input.normed, run.watch);
  const Routing routing = route(router_ln_ ? router_ln_->forward(input.stream, run) : normed, run);
  const at::Tensor read = experts_ln_ ? experts_ln_->forward(input.stream, run) : normed;
  const at::Tensor sums = routed(read.reshape({-1, read.size(-1)}), routing, run).view(read.sizes());
  const at::Tensor out = through(experts_ln_post_, sums, run);
  if (!shared_expert_) return out;
  return ops::add(out, through(shared_ln_post_, shared(normed, run), run), run);
}

MixtureMlp::Routing MixtureMlp::route(const at::Tensor& x, Run& run) const {
  const Experts& e = *config_.experts;
  const bool weights_watched = hook_expert_weights_->watched(run.watch);
  const Choice choice = choose(logits(x, run), weights_watched);
  const at::Tensor weights =
      weights_watched ? hook_expert_weights_->forward(choice.weights, run.watch) : choice.weights;
  at::Tensor chosen = choice.experts, ranked = weights_watched ? at::Tensor() : choice.ranked;
  if (!chosen.defined()) {
    const Choice by_weights = chosen_by(weights);
    chosen = by_weights.experts;
    ranked = by_weights.ranked;
  } else if (run.watch.may_change(hook_expert_weights_->number())) {
    const at::Tensor unchanged = (weights == choice.weights).all(-1, /*keepdim=*/true);
    chosen = at::where(unchanged, chosen, largest(weights, e.per_token));
  }
  if (!ranked.defined()) ranked = weights.gather(-1, chosen);
  if (e.renormalised) ranked = renormalised(ranked, run);
  if (expert_scale_.defined())
    ranked = ranked * expert_scale_.index_select(0, chosen.reshape({-1})).view(chosen.sizes());
  chosen = hook_expert_indices_->forward(chosen, run.watch);
  if (run.watch.may_change(hook_expert_indices_->number())) {
    require_experts(chosen, e.n_experts, run.watch.points().name(hook_expert_indices_->number()).to_string());
  }
  return {chosen, ranked.to(x.scalar_type())};
}

at::Tensor MixtureMlp::logits(const at::Tensor& x, Run& run) const {
  if (config_.experts->router_in_float32) {
    return ops::unrounded_linear(x.to(W_gate_.dtype()), W_gate_, b_gate_, run);
  }
  const at::ScalarType precision = config_.dtype == at::kDouble ? at::kDouble : at::kFloat;
  return ops::linear(x, W_gate_, b_gate_, run).to(precision);
}

at::Tensor MixtureMlp::renormalised(const at::Tensor& ranked, const Run& run) const {
  const Experts& e = *config_.experts;
  const at::Tensor sum = ranked.sum(-1, /*keepdim=*/true);
  if (e.least_sum > 0) return ranked / sum.clamp_min(e.least_sum);
  if (e.added_to_sum > 0) return ranked / (sum + e.added_to_sum);
  // The largest parts of a softmax are not all zero; sigmoids may be. Edits may make sums zero or negative.
  const bool edited = run.watch.may_change(hook_expert_weights_->number());
  if (edited) return ranked / sum.masked_fill(sum == 0.0, 1.0);
  if (e.router == RouterKind::softmax_then_choose) return ranked / sum;
  return ranked / sum.clamp_min(least_positive(sum));
}

MixtureMlp::Choice MixtureMlp::choose(const at::Tensor& logits, bool all_wanted) const {
  switch (config_.experts->router) {
    case RouterKind::softmax_then_choose:
      return {at::softmax(logits, -1), {}, {}};
    case RouterKind::sigmoid_then_choose:
      return {at::sigmoid(logits), {}, {}};
    case RouterKind::choose_then_softmax: {
      const auto [values, experts] = at::topk(logits, config_.experts->per_token, -1);
      const at::Tensor ranked = at::softmax(values, -1);
      if (!all_wanted) return {{}, experts, ranked};
      return {at::zeros_like(logits).scatter(-1, experts, ranked), experts, {}};
    }
    case RouterKind::sparse_mixer:
      break;
  }
  return mix_sparsely(logits);
}

MixtureMlp::Choice MixtureMlp::chosen_by(const at::Tensor& weights) const {
  const Experts& e = *config_.experts;
  if (!choice_bias_.defined() && e.n_groups == 1) {
    const auto [ranked, experts] = at::topk(weights, e.per_token, -1);
    return {{}, experts, ranked};
  }
  const at::Tensor ranking = choice_bias_.defined() ? weights + choice_bias_ : weights;
  return {{}, largest(e.n_groups > 1 ? within_best_groups(ranking) : ranking, e.per_token), {}};
}

at::Tensor MixtureMlp::within_best_groups(const at::Tensor& ranking) const {
  const Experts& e = *config_.experts;
  const at::Tensor groups = ranking.unflatten(-1, {e.n_groups, e.n_experts / e.n_groups});
  const std::int64_t counted = e.group_score == GroupScore::best_two ? 2 : 1;
  const at::Tensor scores = std::get<0>(at::topk(groups, counted, -1)).sum(-1);  // [batch, pos, group]
  const at::Tensor outside =
      at::ones_like(scores, at::kBool).scatter(-1, largest(scores, e.groups_per_token), 0);
  return groups.masked_fill(outside.unsqueeze(-1), kExcluded).flatten(-2);
}

MixtureMlp::Choice MixtureMlp::mix_sparsely(const at::Tensor& logits) const {
  at::Tensor weights = at::zeros_like(logits);
  at::Tensor open = logits;  // open to be chosen
  std::vector<at::Tensor> chosen;
  for (std::int64_t rank = 0; rank < config_.experts->per_token; ++rank) {
    const auto [best, expert] = open.max(-1, /*keepdim=*/true);
    const at::Tensor below = (best - logits) / at::maximum(logits.abs(), best);
    const at::Tensor near = open.masked_fill(below > config_.experts->mixer_tolerance, kExcluded);
    weights = weights.scatter(-1, expert, at::softmax(near, -1).gather(-1, expert));
    open = open.scatter(-1, expert, kExcluded);
    chosen.push_back(expert);
  }
  return {weights, at::cat(chosen, -1), {}};
}

bool MixtureMlp::as_one(const Run& run) const {
  // Each expert's own weights receive the gradients.
  if (!stacked_ || (W_gate_.stored().defined() && W_gate_.stored().requires_grad())) return false;
  return std::ranges::none_of(experts_, [&](const auto& expert) { return expert->watched(run); });
}

at::Tensor MixtureMlp::routed(const at::Tensor& tokens, const Routing& routing, Run& run) const {
  if (!as_one(run)) return one_by_one(tokens, routing, run);
  const at::Tensor sums =
      stacked_->forward(tokens, {routing.experts.flatten(0, 1), routing.weights.flatten(0, 1)}, run);
  const at::Tensor& real = run.sequence.real();
  if (!real.defined()) return sums;
  return sums.masked_fill(to_device(real, sums.device()).logical_not().view({-1, 1}), 0.0);
}

at::Tensor MixtureMlp::one_by_one(const at::Tensor& tokens, const Routing& routing, Run& run) const {
  const std::int64_t n_tokens = tokens.size(0), ranks = config_.experts->per_token;
  const std::int64_t n_experts = config_.experts->n_experts;
  // One place per rank and token, by rank first; sorted by expert, each expert's places are adjacent.
  at::Tensor owners = routing.experts.reshape({n_tokens, ranks}).t().reshape({-1});
  if (const at::Tensor& real = run.sequence.real(); real.defined()) {
    const at::Tensor here = to_device(real, owners.device());
    owners = owners.masked_fill(here.logical_not().reshape({-1}).repeat({ranks}), n_experts);
  }
  const at::Tensor places = at::argsort(owners, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor counts = counts_of(owners, n_experts + 1).to(at::kCPU);
  const std::int64_t* count = counts.data_ptr<std::int64_t>();
  ExpertRows rows{.tokens = n_tokens, .ranks = ranks, .d_model = tokens.size(1), .places = {}, .written = {}};
  const at::Tensor weights = routing.weights.reshape({n_tokens, ranks});
  at::Tensor weights_of_places;  // if experts read tokens times these
  if (config_.experts->weighted_inputs) weights_of_places = weights.t().reshape({-1});
  std::int64_t first = 0;
  for (std::int64_t e = 0; e < n_experts; first += count[e++]) {
    const auto& expert = experts_[static_cast<std::size_t>(e)];
    if (count[e] == 0 && !expert->watched(run)) continue;
    const at::Tensor whose = places.narrow(0, first, count[e]).remainder(n_tokens);
    at::Tensor read = ops::rows_at(tokens, whose, run);
    if (weights_of_places.defined()) {
      read = read * weights_of_places.index_select(0, places.narrow(0, first, count[e])).unsqueeze(1);
    }
    rows.written.push_back(expert->forward(read, run));
  }
  rows.places = places.narrow(0, 0, first);
  return weighted_sum(rows, weights_of_places.defined() ? at::ones_like(weights) : weights, run);
}

at::Tensor MixtureMlp::shared(const at::Tensor& x, Run& run) const {
  const at::Tensor out = shared_expert_->forward(x, run);
  if (!W_shared_gate_.defined()) return out;
  const at::Tensor weight = at::sigmoid(ops::linear(x, W_shared_gate_, b_shared_gate_, run));
  return out * hook_shared_weight_->forward(weight, run.watch);
}

WeightSlots MixtureMlp::slots(const std::string& path) const {
  WeightSlots slots{{path + ".W_gate.weight", W_gate_.as_out_in()}};
  add_slot(slots, path + ".W_gate.bias", b_gate_);
  add_slot(slots, path + ".choice_bias", choice_bias_);
  add_slot(slots, path + ".expert_scale", expert_scale_);
  add_slots(slots, router_ln_, path + ".router_ln");
  add_slots(slots, experts_ln_, path + ".experts_ln");
  add_slots(slots, experts_ln_post_, path + ".experts_ln_post");
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    add_slots(slots, experts_[e], path + ".experts." + std::to_string(e));
  }
  add_slots(slots, shared_expert_, path + ".shared_expert");
  add_slots(slots, shared_ln_post_, path + ".shared_expert.ln_post");
  add_slot(slots, path + ".shared_expert_gate.weight", W_shared_gate_);
  add_slot(slots, path + ".shared_expert_gate.bias", b_shared_gate_);
  return slots;
}

}  // namespace hooked
