#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.h"

namespace hooked {

/// How a family stores the matrix of a linear map.
enum class LinearLayout : std::uint8_t {
  out_in,  ///< as torch.nn.Linear
  in_out,  ///< as GPT-2's Conv1D
};

/// Where heads are in a fused projection: for each of ours, its index among the blocks of d_head rows.
struct FusedHeads {
  std::vector<std::int64_t> q, k, v;

  /// All queries, then all keys, then all values.
  static FusedHeads side_by_side(const ModelConfig& config);
  /// Groups of n_heads / n_kv_heads queries, their key and their value.
  static FusedHeads by_group(const ModelConfig& config);
};

/// The row of a family whose files have everything but the unembedding under `transformer.`, as GPT-2's do.
constexpr Family transformer_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                                    FamilyRecipes recipes, std::span<const std::string_view> buffers = {}) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = "transformer.",
          .unembedding = "lm_head.weight",
          .buffers = buffers};
}

/// One of `count` experts in a tensor of all experts, a view. Throws if the tensor has another number.
at::Tensor expert_of(const at::Tensor& all, std::int64_t expert, std::int64_t count);

/// How a family stores its routed experts. Names are relative to the block.
struct MixtureNames {
  std::string router = "mlp.gate.weight";
  std::string router_alias = {};  ///< another name for it in files
  /// One expert's place, with `{}` for its number; empty: only in a tensor of all experts.
  std::string expert = "mlp.experts.{}.";
  std::string gate = "gate_proj", in = "up_proj", out = "down_proj";  ///< its maps, without `.weight`
  /// All experts of the layer in one: gate and up stacked, [expert, 2 d_mlp, d_model], and down [expert,
  /// d_model, d_mlp]. Used if a file does not have the experts one by one.
  std::string gate_up = "mlp.experts.gate_up_proj", down = "mlp.experts.down_proj";
  std::string gate_up_alias = {}, down_alias = {};
  /// Whether matrices in those two are transposed, [expert, d_model, 2 d_mlp] and [expert, d_mlp, d_model].
  enum Turned : std::uint8_t {
    no,
    yes,
    where_needed,  ///< if they fit only so
  };
  Turned turned = no;
};

/// Builds the recipes of a family: each call states the name under which one part of the model is stored.
/// Biases are expected exactly if the config has them.
///
/// Names inside `each_block` are relative to the block on both sides.
class Recipes {
 public:
  explicit Recipes(const ModelConfig& config, LinearLayout layout = LinearLayout::out_in);

  /// Calls `block` for every layer; `theirs` is the layer's place with `{}` for its number (`layers.{}.`).
  void each_block(std::string_view theirs, const std::function<void(std::int64_t layer)>& block);
  /// The same for one stack of an encoder-decoder.
  void each_block(Stack stack, std::string_view theirs, const std::function<void(std::int64_t layer)>& block);

  /// The current layer of `each_block`.
  std::int64_t layer() const noexcept { return layer_; }

  /// A tensor as it is.
  void copy(std::string_view ours, std::string_view theirs);
  /// A matrix [in, out] that is stored [out, in].
  TensorRecipe& turned(std::string_view ours, std::string_view theirs);
  /// A tensor times a number.
  void scaled_copy(std::string_view ours, std::string_view theirs, double scale);
  /// A tensor built from several of theirs, or from none. The reference is valid until the next call.
  TensorRecipe& make(std::string_view ours, const std::vector<std::string>& theirs,
                     std::function<at::Tensor(const std::vector<at::Tensor>&)> how);

  /// Another name in files for the recipe's one source.
  void or_named(TensorRecipe& recipe, std::string_view theirs_name) const {
    recipe.alias = theirs(theirs_name);
  }

  /// How the recipe's tensor is built from files that have none of its sources.
  void or_made_of(TensorRecipe& recipe, const std::vector<std::string>& theirs,
                  std::function<at::Tensor(const std::vector<at::Tensor>&)> how) const;

  void embedding(std::string_view theirs) { copy("embed.W_E", theirs); }
  /// Learned positions; `offset` rows at the start of their table belong to no position.
  void positions(std::string_view theirs, std::int64_t offset = 0);
  /// The unembedding's matrix unless it is tied, and its bias: `theirs` without `.weight`, and another name
  /// that they may have.
  void unembedding(std::string_view theirs, std::string_view alias = {});

  /// Whether a layer's bias is stored, or zeros replace it.
  enum class LayerBias : std::uint8_t { stored, zeros };
  /// The masked-LM head before the unembedding: its layer and its norm.
  void mlm_head(std::string_view their_layer, std::string_view their_norm,
                LayerBias bias = LayerBias::stored);

  /// A norm of width d_model. Older files call weight and bias gamma and beta.
  void norm(std::string_view ours, std::string_view theirs);
  /// A norm without a bias whose output is multiplied by `scale`.
  void scaled_norm(std::string_view ours, std::string_view theirs, double scale);
  /// A norm that is stored without a weight: ones.
  void plain_norm(std::string_view ours);
  /// The norms of queries and, in layers that compute keys, of keys.
  void qk_norm(std::string_view their_q, std::string_view their_k);
  /// The same if they are stored without weights: ones, which all heads share.
  void plain_qk_norm();

  void queries(std::string_view theirs) { heads('Q', theirs); }
  /// In layers that compute keys and values.
  void keys(std::string_view theirs) { heads('K', theirs); }
  void values(std::string_view theirs) { heads('V', theirs); }  ///< as keys
  /// Queries and the gates of heads in one: for each head, its queries, then its gate.
  void gated_queries(std::string_view theirs);
  void fused_qkv(std::string_view theirs, const FusedHeads& heads);
  /// The output projection; its output is multiplied by `scale`.
  void attention_out(std::string_view theirs, double scale = 1.0);

  /// A short convolution: the map to B, C and x stacked, the convolution [d_model, 1, tap], and the output's
  /// map.
  void short_convolution(std::string_view their_in, std::string_view their_filter,
                         std::string_view their_out);

  /// Within `parts`, queries, keys, values and output projection are those of cross-attention.
  void cross_attention(const std::function<void()>& parts);

  void mlp_in(std::string_view theirs) { linear("mlp.W_in", "mlp.b_in", theirs); }
  void mlp_gate(std::string_view theirs) { linear("mlp.W_gate", "mlp.b_gate", theirs); }
  /// Gate and up projection stacked.
  void fused_gate_up(std::string_view theirs);
  void mlp_out(std::string_view theirs, double scale = 1.0);

  /// A mixture of experts without its shared expert. The experts' output is multiplied by `scale`.
  void mixture(const MixtureNames& names, double scale = 1.0);
  /// `mlp.shared_expert`, a gated MLP.
  void shared_expert(std::string_view theirs);
  /// The same without biases and with gate and up projection stacked; its output is multiplied by
  /// `scale`.
  void fused_shared_expert(std::string_view their_gate_up, std::string_view their_down, double scale = 1.0);

  std::vector<TensorRecipe> take() && { return std::move(recipes_); }

 private:
  std::string ours(std::string_view name) const { return ours_ + std::string(name); }
  std::string theirs(std::string_view name) const { return theirs_ + std::string(name); }
  /// `attn.W_K` or `cross_attn.W_K`, with the underscore in the names of grouped keys and values.
  std::string head_name(char kind, char letter) const;
  void heads(char letter, std::string_view theirs);
  /// `ours`, a matrix of one expert, stored under `theirs`, or cut from a tensor of all experts.
  struct Cut {
    std::string theirs, alias;                          ///< the tensor of all experts
    std::int64_t expert;                                ///< whose slice is cut
    std::function<at::Tensor(const at::Tensor&)> made;  ///< of the slice
  };
  void expert_matrix(const std::string& ours, const std::string& theirs, double scale, const Cut& cut);
  void linear(std::string_view weight, std::string_view bias, std::string_view theirs);

  ModelConfig config_;
  LinearLayout layout_;
  std::int64_t layer_ = -1;
  std::string ours_, theirs_;
  std::string attention_ = "attn";
  std::vector<TensorRecipe> recipes_;
};

}  // namespace hooked
