#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>

#include <cstdint>
#include <string>

#include "hooked/analysis/direct_path.h"
#include "hooked/hooks/edit.h"

namespace hooked {

/// A corrupted prompt [1, pos] without padding, and the runs of it and of its clean one.
struct PathPair {
  at::Tensor tokens;
  ActivationCache clean, corrupted;
};

/// The score of one path by plain algebra: the later head's queries, keys or values plus the difference,
/// carried through norms whose scale is held fixed.
inline double path_by_hand(const HookedTransformer& model, const PathPair& pair,
                           const DirectPathOptions& options, HeadPlace source, HeadPlace end) {
  const ModelConfig& config = model.config();
  const auto from = static_cast<std::int32_t>(source.layer), to = static_cast<std::int32_t>(end.layer);
  const auto normed = [&](const at::Tensor& x, const Address& scale, const at::Tensor& w) {
    const at::Tensor centred = config.norm == NormKind::layer_norm ? x - x.mean(-1, true) : x;
    const at::Tensor scaled = centred / pair.corrupted[scale];
    return w.defined() ? scaled * w : scaled;
  };
  const at::Tensor z =
      pair.clean[act::z(from).head(source.head)] - pair.corrupted[act::z(from).head(source.head)];
  at::Tensor delta = at::matmul(z, model.weights().W_O(from)[source.head]);  // [1, pos, d_model]
  if (config.norm_place == NormPlace::output || config.norm_place == NormPlace::both) {
    delta = normed(delta, act::ln1_post_scale(from),
                   model.weights()["blocks." + std::to_string(from) + ".ln1_post.w"]);
  }
  if (config.norm_place != NormPlace::output && config.norm != NormKind::none)
    delta = normed(delta, act::ln1_scale(to), config.norm_folded ? at::Tensor() : model.weights().ln1(to).w);
  const std::int64_t group = config.n_heads / config.n_kv_heads;
  const bool of_queries = options.input == HeadInput::query;
  const act::BlockSite site = of_queries ? act::q : options.input == HeadInput::key ? act::k : act::v;
  const at::Tensor weight = of_queries                        ? model.weights().W_Q(to)[end.head]
                            : options.input == HeadInput::key ? model.weights().W_K(to, end.head * group)
                                                              : model.weights().W_V(to, end.head * group);
  const Edit edit = add(site(to).head(end.head), at::matmul(delta, weight));
  return options.sweep.metric.front().score(model, pair.tokens, {.edits = {edit}})[0].item<double>();
}

}  // namespace hooked
