#include "hooked/engine/weight_view.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "hooked/core/error.h"
#include "loading/loaded_model.h"

namespace hooked {
namespace {

at::Tensor find(const LoadedModel& model, const std::string& name) {
  for (const WeightSlot& slot : model.slots()) {
    if (slot.name == name) return slot.view.detach();
  }
  return {};
}

at::Tensor require(const LoadedModel& model, const std::string& name) {
  at::Tensor weight = find(model, name);
  if (!weight.defined()) {
    throw ConfigError(
        name,
        "this model does not have this weight; expected one that its config gives it; state_dict() "
        "holds them all");
  }
  return weight;
}

std::string in_layer(const LoadedModel& model, std::int64_t layer, std::string_view rest) {
  const std::int64_t n = model.config.n_layers;
  const std::int64_t resolved = layer < 0 ? layer + n : layer;
  if (resolved < 0 || resolved >= n) {
    throw ConfigError("layer", fmt::format("layer {} is out of range; expected {} to {}", layer, -n, n - 1));
  }
  return fmt::format("blocks.{}.{}", resolved, rest);
}

at::Tensor zeros(const LoadedModel& model, at::IntArrayRef sizes) {
  return at::zeros(sizes, at::TensorOptions(model.config.dtype).device(model.device));
}

// Keys and values carry an underscore where they have fewer heads than queries.
std::string grouped(const LoadedModel& model, std::string_view name) {
  return fmt::format("attn.{}{}", model.config.grouped_query() ? "_" : "", name);
}

// What reads the stream for queries, keys or values, unless it makes a latent for them.
at::Tensor of_stream(const LoadedModel& model, std::int64_t layer, char letter) {
  const bool latent = letter == 'Q' ? model.config.query_latent() : model.config.latent_attention();
  const std::string name = letter == 'Q' ? "attn.W_Q" : grouped(model, fmt::format("W_{}", letter));
  if (!latent) return require(model, in_layer(model, layer, name));
  const char* instead = letter == 'Q'   ? "W_DQ and W_UQ"
                        : letter == 'K' ? "W_DKV, W_UK and W_KR"
                                        : "W_DKV and W_UV";
  throw ConfigError(
      in_layer(model, layer, name),
      fmt::format(
          "heads are made from a latent behind a norm, so no one matrix does it; expected a use of {}",
          instead));
}

std::int64_t checked_head(const LoadedModel& model, std::int64_t head) {
  const std::int64_t n = model.config.n_heads;
  const std::int64_t resolved = head < 0 ? head + n : head;
  if (resolved < 0 || resolved >= n) {
    throw ConfigError("head", fmt::format("head {} is out of range; expected {} to {}", head, -n, n - 1));
  }
  return resolved;
}

std::int64_t kv_head_of(const LoadedModel& model, std::int64_t head) {
  return checked_head(model, head) / (model.config.n_heads / model.config.n_kv_heads);
}

// The matrix of one expert as [in, out].
at::Tensor of_expert(const LoadedModel& model, std::int64_t layer, std::int64_t expert,
                     std::string_view matrix) {
  const std::int64_t n = model.config.n_experts();
  const std::int64_t resolved = expert < 0 ? expert + n : expert;
  if (n > 0 && (resolved < 0 || resolved >= n)) {
    throw ConfigError("expert",
                      fmt::format("expert {} is out of range; expected {} to {}", expert, -n, n - 1));
  }
  return require(model, in_layer(model, layer, fmt::format("mlp.experts.{}.{}.weight", resolved, matrix)))
      .t();
}

at::Tensor bias(const LoadedModel& model, const std::string& name, at::IntArrayRef sizes) {
  const at::Tensor found = find(model, name);
  return found.defined() ? found : zeros(model, sizes);
}

}  // namespace

at::Tensor WeightView::W_E() const { return require(*model_, "embed.W_E"); }
at::Tensor WeightView::W_pos() const { return require(*model_, "pos_embed.W_pos"); }
at::Tensor WeightView::W_token_type() const {
  return require(*model_, "embed.token_type_embed.W_token_type");
}
at::Tensor WeightView::W_mlm() const { return require(*model_, "mlm_head.W"); }
at::Tensor WeightView::b_mlm() const { return require(*model_, "mlm_head.b"); }
at::Tensor WeightView::W_U() const {
  return model_->config.tied_unembedding() ? W_E().t() : require(*model_, "unembed.W_U");
}
at::Tensor WeightView::b_U() const { return bias(*model_, "unembed.b_U", {model_->config.d_vocab_out()}); }

at::Tensor WeightView::W_Q(std::int64_t layer) const { return of_stream(*model_, layer, 'Q'); }
at::Tensor WeightView::W_K(std::int64_t layer) const { return of_stream(*model_, layer, 'K'); }
at::Tensor WeightView::W_V(std::int64_t layer) const { return of_stream(*model_, layer, 'V'); }
at::Tensor WeightView::W_O(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_O"));
}

at::Tensor WeightView::W_Q(std::int64_t layer, std::int64_t head) const {
  return W_Q(layer).select(0, checked_head(*model_, head));
}
at::Tensor WeightView::W_K(std::int64_t layer, std::int64_t head) const {
  return W_K(layer).select(0, kv_head_of(*model_, head));
}
at::Tensor WeightView::W_V(std::int64_t layer, std::int64_t head) const {
  return W_V(layer).select(0, kv_head_of(*model_, head));
}
at::Tensor WeightView::W_O(std::int64_t layer, std::int64_t head) const {
  return W_O(layer).select(0, checked_head(*model_, head));
}

at::Tensor WeightView::b_Q(std::int64_t layer) const {
  W_Q(layer);  // throws where heads are made from a latent
  return bias(*model_, in_layer(*model_, layer, "attn.b_Q"), {model_->config.n_heads, model_->config.d_head});
}
at::Tensor WeightView::b_K(std::int64_t layer) const {
  W_K(layer);  // throws where heads are made from a latent
  return bias(*model_, in_layer(*model_, layer, grouped(*model_, "b_K")),
              {model_->config.n_kv_heads, model_->config.d_head});
}
at::Tensor WeightView::b_V(std::int64_t layer) const {
  W_V(layer);  // throws where heads are made from a latent
  return bias(*model_, in_layer(*model_, layer, grouped(*model_, "b_V")),
              {model_->config.n_kv_heads, model_->config.d_head});
}
at::Tensor WeightView::b_O(std::int64_t layer) const {
  return bias(*model_, in_layer(*model_, layer, "attn.b_O"), {model_->config.d_model});
}

at::Tensor WeightView::W_DQ(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_DQ"));
}
at::Tensor WeightView::W_UQ(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_UQ"));
}
at::Tensor WeightView::W_DKV(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_DKV"));
}
at::Tensor WeightView::W_UK(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_UK"));
}
at::Tensor WeightView::W_UV(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_UV"));
}
at::Tensor WeightView::W_KR(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "attn.W_KR"));
}

at::Tensor WeightView::W_in(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "mlp.W_in"));
}
at::Tensor WeightView::W_gate(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "mlp.W_gate"));
}
at::Tensor WeightView::W_out(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "mlp.W_out"));
}
at::Tensor WeightView::b_in(std::int64_t layer) const {
  W_in(layer);  // throws where a mixture stands in the MLP's place
  return bias(*model_, in_layer(*model_, layer, "mlp.b_in"), {model_->config.d_mlp});
}
at::Tensor WeightView::b_out(std::int64_t layer) const {
  W_out(layer);
  return bias(*model_, in_layer(*model_, layer, "mlp.b_out"), {model_->config.d_model});
}

at::Tensor WeightView::W_router(std::int64_t layer) const {
  return require(*model_, in_layer(*model_, layer, "mlp.W_gate.weight")).t();
}
at::Tensor WeightView::W_in(std::int64_t layer, std::int64_t expert) const {
  return of_expert(*model_, layer, expert, "W_in");
}
at::Tensor WeightView::W_gate(std::int64_t layer, std::int64_t expert) const {
  return of_expert(*model_, layer, expert, "W_gate");
}
at::Tensor WeightView::W_out(std::int64_t layer, std::int64_t expert) const {
  return of_expert(*model_, layer, expert, "W_out");
}

}  // namespace hooked
