#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/model_parts.h"

namespace HOOKED_EXPORT hooked {

/// The architecture of a transformer, as a plain value. Nothing in it names a model family, and the module
/// graph honours every field. Parts that a model may lack are optional or one of several kinds, so that their
/// fields exist only with them.
struct ModelConfig {
  // Sizes.
  std::int64_t n_layers = 0;            ///< blocks of the stack that predicts tokens
  std::optional<Encoder> encoder = {};  ///< of an encoder-decoder; none: the model has one stack
  std::int64_t d_model = 0;             ///< width of the residual stream
  std::int64_t n_ctx = 0;               ///< longest sequence in tokens
  std::int64_t n_heads = 0;             ///< attention heads of a block
  std::int64_t n_kv_heads = 0;          ///< key/value heads; equal to n_heads for multi-head attention
  std::int64_t d_head = 0;              ///< width of a head's queries and keys
  /// Sizes of layers without a window; none: all layers have n_kv_heads and d_head.
  std::optional<FullHeads> full_heads = {};
  std::int64_t d_mlp = 0;    ///< 0 without MLPs; the experts' width if every MLP is a mixture
  std::int64_t d_vocab = 0;  ///< input tokens; the unembedding has its own number
  std::optional<Unembedding> unembedding = {};  ///< none: the model ends with the residual stream

  // Norms.
  NormKind norm = NormKind::layer_norm;   ///< of the blocks
  NormPlace norm_place = NormPlace::pre;  ///< where they are in a block
  /// [layer] with the norms before its sublayers, in a model whose other layers have `output` (OLMo Hybrid).
  /// Empty means none; else not all of them.
  std::vector<bool> pre_norm_layers = {};
  NormKind final_norm = NormKind::layer_norm;  ///< none with post placement
  /// Whether attention of the first block reads through a norm, as in the other blocks (false for ModernBERT,
  /// whose embedding is normed).
  bool first_attention_norm = true;
  bool norm_folded = false;          ///< ln1, ln2, ln_final and mlp.ln carry no weights; not for post
  bool norm_bias = true;             ///< LayerNorms have a bias; RMSNorm never has one
  bool norm_offset = false;          ///< a stored w of norms means 1 + w, except in embeddings' and heads'
  bool post_embedding_norm = false;  ///< a norm right after the embedding (BLOOM)
  /// Kind of the embedding's norm, or of the norm of the sum; not none.
  NormKind embedding_norm = NormKind::layer_norm;
  bool embedding_sum_norm =
      false;          ///< a LayerNorm over the sum of token, position and token type embeddings (BERT)
  double eps = 1e-5;  ///< added to the mean square under the root of a norm

  // Blocks.
  BlockLayout layout = BlockLayout::serial;  ///< what the MLP of a block reads
  MlpKind mlp = MlpKind::plain;              ///< what an MLP computes; none: blocks have attention only
  Activation activation = Activation::relu;  ///< of MLPs and experts
  /// Each block ends by multiplying the whole residual stream by its own scalar, `resid_scale` (Gemma
  /// 4).
  bool layer_scale = false;
  bool mlp_norm = false;  ///< a LayerNorm over the neurons after the activation (SoLU+LN, the only use)
  bool mlp_bias = true;   ///< ordinary MLPs and shared experts have biases
  /// Gated MLPs of TransformerLens's native files add b_in after the product instead of inside the up branch.
  bool gated_bias_after_product = false;
  double gate_limit =
      0.0;  ///< gated: the gate is clamped to at most this, the up branch to +- this; 0 is off (gpt-oss)
  bool up_offset = false;               ///< gated: the gate multiplies 1 + the up branch (gpt-oss)
  std::optional<Experts> experts = {};  ///< mixtures of experts; none: every MLP is an ordinary one
  std::optional<LayerInput> layer_input =
      {};  ///< per-layer embeddings: what blocks read of tokens in addition to the stream; none: nothing

  // Attention.
  AttentionDirection direction = AttentionDirection::causal;  ///< of the stack that predicts
  double attn_scale = 1.0;                                    ///< scores are divided by it
  bool scale_by_inverse_layer = false;                        ///< scores are also divided by (layer + 1)
  double score_soft_cap = 0.0;                                ///< scores := cap tanh(scores / cap); 0 is off
  std::optional<QkNorm> qk_norm = {};  ///< norms of queries and keys; none: they are not normed
  bool value_norm = false;             ///< each head's values pass an RMSNorm without a weight (Gemma 4)
  std::optional<QueryGrowth> query_growth = {};  ///< queries are scaled by position, after rotary
  double qkv_clip = 0.0;  ///< q, k and v (after their norms) are clamped to this size; 0 is off
  bool qkv_bias =
      true;  ///< with latents, of the maps that read the stream: to latents, and to the shared key
  bool attn_out_bias = true;           ///< attention has b_O
  std::optional<Latents> latent = {};  ///< latent attention; none: heads read the stream
  std::optional<SharedKeys> shared_keys =
      {};  ///< KV sharing: layers without keys of their own; none: every layer has its own
  /// Each head has one more logit in the softmax over keys, to which no value belongs (gpt-oss).
  bool attention_sinks = false;
  /// Each head's z is multiplied by the sigmoid of gate logits, which a separate map makes from attention's
  /// input (Qiu et al. 2025).
  bool gated_heads = false;
  std::optional<Window> window = {};         ///< layers that see only some keys; none: all see every key
  Positions positions = LearnedPositions{};  ///< how the model encodes positions
  std::optional<ShortConvolution> short_conv = {};  ///< instead of attention; none: every layer has attention
  std::optional<DeltaNet> delta_net = {};           ///< the same for gated delta nets; none: no layer has one

  // Embedding.
  std::int64_t token_types =
      0;  ///< number of token types, each with an embedding that is added to the sum; 0 is none
  double embedding_scale = 1.0;  ///< the embedding is multiplied by it (rounded to dtype), before positions

  // What comes with the weights.
  bool default_prepend_bos = true;           ///< whether texts get a BOS token if the caller does not say
  std::vector<std::string> processing = {};  ///< names of the processing steps already applied to the weights
  at::ScalarType dtype = at::kFloat;         ///< dtype of weights and activations
  LeastDtypes least_dtypes = {};             ///< weights that stay in float32 if dtype is narrower

  /// The dtype of weights with that rule.
  at::ScalarType dtype_of(KeptInFloat32 kept) const {
    const bool narrow = dtype == at::kHalf || (dtype == at::kBFloat16 && kept == KeptInFloat32::in_half);
    return narrow && kept != KeptInFloat32::never ? at::kFloat : dtype;
  }
  /// The dtype of the residual stream.
  at::ScalarType stream_dtype() const { return dtype_of(least_dtypes.mlp_out); }
  /// Whether there is an encoder, so that there are two stacks of blocks, `encoder` and `decoder`.
  bool has_encoder() const { return encoder.has_value(); }
  /// Blocks of the encoder; 0 without one.
  std::int64_t n_encoder_layers() const { return encoder ? encoder->n_layers : 0; }
  /// The stack of the n_layers blocks, the one that predicts tokens.
  Stack main_stack() const { return has_encoder() ? Stack::decoder : Stack::blocks; }
  /// Every block, in the order in which they run.
  std::vector<BlockPlace> blocks() const;
  /// Whether blocks of that stack also attend to later tokens.
  bool bidirectional(Stack stack) const {
    return stack == Stack::encoder || direction == AttentionDirection::bidirectional;
  }
  /// Whether layer `l` has a short convolution instead of attention.
  bool convolves(std::int64_t l) const {
    return short_conv && short_conv->layers[static_cast<std::size_t>(l)];
  }
  /// Whether layer `l` has a gated delta net instead of attention.
  bool recurs(std::int64_t l) const { return delta_net && delta_net->layers[static_cast<std::size_t>(l)]; }
  /// Whether layer `l` has attention; else something else takes its place.
  bool attends(std::int64_t l) const { return !convolves(l) && !recurs(l); }
  /// Whether every layer has attention.
  bool attends_everywhere() const { return !short_conv && !delta_net; }
  /// The name of layer `l`'s token mixer: `attn`, `conv` or `linear_attn`.
  std::string_view mixer(std::int64_t l) const {
    return convolves(l) ? "conv" : recurs(l) ? "linear_attn" : "attn";
  }
  /// The number of layers, from the first on, with keys and values of their own; later layers share theirs.
  std::int64_t layers_with_keys() const { return n_layers - (shared_keys ? shared_keys->layers : 0); }
  /// Whether layer `l` attends with the keys and values of another.
  bool shares_keys(std::int64_t l) const { return shared_keys && l >= layers_with_keys(); }
  /// Whether layer `l` has attention and computes its own keys and values.
  bool makes_keys(std::int64_t l) const { return attends(l) && !shares_keys(l); }
  /// The layer whose keys and values layer `l` attends with.
  std::int64_t key_layer(std::int64_t l) const;
  /// Whether later layers attend with the keys and values of layer `l`.
  bool lends_keys(std::int64_t l) const;
  /// The last layer up to `l` at which a run up to `end_layer` can start. A run that starts after a layer
  /// lacks the keys that this layer lends.
  std::int64_t last_start(std::int64_t l, std::int64_t end_layer) const;
  /// Whether layer `l` attends through a window, sliding or in chunks.
  bool windowed(std::int64_t l) const { return window && window->layers[static_cast<std::size_t>(l)]; }

  /// Width of a head's queries and keys in layers with a window, or in those without.
  std::int64_t head_width_of(bool in_windowed) const {
    return full_heads && !in_windowed ? full_heads->d_head : d_head;
  }
  /// The same for layer `l`.
  std::int64_t head_width(std::int64_t l) const { return head_width_of(windowed(l)); }
  /// Key/value heads of layer `l`.
  std::int64_t kv_heads(std::int64_t l) const {
    return full_heads && !windowed(l) ? full_heads->n_kv_heads : n_kv_heads;
  }
  /// Consecutive heads of layer `l` that share keys and values.
  std::int64_t heads_per_kv(std::int64_t l) const { return n_heads / kv_heads(l); }

  /// The positions if they are rotary, else null.
  const RotaryPositions* rotary() const& { return std::get_if<RotaryPositions>(&positions); }
  /// The same, to change them.
  RotaryPositions* rotary() & { return std::get_if<RotaryPositions>(&positions); }
  /// The same for a temporary, as a copy.
  std::optional<RotaryPositions> rotary() const&& {
    return rotary() ? std::optional(*rotary()) : std::nullopt;
  }
  /// The positions if they are ALiBi, else null.
  const AlibiPositions* alibi() const& { return std::get_if<AlibiPositions>(&positions); }
  /// The same, to change them.
  AlibiPositions* alibi() & { return std::get_if<AlibiPositions>(&positions); }
  /// The same for a temporary, as a copy.
  std::optional<AlibiPositions> alibi() const&& { return alibi() ? std::optional(*alibi()) : std::nullopt; }
  /// The positions if they are relative ones, else null.
  const RelativePositions* relative() const& { return std::get_if<RelativePositions>(&positions); }
  /// The same, to change them.
  RelativePositions* relative() & { return std::get_if<RelativePositions>(&positions); }
  /// The same for a temporary, as a copy.
  std::optional<RelativePositions> relative() const&& {
    return relative() ? std::optional(*relative()) : std::nullopt;
  }
  /// Whether layer `l` of a stack holds the relative position biases.
  bool holds_relative(std::int64_t l) const {
    return relative() != nullptr && (l == 0 || relative()->in_every_block);
  }
  /// Whether W_pos is added to the embedding.
  bool learned_positions() const { return std::holds_alternative<LearnedPositions>(positions); }
  /// Whether W_pos is added to the inputs of queries and keys only.
  bool shortformer() const { return std::holds_alternative<ShortformerPositions>(positions); }
  /// Whether layer `l` applies rotary to its queries and keys.
  bool rotates(std::int64_t l) const {
    const RotaryPositions* r = rotary();
    return r != nullptr && attends(l) &&
           (r->unrotated_layers.empty() || !r->unrotated_layers[static_cast<std::size_t>(l)]);
  }
  /// Whether layer `l` scales its queries by their positions.
  bool grows_queries(std::int64_t l) const {
    return query_growth &&
           (query_growth->layers.empty() || query_growth->layers[static_cast<std::size_t>(l)]);
  }
  /// Whether layer `l` norms its queries and keys.
  bool norms_heads(std::int64_t l) const {
    return qk_norm && attends(l) && (qk_norm->layers.empty() || qk_norm->layers[static_cast<std::size_t>(l)]);
  }
  /// Whether the model has a W_pos.
  bool has_pos_embed() const { return learned_positions() || shortformer(); }
  /// Whether the embedding is a sum with its own name: it is normed, or tokens have types.
  bool summed_embedding() const { return embedding_sum_norm || token_types > 0; }
  /// Where the norms of layer `l` are.
  NormPlace norm_place_in(std::int64_t l) const {
    return !pre_norm_layers.empty() && pre_norm_layers[static_cast<std::size_t>(l)] ? NormPlace::pre
                                                                                    : norm_place;
  }
  /// Whether sublayers of layer `l` read the stream through norms on their branch, ln1 and ln2.
  bool norms_inputs(std::int64_t l) const {
    const NormPlace place = norm_place_in(l);
    return norm != NormKind::none && (place == NormPlace::pre || place == NormPlace::both);
  }
  /// Whether layer `l` norms what its sublayers write to the stream, with ln1_post and ln2_post.
  bool norms_outputs(std::int64_t l) const {
    const NormPlace place = norm_place_in(l);
    return norm != NormKind::none && (place == NormPlace::output || place == NormPlace::both);
  }
  /// Whether any layer does.
  bool norms_outputs() const {
    return norm != NormKind::none && (norm_place == NormPlace::output || norm_place == NormPlace::both);
  }
  /// Whether attention of layer `l` reads the stream through a norm on its branch, ln1.
  bool reads_through_ln1(std::int64_t l) const { return norms_inputs(l) && (l > 0 || first_attention_norm); }
  /// Dimensions of a head of layer `l` that rotary turns; all of them without rotary.
  std::int64_t rotary_dim(std::int64_t l) const { return rotary_dim_of(windowed(l)); }
  /// The same for layers with a window, or for those without.
  std::int64_t rotary_dim_of(bool in_windowed) const {
    return rotary() != nullptr && rotary()->dim > 0 ? rotary()->dim : head_width_of(in_windowed);
  }

  /// Whether several heads share keys and values, in any layer.
  bool grouped_query() const {
    return n_kv_heads != n_heads || (full_heads && full_heads->n_kv_heads != n_heads);
  }
  /// Whether norms are on the residual stream itself, so that it is not the sum of what was written to it.
  bool norms_stream() const {
    return norm != NormKind::none && (norm_place == NormPlace::post || norm_place == NormPlace::stream);
  }
  /// Whether anything but additions happens to the residual stream between blocks.
  bool changes_stream() const { return norms_stream() || layer_scale; }
  /// Whether keys and values are made from a latent.
  bool latent_attention() const { return latent.has_value(); }
  /// Whether queries are made from a latent of their own.
  bool query_latent() const { return latent && latent->d_query > 0; }
  /// Width of the values of a head of layer `l` and of its z.
  std::int64_t value_dim(std::int64_t l) const { return latent ? latent->d_value : head_width(l); }
  /// Width of the part of a key that is not shared between heads.
  std::int64_t own_key_dim() const { return d_head - (latent ? latent->d_shared_key : 0); }
  /// Neurons of the ordinary MLP of layer `l`.
  std::int64_t mlp_width(std::int64_t l) const { return shares_keys(l) ? shared_keys->d_mlp : d_mlp; }
  /// Whether blocks have an MLP.
  bool has_mlp() const { return mlp != MlpKind::none; }
  /// Routed experts of a mixture layer; 0 without mixtures.
  std::int64_t n_experts() const { return experts ? experts->n_experts : 0; }
  /// Whether layer `l` has a mixture of experts.
  bool mixture(std::int64_t l) const {
    return experts && (experts->dense_layers.empty() || !experts->dense_layers[static_cast<std::size_t>(l)]);
  }
  /// Whether layer `l` has an ordinary MLP.
  bool dense_mlp(std::int64_t l) const { return has_mlp() && !mixture(l); }
  /// Whether any MLP takes its biases from mlp_bias: an ordinary one or a shared expert.
  bool some_dense_mlp() const {
    return has_mlp() && (!experts || !experts->dense_layers.empty() || experts->d_shared > 0);
  }
  /// Whether attention and MLP both read the block's input.
  bool parallel() const { return layout != BlockLayout::serial; }
  /// Whether the model has logits.
  bool has_unembedding() const { return unembedding.has_value(); }
  /// Tokens that are predicted; 0 without an unembedding.
  std::int64_t d_vocab_out() const { return unembedding ? unembedding->d_vocab : 0; }
  /// Whether W_U is the transpose of W_E.
  bool tied_unembedding() const { return unembedding && unembedding->tied; }
  /// Whether center_unembed subtracted one number from a position's logits, which changes no probability.
  bool logits_centred() const;
  /// Whether there is a masked-LM head before the unembedding.
  bool has_mlm_head() const { return unembedding && unembedding->mlm_head; }

  /// Number of parameters that a model of this config holds (tied matrices counted once).
  std::int64_t parameter_count() const;

  /// Throws ConfigError naming the field, its value and what is allowed, for every value or combination that
  /// the module graph would not honour. Cheap: call it before allocating anything.
  void validate() const;

  bool operator==(const ModelConfig&) const = default;
};

/// The config of the same model without its unembedding and its final norm. Such a model has activations but
/// no logits.
ModelConfig without_unembedding(ModelConfig config);

/// The config of an encoder-decoder's encoder as a model with one stack (`blocks`) and bidirectional
/// attention. It ends with its final norm, without logits. A config without an encoder is returned unchanged.
ModelConfig encoder_alone(ModelConfig config);

/// TransformerLens's slopes 2^(-8 (i+1) / n_heads), also for head counts that are not a power of two (Press
/// et al. 2022 interleave there). Throws ConfigError for a head count that no model may have.
std::vector<double> geometric_alibi_slopes(std::int64_t n_heads);

}  // namespace hooked
