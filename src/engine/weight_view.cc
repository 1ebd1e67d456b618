#include "hooked/engine/weight_view.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/nearest.h"
#include "core/to_device.h"
#include "core/weight_table.h"
#include "hooked/core/error.h"
#include "loading/fill/loaded_model.h"

namespace hooked {
namespace {

// What replaces heads' matrices if heads are made from a latent; empty for other weights.
std::string_view instead_of(std::string_view local_name) {
  if (local_name == "attn.W_Q") return "W_DQ and W_UQ";
  if (local_name == "attn.W_K") return "W_DKV, W_UK and W_KR";
  if (local_name == "attn.W_V") return "W_DKV and W_UV";
  return {};
}

[[noreturn]] void refuse(const std::string& name, std::string_view local_name, const LoadedModel& model) {
  if (const auto instead = instead_of(local_name); !instead.empty() && model.config.latent_attention()) {
    throw ConfigError(
        name,
        fmt::format("heads are computed from a normed latent, so no single matrix gives them; expected {}",
                    instead));
  }
  throw ConfigError(name, fmt::format("this model does not have this weight; models have it when {}; "
                                      "state_dict() lists what this one has",
                                      find_weight_row(local_name)->when_there()));
}

// The matrix that a bias belongs to: `attn.W_Q` for `attn.b_Q`.
std::string matrix_of(std::string_view bias) {
  std::string matrix(bias);
  matrix[matrix.rfind('.') + 1] = 'W';
  return matrix;
}

// A weight of a part of the model, in plain spelling. A missing bias is zeros if its matrix exists.
at::Tensor weight_of(const LoadedModel& model, const WeightPart& part, std::string_view local_name) {
  const std::string name = weight_name(part, local_name, model.config);
  const at::Tensor found = model.weight(name);
  if (found.defined()) return found;
  const WeightRow& row = *find_weight_row(local_name);
  if (!row.is_bias()) refuse(name, local_name, model);
  const std::string matrix = matrix_of(local_name);
  const std::string matrix_name = weight_name(part, matrix, model.config);
  // A tied unembedding has no matrix of its own.
  const bool tied = model.config.tied_unembedding() && matrix == "unembed.W_U";
  if (!tied && !model.has_weight(matrix_name)) refuse(matrix_name, matrix, model);
  return at::zeros(weight_shape(row, model.config, part),
                   at::TensorOptions(weight_dtype(row, model.config))
                       .device(tied ? model.placement.exit() : model.weight_device(matrix_name)));
}

// The index of one of `n` things, a negative one counted from the end.
std::int64_t counted(const char* what, std::int64_t index, std::int64_t n) {
  const std::int64_t resolved = index < 0 ? index + n : index;
  if (resolved >= 0 && resolved < n) return resolved;
  throw ConfigError(what, fmt::format("{} {} is out of range; expected {} to {}", what, index, -n, n - 1));
}

at::Tensor outside_blocks(const LoadedModel& model, std::string_view name) {
  return weight_of(model, std::nullopt, name);
}

}  // namespace

WeightView::WeightView(std::shared_ptr<const LoadedModel> model)
    : model_(std::move(model), "weight view"), stack_(model_->config.main_stack()) {}

WeightView WeightView::encoder() const {
  if (!model_->config.has_encoder()) {
    throw ConfigError("encoder", "this model has one stack; expected an encoder-decoder");
  }
  WeightView view(model_.pointer());
  view.stack_ = Stack::encoder;
  return view;
}

WeightView WeightView::cross_attention() const {
  if (stack_ != Stack::decoder) {
    throw ConfigError("cross_attention",
                      "these blocks have no cross-attention; expected those of a decoder with an encoder");
  }
  WeightView view = *this;
  view.attention_ = "cross_attn";
  return view;
}

at::Tensor WeightView::operator[](std::string_view name) const {
  const at::Tensor found = model_->weight(std::string(name));
  if (found.defined()) return found;
  const std::string grouped = grouped_spelling(name);
  throw ConfigError(
      "weights",
      fmt::format("this model has no weight '{}'; expected one of its state_dict(), such as '{}'", name,
                  model_->has_weight(grouped) ? grouped : nearest(name, model_->weight_names())));
}

// --- Outside the blocks.

at::Tensor WeightView::W_E() const { return outside_blocks(*model_, "embed.W_E"); }
at::Tensor WeightView::W_pos() const {
  const bool of_decoder = model_->config.has_encoder() && stack_ == Stack::decoder;
  return outside_blocks(*model_, of_decoder ? "decoder_embed.W_pos" : "pos_embed.W_pos");
}
at::Tensor WeightView::W_token_type() const {
  return outside_blocks(*model_, "embed.token_type_embed.W_token_type");
}
at::Tensor WeightView::W_mlm() const { return outside_blocks(*model_, "mlm_head.W"); }
at::Tensor WeightView::b_mlm() const { return outside_blocks(*model_, "mlm_head.b"); }
at::Tensor WeightView::W_U() const {
  return model_->config.tied_unembedding() ? W_E().t() : outside_blocks(*model_, "unembed.W_U");
}
at::Tensor WeightView::b_U() const { return outside_blocks(*model_, "unembed.b_U"); }

NormWeights WeightView::ln_final() const {
  const std::string_view norm = final_norm_path(stack_);
  return {outside_blocks(*model_, fmt::format("{}.w", norm)), model_->weight(fmt::format("{}.b", norm))};
}

// --- In blocks.

BlockPlace WeightView::place(std::int64_t layer) const {
  const ModelConfig& c = model_->config;
  return {stack_, counted("layer", layer, stack_ == Stack::encoder ? c.n_encoder_layers() : c.n_layers)};
}

std::int64_t WeightView::checked_head(std::int64_t head) const {
  return counted("head", head, model_->config.n_heads);
}

std::int64_t WeightView::kv_head_of(std::int64_t layer, std::int64_t head) const {
  return checked_head(head) / model_->config.heads_per_kv(place(layer).layer);
}

at::Tensor WeightView::in_layer(std::int64_t layer, std::string_view local_name) const {
  return weight_of(*model_, place(layer), local_name);
}

at::Tensor WeightView::of_attention(std::int64_t layer, std::string_view leaf) const {
  return in_layer(layer, fmt::format("{}.{}", attention_, leaf));
}

at::Tensor WeightView::of_expert(std::int64_t layer, std::int64_t expert, std::string_view matrix) const {
  const std::int64_t n = model_->config.n_experts();
  const std::int64_t resolved = n == 0 ? expert : counted("expert", expert, n);
  return in_layer(layer, fmt::format("mlp.experts.{}.{}.weight", resolved, matrix)).t();
}

NormWeights WeightView::norm(std::int64_t layer, std::string_view local_name) const {
  return {in_layer(layer, fmt::format("{}.w", local_name)),
          model_->weight(fmt::format("{}.{}.b", place(layer).path(), local_name))};
}

at::Tensor WeightView::of_all_layers(OfLayer weight) const {
  const ModelConfig& c = model_->config;
  const std::int64_t n = stack_ == Stack::encoder ? c.n_encoder_layers() : c.n_layers;
  std::vector<at::Tensor> layers;
  for (std::int64_t layer = 0; layer < n; ++layer) {
    const at::Tensor own = (this->*weight)(layer);
    if (layer > 0 && own.sizes() != layers.front().sizes()) {
      throw ConfigError(
          "weights",
          "layers differ in the size of this weight (full_heads, shared_keys), so that those of "
          "all layers do not make one tensor; expected the weights of one layer");
    }
    layers.push_back(layer == 0 ? own : to_device(own, layers.front().device()));
  }
  return at::stack(layers);
}

NormWeights WeightView::ln1(std::int64_t layer) const { return norm(layer, "ln1"); }
NormWeights WeightView::ln2(std::int64_t layer) const { return norm(layer, "ln2"); }
NormWeights WeightView::ln3(std::int64_t layer) const { return norm(layer, "ln3"); }

at::Tensor WeightView::W_Q(std::int64_t layer) const { return of_attention(layer, "W_Q"); }
at::Tensor WeightView::W_K(std::int64_t layer) const { return of_attention(layer, "W_K"); }
at::Tensor WeightView::W_V(std::int64_t layer) const { return of_attention(layer, "W_V"); }
at::Tensor WeightView::W_O(std::int64_t layer) const { return of_attention(layer, "W_O"); }
at::Tensor WeightView::W_Q(std::int64_t layer, std::int64_t head) const {
  return W_Q(layer).select(0, checked_head(head));
}
at::Tensor WeightView::W_K(std::int64_t layer, std::int64_t head) const {
  return W_K(layer).select(0, kv_head_of(layer, head));
}
at::Tensor WeightView::W_V(std::int64_t layer, std::int64_t head) const {
  return W_V(layer).select(0, kv_head_of(layer, head));
}
at::Tensor WeightView::W_O(std::int64_t layer, std::int64_t head) const {
  return W_O(layer).select(0, checked_head(head));
}
at::Tensor WeightView::b_Q(std::int64_t layer) const { return of_attention(layer, "b_Q"); }
at::Tensor WeightView::b_K(std::int64_t layer) const { return of_attention(layer, "b_K"); }
at::Tensor WeightView::b_V(std::int64_t layer) const { return of_attention(layer, "b_V"); }
at::Tensor WeightView::b_O(std::int64_t layer) const { return of_attention(layer, "b_O"); }

at::Tensor WeightView::W_Q() const { return of_all_layers(&WeightView::W_Q); }
at::Tensor WeightView::W_K() const { return of_all_layers(&WeightView::W_K); }
at::Tensor WeightView::W_V() const { return of_all_layers(&WeightView::W_V); }
at::Tensor WeightView::W_O() const { return of_all_layers(&WeightView::W_O); }
at::Tensor WeightView::b_Q() const { return of_all_layers(&WeightView::b_Q); }
at::Tensor WeightView::b_K() const { return of_all_layers(&WeightView::b_K); }
at::Tensor WeightView::b_V() const { return of_all_layers(&WeightView::b_V); }
at::Tensor WeightView::b_O() const { return of_all_layers(&WeightView::b_O); }

at::Tensor WeightView::W_DQ(std::int64_t layer) const { return in_layer(layer, "attn.W_DQ"); }
at::Tensor WeightView::W_UQ(std::int64_t layer) const { return in_layer(layer, "attn.W_UQ"); }
at::Tensor WeightView::W_DKV(std::int64_t layer) const { return in_layer(layer, "attn.W_DKV"); }
at::Tensor WeightView::W_UK(std::int64_t layer) const { return in_layer(layer, "attn.W_UK"); }
at::Tensor WeightView::W_UV(std::int64_t layer) const { return in_layer(layer, "attn.W_UV"); }
at::Tensor WeightView::W_KR(std::int64_t layer) const { return in_layer(layer, "attn.W_KR"); }

at::Tensor WeightView::W_in(std::int64_t layer) const { return in_layer(layer, "mlp.W_in"); }
at::Tensor WeightView::W_gate(std::int64_t layer) const { return in_layer(layer, "mlp.W_gate"); }
at::Tensor WeightView::W_out(std::int64_t layer) const { return in_layer(layer, "mlp.W_out"); }
at::Tensor WeightView::b_in(std::int64_t layer) const { return in_layer(layer, "mlp.b_in"); }
at::Tensor WeightView::b_out(std::int64_t layer) const { return in_layer(layer, "mlp.b_out"); }

at::Tensor WeightView::W_in() const { return of_all_layers(&WeightView::W_in); }
at::Tensor WeightView::W_gate() const { return of_all_layers(&WeightView::W_gate); }
at::Tensor WeightView::W_out() const { return of_all_layers(&WeightView::W_out); }
at::Tensor WeightView::b_in() const { return of_all_layers(&WeightView::b_in); }
at::Tensor WeightView::b_out() const { return of_all_layers(&WeightView::b_out); }

at::Tensor WeightView::W_router(std::int64_t layer) const { return in_layer(layer, "mlp.W_gate.weight").t(); }
at::Tensor WeightView::W_in(std::int64_t layer, std::int64_t expert) const {
  return of_expert(layer, expert, "W_in");
}
at::Tensor WeightView::W_gate(std::int64_t layer, std::int64_t expert) const {
  return of_expert(layer, expert, "W_gate");
}
at::Tensor WeightView::W_out(std::int64_t layer, std::int64_t expert) const {
  return of_expert(layer, expert, "W_out");
}
at::Tensor WeightView::W_in_shared(std::int64_t layer) const {
  return in_layer(layer, "mlp.shared_expert.W_in");
}
at::Tensor WeightView::W_gate_shared(std::int64_t layer) const {
  return in_layer(layer, "mlp.shared_expert.W_gate");
}
at::Tensor WeightView::W_out_shared(std::int64_t layer) const {
  return in_layer(layer, "mlp.shared_expert.W_out");
}

}  // namespace hooked
