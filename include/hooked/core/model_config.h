#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/block_place.h"

namespace hooked {

enum class NormKind : std::uint8_t { none, layer_norm, rms_norm };

/// Where a block's norms N stand around a sublayer f (reference: DESIGN 9.6).
enum class NormPlace : std::uint8_t {
  pre,     ///< x + f(N(x)), the usual choice
  post,    ///< N(x + f(x)), as in BERT and OPT-350m; there is no final norm
  output,  ///< x + N(f(x)), as in OLMo 2
  both,    ///< x + N'(f(N(x))), as in Gemma 2
  stream,  ///< N(x) + f(N(x)): the stream itself is normed before each sublayer (BLOOM's post_layernorm)
};

enum class BlockLayout : std::uint8_t {
  serial,              ///< the MLP reads the stream after attention has written to it
  parallel_two_norms,  ///< both read the block's input, each through its own norm (GPT-NeoX)
  parallel_one_norm,   ///< both read the block's input through ln1 (GPT-J, Phi)
};

enum class MlpKind : std::uint8_t {
  none,   ///< attention-only model
  plain,  ///< act(x W_in + b_in) W_out + b_out
  gated,  ///< (act(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out (GLU, ReGLU, GeGLU, SwiGLU by
          ///< activation)
};

enum class Activation : std::uint8_t {
  relu,
  gelu,           ///< exact: x Phi(x)
  gelu_tanh,      ///< tanh approximation (`gelu_new`, `gelu_pytorch_tanh`)
  gelu_fast,      ///< tanh approximation with sqrt(2/pi) rounded to 0.7978845608
  gelu_bloom,     ///< tanh approximation with sqrt(2/pi) rounded to 0.79788456 (BLOOM)
  gelu_quick,     ///< x sigmoid(1.702 x)
  silu,           ///< x sigmoid(x)
  solu,           ///< x softmax(x) over the neurons (Elhage et al. 2022)
  relu_squared,   ///< max(0, x)^2
  sigmoid,        ///< the gate of the original GLU (Dauphin et al. 2017)
  xielu,          ///< piecewise with two trained slopes per layer, `mlp.xielu.*` (Huang and Schlag 2024)
  swish,          ///< x sigmoid(swish_beta x) (Ramachandran et al. 2017)
  gelu_clipped,   ///< gelu held within -10 and 10 (`gelu_10`)
  hard_swish,     ///< x clamp(x + 3, 0, 6) / 6 (Howard et al. 2019)
  identity,       ///< x (`linear`)
  laplace,        ///< (1 + erf((x - 0.707107) / (0.282095 sqrt(2)))) / 2 (Ma et al. 2022)
  leaky_relu,     ///< x above 0, x / 100 below
  mish,           ///< x tanh(softplus(x)) (Misra 2019)
  relu6,          ///< clamp(x, 0, 6)
  sqrt_softplus,  ///< sqrt(softplus(x)), where softplus(x) is x above 20
  tanh,
};

enum class PositionKind : std::uint8_t {
  none,
  learned,      ///< W_pos added to the embedding (`standard`)
  shortformer,  ///< W_pos added to the inputs of queries and keys only, after ln1
  rotary,
  alibi,
  relative,  ///< a trained number per head and distance is added to the scores (T5)
};

enum class RopeScalingKind : std::uint8_t {
  none,
  linear,    ///< frequencies divided by a factor (Chen et al. 2023)
  llama3,    ///< by wavelength: long ones divided, short ones kept (Grattafiori et al. 2024)
  yarn,      ///< by dimension, with a ramp (Peng et al. 2023)
  dynamic,   ///< the base grows with the row's length once that exceeds the trained context
  longrope,  ///< a divisor per dimension, one list for short rows and one for long ones (Ding et al. 2024)
};

/// How rotary frequencies are stretched beyond the trained context. Numbers that `kind` does not use keep
/// their defaults; kind linear with factor 1 is written as none.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;            ///< llama3
  double high_freq_factor = 4.0;           ///< llama3
  double original_n_ctx = 8192.0;          ///< all but linear: tokens of the original training context
  double attention_factor = 1.0;           ///< yarn, longrope: cos and sin are multiplied by it
  double beta_fast = 32.0;                 ///< yarn
  double beta_slow = 1.0;                  ///< yarn
  bool truncate = true;                    ///< yarn: ramp ends are rounded outwards to whole dimensions
  std::vector<double> short_factors = {};  ///< longrope: [rotary_dim / 2], for rows up to original_n_ctx
  std::vector<double> long_factors = {};   ///< longrope: [rotary_dim / 2], for longer rows
  /// longrope: takes attention_factor's place for longer rows (Phi-3.5-MoE).
  std::optional<double> long_attention_factor = {};
  /// Whether the angles of a row depend on its length.
  bool depends_on_length() const {
    return kind == RopeScalingKind::dynamic || kind == RopeScalingKind::longrope;
  }
  bool operator==(const RopeScaling&) const = default;
};

/// Rotary positions (Su et al. 2021).
struct RotaryConfig {
  std::int64_t dim = 0;  ///< leading dimensions of a head that are turned; 0 means all of d_head
  double base = 10000.0;
  std::optional<double> local_base = {};  ///< base on windowed layers, which then take no scaling (Gemma 3)
  bool adjacent_pairs = false;            ///< pairs (2i, 2i+1) as in GPT-J instead of (i, i + dim/2)
  bool at_end = false;       ///< the last `dim` dimensions of a head are turned, not the first (DeepSeek)
  RopeScaling scaling = {};  ///< applied on layers without a window when local_base is set, else on all
  bool operator==(const RotaryConfig&) const = default;
};

/// Relative positions (Raffel et al. 2020): the first block of a stack holds a number per head for each
/// bucket of distances, which every block of the stack adds to its scores. Half the buckets of a direction
/// are one distance each, the others grow logarithmically up to max_distance and beyond.
struct RelativeConfig {
  std::int64_t buckets = 32;        ///< half of them for keys after the query where attention goes both ways
  std::int64_t max_distance = 128;  ///< tokens
  bool operator==(const RelativeConfig&) const = default;
};

/// What the norms of q and k before rotary span.
enum class QkNorm : std::uint8_t {
  none,
  per_head,          ///< each head alone, all with one weight [d_head] (Qwen 3)
  each_head,         ///< each head alone with a weight of its own [head, d_head] (StableLM, Command R)
  whole_projection,  ///< all heads together (OLMo 2)
};

/// Latent attention (DeepSeek-AI 2024, DeepSeek-V2): what attention reads is first made into short vectors,
/// and heads are made from these after a norm. A head's key is a part of its own, from the latent of keys and
/// values, and behind it a part that all heads share, straight from the stream. Without latents everything
/// keeps its default.
struct LatentConfig {
  std::int64_t d_kv = 0;          ///< width of the latent of keys and values; 0: attention has no latents
  std::int64_t d_query = 0;       ///< width of the queries' latent; 0: queries read the stream
  std::int64_t d_shared_key = 0;  ///< last dimensions of each key, which all heads share
  std::int64_t d_value = 0;       ///< width of a head's values and of its z
  double eps = 1e-6;              ///< of the latents' norms, which are RMSNorms

  bool operator==(const LatentConfig&) const = default;
};

/// How a router turns one logit per expert into the chosen experts and their weights.
enum class RouterKind : std::uint8_t {
  softmax_then_choose,  ///< softmax over all experts; the largest weights are chosen (Mixtral, Qwen)
  sigmoid_then_choose,  ///< a sigmoid of each logit; the largest weights are chosen (DeepSeek-V3)
  choose_then_softmax,  ///< the largest logits are chosen; softmax over these (Granite, gpt-oss)
  sparse_mixer,  ///< two experts, each weighed against those whose logits are near its own (Phi-3.5-MoE,
                 ///< Liu et al. 2023)
};

/// What decides between groups of experts, where a token's experts come from a few groups only.
enum class GroupScore : std::uint8_t {
  best,      ///< the largest weight in the group (DeepSeek-V2)
  best_two,  ///< the sum of its two largest (DeepSeek-V3)
};

/// The mixtures of experts of a model (Shazeer et al. 2017): an MLP of a mixture layer is the weighted sum of
/// the few experts that its router chooses for a token, each a gated MLP, plus a shared expert if there is
/// one. Without experts everything keeps its default.
struct ExpertConfig {
  std::int64_t n_experts = 0;           ///< routed experts of a mixture layer; 0: no layer is a mixture
  std::int64_t per_token = 0;           ///< experts chosen for a token
  std::int64_t d_expert = 0;            ///< width of a routed expert
  bool bias = false;                    ///< routed experts have biases
  std::vector<bool> dense_layers = {};  ///< [layer] with an ordinary MLP; empty means none, else some are

  RouterKind router = RouterKind::softmax_then_choose;
  bool router_bias = false;
  /// The next three of routers that weigh all experts: softmax_then_choose and sigmoid_then_choose.
  /// A trained number per expert is added to the weights for choosing only (ERNIE 4.5).
  bool choice_bias = false;
  bool renormalised = false;                  ///< the chosen weights are divided by their sum
  std::int64_t n_groups = 1;                  ///< experts stand in so many groups of equal size
  std::int64_t groups_per_token = 1;          ///< groups whose experts may be chosen for a token
  GroupScore group_score = GroupScore::best;  ///< of weights with their choice bias
  double least_sum = 0.0;                     ///< renormalised: by at least this (ERNIE 4.5)
  double mixer_tolerance = 0.0;  ///< sparse_mixer: logits at most this far below, relatively, count

  std::int64_t d_shared = 0;      ///< width of the shared expert, which sees every token; 0: there is none
  bool shared_gate = false;       ///< the shared expert's output is multiplied by a sigmoid (Qwen 2)
  bool shared_gate_bias = false;  ///< that sigmoid's linear map has a bias

  bool operator==(const ExpertConfig&) const = default;
};

enum class AttentionDirection : std::uint8_t { causal, bidirectional };

struct ParsedConfig;

/// What a transformer is made of. A plain value: nothing in it names an architecture, every field is honoured
/// by the module graph. JSON form: TransformerLens's config fields, and what those cannot say in a group
/// `hooked`.
struct ModelConfig {
  // Sizes.
  std::int64_t n_layers = 0;
  /// Blocks of an encoder, whose output the n_layers blocks, then a decoder's, attend to besides themselves;
  /// 0: there is none. It reads both ways, and is otherwise made like the decoder.
  std::int64_t n_encoder_layers = 0;
  std::int64_t d_model = 0;
  std::int64_t n_ctx = 0;  ///< longest sequence in tokens
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;  ///< key/value heads; equal to n_heads for multi-head attention
  std::int64_t d_head = 0;
  std::int64_t d_mlp = 0;  ///< 0 without MLPs; the experts' width where every MLP is a mixture
  std::int64_t d_vocab = 0;
  std::int64_t d_vocab_out = 0;  ///< 0: no unembedding, the model ends with its stream

  // Norms.
  NormKind norm = NormKind::layer_norm;
  NormPlace norm_place = NormPlace::pre;
  NormKind final_norm = NormKind::layer_norm;  ///< `final_rms` makes it rms_norm; none for post placement
  bool norm_folded =
      false;  ///< ln1, ln2, ln_final and mlp.ln carry no weights (`LNPre`, `RMSPre`); not for post
  bool norm_bias = true;  ///< LayerNorms have a bias; RMSNorm never has one
  bool norm_offset =
      false;  ///< stored weights w of the blocks' norms, the final norm, q/k and latents' norms mean 1 + w
  bool post_embedding_norm = false;  ///< a LayerNorm right after the embedding (BLOOM)
  bool embedding_sum_norm =
      false;  ///< a LayerNorm over the sum of token, position and token type embeddings (BERT)
  double eps = 1e-5;

  // Blocks.
  BlockLayout layout = BlockLayout::serial;
  MlpKind mlp = MlpKind::plain;
  Activation activation = Activation::relu;
  bool mlp_norm = false;  ///< a LayerNorm over the neurons after the activation (SoLU+LN, the only use)
  bool mlp_bias = true;
  /// Gated MLPs of TransformerLens's native files add b_in after the product instead of inside the up branch.
  bool gated_bias_after_product = false;
  double swish_beta = 1.0;  ///< of the activation swish, else 1
  double gate_limit =
      0.0;  ///< gated: the gate is held below this, the up branch within it; 0 is off (gpt-oss)
  bool up_offset = false;  ///< gated: the gate multiplies 1 + the up branch (gpt-oss)
  ExpertConfig experts = {};

  // Attention.
  AttentionDirection direction = AttentionDirection::causal;
  double attn_scale = 1.0;              ///< scores are divided by it
  bool scale_by_inverse_layer = false;  ///< scores are divided by (layer + 1) as well
  double score_soft_cap = 0.0;          ///< scores := cap tanh(scores / cap); 0 is off
  QkNorm qk_norm = QkNorm::none;
  NormKind qk_norm_kind = NormKind::rms_norm;  ///< rms_norm without q/k norms
  bool qk_norm_bias = false;                   ///< q/k LayerNorms have a bias
  double qkv_clip = 0.0;  ///< q, k (after their norms) and v are clamped to this size; 0 is off
  bool qkv_bias =
      true;  ///< with latents, of the maps that read the stream: to latents, and to the shared key
  bool attn_out_bias = true;
  LatentConfig latent = {};
  /// One more number per head takes part in the softmax over keys, and no value belongs to it (gpt-oss).
  bool attention_sinks = false;
  /// Keys a windowed layer sees, its own position included, and in a bidirectional model as many after it as
  /// before it; 0 if no layer has one.
  std::int64_t window = 0;
  std::vector<bool> windowed_layers = {};  ///< [layer]; empty means none, else at least one is true

  // Positions.
  PositionKind positions = PositionKind::learned;
  RotaryConfig rotary = {};                 ///< the defaults unless positions are rotary
  RelativeConfig relative = {};             ///< the defaults unless positions are relative
  std::vector<bool> unrotated_layers = {};  ///< [layer] without any position (NoPE); empty means none
  std::vector<double> alibi_slopes = {};    ///< [head]; bias = -slope * (query position - key position)
  bool alibi_in_bfloat16 = false;  ///< slope * position is rounded to bfloat16 in every dtype (Falcon)
  bool alibi_scaled = false;       ///< the bias is divided by attn_scale as the scores are (Falcon)

  // Embedding and unembedding.
  std::int64_t token_types = 0;   ///< kinds of tokens with an embedding each, in the normed sum; 0 is none
  double embedding_scale = 1.0;   ///< the embedding is multiplied by it (rounded to dtype), before positions
  double unembed_in_scale = 1.0;  ///< what the unembedding reads is multiplied by it (T5)
  double logit_scale = 1.0;       ///< logits are multiplied by it, before any soft cap
  bool tied_unembedding = false;  ///< W_U is the transpose of W_E
  bool unembed_bias = true;
  /// The activation of a layer [d_model, d_model] with a LayerNorm behind it that stands before the
  /// unembedding (BERT's masked-LM head); empty: the unembedding reads the stream.
  std::optional<Activation> mlm_head = {};
  double logit_soft_cap = 0.0;  ///< 0 is off

  // What goes with the weights.
  bool default_prepend_bos = true;
  std::optional<std::int64_t> decoder_start_token =
      {};                                    ///< what a decoder's rows begin with (with an encoder)
  std::vector<std::string> processing = {};  ///< names of the processing steps already applied to the weights
  at::ScalarType dtype = at::kFloat;         ///< dtype of weights and activations

  /// Whether there is an encoder, so that the blocks stand in two stacks, `encoder` and `decoder`.
  bool has_encoder() const { return n_encoder_layers > 0; }
  /// The stack of the n_layers blocks, which predict.
  Stack main_stack() const { return has_encoder() ? Stack::decoder : Stack::blocks; }
  /// Every block, in the order in which they run.
  std::vector<BlockPlace> blocks() const;
  /// Whether blocks of that stack attend to tokens after their own, too.
  bool bidirectional(Stack stack) const {
    return stack == Stack::encoder || direction == AttentionDirection::bidirectional;
  }
  /// Whether layer `l` attends through a window.
  bool windowed(std::int64_t l) const {
    return !windowed_layers.empty() && windowed_layers[static_cast<std::size_t>(l)];
  }
  /// Whether queries and keys of layer `l` are turned by their positions.
  bool rotates(std::int64_t l) const {
    return positions == PositionKind::rotary &&
           (unrotated_layers.empty() || !unrotated_layers[static_cast<std::size_t>(l)]);
  }
  bool grouped_query() const { return n_kv_heads != n_heads; }
  /// Whether norms stand on the residual stream itself, so that it is no sum of what was written to it.
  bool norms_stream() const {
    return norm != NormKind::none && (norm_place == NormPlace::post || norm_place == NormPlace::stream);
  }
  bool latent_attention() const { return latent.d_kv > 0; }
  /// Width of a head's values and of its z.
  std::int64_t value_dim() const { return latent_attention() ? latent.d_value : d_head; }
  /// Width of the part of a key that its head has for itself.
  std::int64_t own_key_dim() const { return d_head - latent.d_shared_key; }
  bool has_mlp() const { return mlp != MlpKind::none; }
  /// Whether layer `l` has a mixture of experts.
  bool mixture(std::int64_t l) const {
    return experts.n_experts > 0 &&
           (experts.dense_layers.empty() || !experts.dense_layers[static_cast<std::size_t>(l)]);
  }
  /// Whether layer `l` has an ordinary MLP.
  bool dense_mlp(std::int64_t l) const { return has_mlp() && !mixture(l); }
  /// Whether any MLP takes its biases from mlp_bias: an ordinary one or a shared expert.
  bool some_dense_mlp() const {
    return has_mlp() && (experts.n_experts == 0 || !experts.dense_layers.empty() || experts.d_shared > 0);
  }
  bool has_unembedding() const { return d_vocab_out > 0; }
  bool parallel() const { return layout != BlockLayout::serial; }
  bool has_pos_embed() const {
    return positions == PositionKind::learned || positions == PositionKind::shortformer;
  }
  /// Dimensions of a head that rotary turns.
  std::int64_t rotary_dim() const { return rotary.dim > 0 ? rotary.dim : d_head; }
  /// Number of parameters that a model of this config holds (tied matrices counted once).
  std::int64_t parameter_count() const;

  /// Throws ConfigError naming the field, its value and what is allowed, for every value or combination that
  /// the module graph would not honour. Cheap: call it before anything is allocated.
  void validate() const;

  /// The native `config.json` (`"model_type": "hooked_transformer"`); from_json gives back an equal config.
  /// Throws ConfigError for a config that validate() refuses.
  std::string to_json() const;

  /// Reads the native form. `where` names the file in errors. A field that is absent or null has
  /// TransformerLens's default (only normalization_type means something else by null: no norms); keys that
  /// nothing reads are returned beside it. `dtype` is the one recorded in the group `hooked`, else float32,
  /// whatever TransformerLens's own dtype field says: that one describes the run it was dumped from. Throws
  /// ConfigError. Validates.
  static ParsedConfig from_json(std::string_view text, std::string_view where);

  bool operator==(const ModelConfig&) const = default;
};

/// A config read from JSON, and the keys that nothing reads.
struct ParsedConfig {
  ModelConfig config;
  std::vector<std::string> ignored_keys;
  bool processing_recorded = false;  ///< the file says which steps were applied, be it none
};

/// The config of the same model without its unembedding and what belongs to it: such a model has activations
/// and no logits.
ModelConfig without_unembedding(ModelConfig config);

/// TransformerLens's slopes 2^(-8 (i+1) / n_heads), also for head counts that are no power of two (Press et
/// al. 2022 interleave there). Throws ConfigError for a head count that no model may have.
std::vector<double> geometric_alibi_slopes(std::int64_t n_heads);

/// The activation that a config value names (`gelu_new`, `quick_gelu`, `silu`, ...), TransformerLens's and
/// Hugging Face's names alike, or nothing. `solu_ln` is not here: it is solu with `mlp_norm`.
std::optional<Activation> parse_activation(std::string_view name) noexcept;

/// The name written to config files.
std::string_view activation_name(Activation activation) noexcept;

}  // namespace hooked
