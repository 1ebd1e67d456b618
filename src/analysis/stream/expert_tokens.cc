#include "analysis/stream/expert_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <tuple>

#include "analysis/places/cache_reading.h"
#include "analysis/places/input_rows.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/edit.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

/// The experts that the router chose by its weights, [batch, pos, rank], before hooks and edits sent tokens
/// elsewhere. The model itself computes them, in a run of only this layer with these weights.
at::Tensor chosen_by_router(const HookedTransformer& model, std::int32_t layer, const at::Tensor& weights,
                            const at::Tensor& sent_to) {
  const HookedTransformer plain(model.loaded());  // without the hooks of the handle
  const Address choice = act::expert_indices(layer);
  const at::Tensor nothing =
      at::zeros({weights.size(0), weights.size(1), plain.config().d_model},
                at::TensorOptions(plain.config().stream_dtype()).device(plain.device()));
  const auto run = plain.run(at_layer(plain.config(), plain.config().last_start(layer, layer + 1), nothing),
                             {.edits = {set(act::expert_weights(layer), weights)},
                              .capture = choice,
                              .output = Output::none,
                              .stop_at_layer = layer + 1});
  const at::Tensor chosen = run.cache[choice].to(at::kCPU);
  if (plain.config().experts->router != RouterKind::sparse_mixer) return chosen;
  // Its ranks differ from those of the weights. If the experts are the same, tokens went where it chose.
  const auto same = std::get<0>(chosen.sort(-1)).eq(std::get<0>(sent_to.sort(-1))).all(-1, /*keepdim=*/true);
  return at::where(same, sent_to, chosen);
}

/// The weight of each rank's output, [batch, pos, rank], from the router's weights of all experts. `scale`
/// [expert]: of Experts::expert_scale, else undefined.
at::Tensor weights_of_chosen(const at::Tensor& weights, const at::Tensor& chosen, const at::Tensor& scale,
                             const Experts& experts) {
  auto ranked = weights.gather(-1, chosen);
  if (experts.weighted_inputs) return at::ones_like(ranked);  // their outputs are added as they are
  if (experts.renormalised) {
    const auto sum = ranked.sum(-1, /*keepdim=*/true) + experts.added_to_sum;
    // Only edits can make the sum zero if nothing is added.
    ranked = ranked /
             (experts.least_sum > 0 ? sum.clamp_min(experts.least_sum) : sum.masked_fill(sum == 0.0, 1.0));
  }
  return scale.defined() ? ranked * scale.index_select(0, chosen.flatten()).view(chosen.sizes()) : ranked;
}

// [batch, pos, rank] by rank first, then row and position: the order in which experts get their tokens.
at::Tensor by_rank(const at::Tensor& x) { return x.permute({2, 0, 1}).flatten(); }

}  // namespace

ExpertTokens::ExpertTokens(std::int32_t layer, const RunReading& run)
    : run_(run), indices_(run.cache.entry(Address(act::expert_indices(layer)).name()).name) {
  const auto chosen = run.cache[indices_].to(at::kCPU);
  const auto weights = run.cache[act::expert_weights(layer)].to(at::kCPU, at::kDouble);
  batch_ = chosen.size(0);
  length_ = chosen.size(1);
  ranks_ = chosen.size(2);
  const auto& tokens = run.cache.tokens();
  if (!HeldColumns(run.cache, run.cache.entry(indices_)).all_of_the_run()) {
    throw HookError(
        indices_.to_string(),
        "only some positions were kept; expected all of them for the experts' tokens; run without "
        "RunOptions::keep.positions");
  }
  auto owners = chosen;
  if (tokens && tokens->mask.defined())
    owners = owners.masked_fill(tokens->mask.to(at::kCPU).logical_not().unsqueeze(-1), -1);
  owners_ = by_rank(owners);
  // Edits of the choice send tokens elsewhere, while weights stay with their rank.
  const auto of_router = chosen_by_router(run.model, layer, run.cache[act::expert_weights(layer)], chosen);
  const Experts& experts = *run.model.config().experts;
  at::Tensor scale;
  if (experts.expert_scale) {
    scale = run.model.weights()[fmt::format("blocks.{}.mlp.expert_scale", indices_.layer)].to(at::kCPU,
                                                                                              at::kDouble);
  }
  weights_ = by_rank(weights_of_chosen(weights, of_router, scale, experts));
}

at::Tensor ExpertTokens::places_of(std::int64_t expert) const {
  return owners_.eq(expert).nonzero().flatten();
}

at::Tensor ExpertTokens::at_columns(const at::Tensor& by_token) const {
  return columns_like(run_.cache, indices_, by_token.view({batch_, length_, -1}), run_.columns);
}

at::Tensor ExpertTokens::weight(std::int32_t expert) const {
  const auto places = places_of(expert);
  return at_columns(
      at::zeros({batch_ * length_, 1}, at::kDouble)
          .index_add(0, places.remainder(batch_ * length_), weights_.index_select(0, places).unsqueeze(1)));
}

at::Tensor ExpertTokens::weighted(const Address& activation) const {
  const auto value = run_.cache[activation].to(at::kCPU, at::kDouble);  // [routed, width]
  const auto places = places_of(activation.name().expert);
  if (value.size(0) != places.size(0)) {
    throw HookError(run_.cache.entry(activation.name()).name.to_string(),
                    fmt::format("it holds {} tokens; expected the {} that the router sent to this expert",
                                value.size(0), places.size(0)));
  }
  return at_columns(at::zeros({batch_ * length_, value.size(1)}, at::kDouble)
                        .index_add(0, places.remainder(batch_ * length_),
                                   value * weights_.index_select(0, places).unsqueeze(1)));
}

}  // namespace hooked
