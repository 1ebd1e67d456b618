#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "hooked/core/activation.h"
#include "hooked/core/export.h"

// The parts that a model may have, each with the fields that are meaningful only with it.
namespace HOOKED_EXPORT hooked {

/// What a norm does: nothing, centre and scale, or scale alone.
enum class NormKind : std::uint8_t { none, layer_norm, rms_norm };

/// Where a block has its norms N around a sublayer f.
enum class NormPlace : std::uint8_t {
  pre,     ///< x + f(N(x)), the usual choice
  post,    ///< N(x + f(x)), as in BERT and OPT-350m; such models have no final norm
  output,  ///< x + N(f(x)), as in OLMo 2
  both,    ///< x + N'(f(N(x))), as in Gemma 2
  stream,  ///< N(x) + f(N(x)): the stream itself is normed before each sublayer (BLOOM's post_layernorm)
};

/// In which order a block's attention and MLP read and write.
enum class BlockLayout : std::uint8_t {
  serial,              ///< the MLP reads the stream after attention has written to it
  parallel_two_norms,  ///< both read the block's input, each through its own norm (GPT-NeoX)
  parallel_one_norm,   ///< both read the block's input through ln1 (GPT-J, Phi)
};

/// What an MLP computes from its input x.
enum class MlpKind : std::uint8_t {
  none,   ///< attention-only model
  plain,  ///< act(x W_in + b_in) W_out + b_out
  gated,  ///< (act(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out (GLU, ReGLU, GeGLU, SwiGLU by
          ///< activation)
};

/// Whether a token sees later ones.
enum class AttentionDirection : std::uint8_t { causal, bidirectional };

/// The encoder of an encoder-decoder. The other blocks, then a decoder, attend to its output as well as to
/// themselves. It attends in both directions, and is otherwise built like the decoder.
struct Encoder {
  std::int64_t n_layers = 0;                             ///< blocks of the encoder
  std::optional<std::int64_t> decoder_start_token = {};  ///< what a decoder's rows start with

  bool operator==(const Encoder&) const = default;
};

/// No positions: attention sees an unordered set of tokens, apart from its direction.
struct NoPositions {
  bool operator==(const NoPositions&) const = default;
};

/// W_pos [n_ctx, d_model] is added to the embedding (`standard`).
struct LearnedPositions {
  bool operator==(const LearnedPositions&) const = default;
};

/// W_pos [n_ctx, d_model] is added to the inputs of queries and keys only, after ln1 (Press et al. 2021).
struct ShortformerPositions {
  bool operator==(const ShortformerPositions&) const = default;
};

// How rotary frequencies are stretched beyond the trained context.

struct NoScaling {
  bool operator==(const NoScaling&) const = default;
};

/// Frequencies divided by a factor (Chen et al. 2023). A factor of 1 is NoScaling.
struct LinearScaling {
  double factor = 1.0;  ///< frequencies are divided by it

  bool operator==(const LinearScaling&) const = default;
};

/// By wavelength: long ones divided, short ones kept (Grattafiori et al. 2024).
struct Llama3Scaling {
  double factor = 1.0;             ///< frequencies are divided by it
  double low_freq_factor = 1.0;    ///< frequencies of wavelengths above original_n_ctx / this are divided
  double high_freq_factor = 4.0;   ///< those of wavelengths below original_n_ctx / this are kept
  double original_n_ctx = 8192.0;  ///< tokens of the original training context

  bool operator==(const Llama3Scaling&) const = default;
};

/// By dimension, with a ramp (Peng et al. 2023).
struct YarnScaling {
  double factor = 1.0;             ///< frequencies are divided by it
  double original_n_ctx = 8192.0;  ///< tokens of the original training context
  double attention_factor = 1.0;   ///< cos and sin are multiplied by it
  double beta_fast = 32.0;  ///< dimensions that turn more often than this in the original context are kept
  double beta_slow = 1.0;   ///< dimensions that turn less often than this are divided
  bool truncate = true;     ///< ramp ends are rounded outwards to whole dimensions

  bool operator==(const YarnScaling&) const = default;
};

/// The base grows with the row's length once that exceeds the trained context.
struct DynamicScaling {
  /// In a row of n tokens, more than original_n_ctx, the base is multiplied by
  /// (factor n / original_n_ctx - factor + 1)^(d / (d - 2)), where d is the rotary dimension.
  double factor = 1.0;
  double original_n_ctx = 8192.0;  ///< tokens of the original training context

  bool operator==(const DynamicScaling&) const = default;
};

/// A divisor per dimension, one list for short rows and one for long ones (Ding et al. 2024).
struct LongropeScaling {
  std::vector<double> short_factors = {};  ///< [rotary_dim / 2], for rows up to original_n_ctx
  std::vector<double> long_factors = {};   ///< [rotary_dim / 2], for longer rows
  double original_n_ctx = 8192.0;          ///< tokens of the original training context
  double attention_factor = 1.0;           ///< cos and sin are multiplied by it
  /// Replaces attention_factor for longer rows (Phi-3.5-MoE).
  std::optional<double> long_attention_factor = {};

  bool operator==(const LongropeScaling&) const = default;
};

/// How rotary frequencies are stretched.
using RopeScaling =
    std::variant<NoScaling, LinearScaling, Llama3Scaling, YarnScaling, DynamicScaling, LongropeScaling>;

/// Whether the angles of a row depend on its length.
inline bool depends_on_length(const RopeScaling& scaling) {
  return std::holds_alternative<DynamicScaling>(scaling) || std::holds_alternative<LongropeScaling>(scaling);
}

/// Queries and keys are rotated by their positions (Su et al. 2021).
struct RotaryPositions {
  std::int64_t dim = 0;   ///< leading dimensions of a head that are rotated; 0 means all of d_head
  double base = 10000.0;  ///< wavelengths grow from 2 pi to 2 pi base over the pairs
  std::optional<double> local_base = {};  ///< base on windowed layers, which then ignore scaling (Gemma 3)
  bool adjacent_pairs = false;            ///< pairs (2i, 2i+1) as in GPT-J instead of (i, i + dim/2)
  bool at_end = false;    ///< the last `dim` dimensions of a head are rotated, not the first (DeepSeek)
  bool reversed = false;  ///< rotated the other way round, by minus the angle (nanochat)
  /// Pairs that are rotated: those of the highest frequencies, computed as without this; the others get 0
  /// (Gemma 4's `proportional`). Only on the layers that scaling applies to; 0 means all pairs.
  std::int64_t turned_pairs = 0;
  RopeScaling scaling = {};  ///< applied on layers without a window if local_base is set, else on all
  std::vector<bool> unrotated_layers = {};  ///< [layer] without any positions (NoPE); empty means none

  bool operator==(const RotaryPositions&) const = default;
};

/// A bias of -slope * (query position - key position) is added to the scores (Press et al. 2022).
struct AlibiPositions {
  std::vector<double> slopes = {};  ///< [head]
  bool in_bfloat16 = false;         ///< slope * position is rounded to bfloat16 in every dtype (Falcon)
  bool scaled = false;              ///< the bias is divided by attn_scale, as the scores are (Falcon)

  bool operator==(const AlibiPositions&) const = default;
};

/// Relative positions (Raffel et al. 2020): the first block of a stack holds a bias per head and bucket of
/// distances, which every block of the stack adds to its scores. In each direction, half of the buckets are
/// one distance each; the others grow logarithmically up to max_distance and beyond.
struct RelativePositions {
  std::int64_t buckets = 32;        ///< with bidirectional attention half are for keys after the query
  std::int64_t max_distance = 128;  ///< tokens
  bool in_every_block = false;      ///< each block holds and adds its own biases (UMT5)

  bool operator==(const RelativePositions&) const = default;
};

/// How a model encodes the positions of tokens.
using Positions = std::variant<NoPositions, LearnedPositions, ShortformerPositions, RotaryPositions,
                               AlibiPositions, RelativePositions>;

/// Norms of queries and keys.
struct QkNorm {
  /// What is normed together, and with which weight.
  enum Span : std::uint8_t {
    per_head,          ///< each head alone, all with the same weight [d_head] (Qwen 3)
    each_head,         ///< each head alone, with its own weight [head, d_head] (StableLM, Command R)
    whole_projection,  ///< all heads together (OLMo 2)
  };
  Span span = per_head;                ///< what is normed together
  NormKind kind = NormKind::rms_norm;  ///< LayerNorm or RMSNorm
  bool bias = false;                   ///< of LayerNorms
  bool after_rotary = false;           ///< after rotary, else before it (Hunyuan)
  std::vector<bool> layers = {};       ///< [layer] with these norms; empty means all

  bool operator==(const QkNorm&) const = default;
};

/// Attention temperature: queries grow with their position, so that attention over long contexts stays sharp
/// (Nakanishi 2025, Llama 4). Multiplied by 1 + growth * log(1 + floor((position + offset) / tokens)).
struct QueryGrowth {
  double growth = 0.0;            ///< above 0
  double tokens = 0.0;            ///< number of positions that share a factor; for the first of them it is 1
  std::int64_t offset = 0;        ///< 0 or 1: what is added to a position
  std::vector<bool> layers = {};  ///< [layer] that do this; empty means all

  bool operator==(const QueryGrowth&) const = default;
};

/// Heads of the layers without a window, if their sizes differ from those of windowed layers (Gemma
/// 4).
struct FullHeads {
  std::int64_t d_head = 0;      ///< width of such a layer's queries, keys and values
  std::int64_t n_kv_heads = 0;  ///< its key/value heads

  bool operator==(const FullHeads&) const = default;
};

/// KV sharing: the last layers of the stack compute no keys and values. Each attends with those of the last
/// layer before all of them that, like itself, has a window or has none (Gemma 3n, Gemma 4).
struct SharedKeys {
  std::int64_t layers = 0;  ///< how many; fewer than all
  std::int64_t d_mlp = 0;   ///< neurons of their ordinary MLPs

  bool operator==(const SharedKeys&) const = default;
};

/// Per-layer embeddings (Gemma 3n and Gemma 4): what a block reads of each token after its MLP, in addition
/// to the stream. From a table row for the token and a map of the token's embedding comes
///   in = (RMSNorm(W_embed embed / sqrt(d_model)) + sqrt(width) W_token[token]) / sqrt(2),
/// by which the block multiplies what it computes from the stream,
///   out = RMSNorm(W_out (activation(W_gate stream) * in)).
struct LayerInput {
  std::int64_t width = 0;  ///< of `in`

  bool operator==(const LayerInput&) const = default;
};

/// Latent attention (DeepSeek-AI 2024, DeepSeek-V2): attention's input is first mapped to short vectors, and
/// heads are made from these after a norm. A head's key is a part of its own, made from the latent of keys
/// and values, followed by a part that all heads share, made straight from the stream.
struct Latents {
  std::int64_t d_kv = 0;          ///< width of the latent of keys and values
  std::int64_t d_query = 0;       ///< width of the latent of queries; 0: queries read the stream
  std::int64_t d_shared_key = 0;  ///< last dimensions of each key, which all heads share
  std::int64_t d_value = 0;       ///< width of a head's values and of its z
  double eps = 1e-6;              ///< of the latents' norms, which are RMSNorms

  bool operator==(const Latents&) const = default;
};

/// Layers that see only a stretch of the keys.
struct Window {
  /// Which keys a token sees.
  enum Kind : std::uint8_t {
    sliding,  ///< the `size` keys up to its own; in a bidirectional model also the same number after it
    chunks,   ///< its own chunk: a row's tokens are cut into chunks of `size` (Llama 4)
  };
  Kind kind = sliding;            ///< which stretch
  std::int64_t size = 0;          ///< keys
  std::vector<bool> layers = {};  ///< [layer], at least one of them

  bool operator==(const Window&) const = default;
};

/// Short convolutions (LFM2, Liquid AI 2025), which replace attention in some layers. Such a layer maps its
/// input to B, C and x, each [d_model]. A causal convolution over positions, with a filter per dimension,
/// reads B * x. W_out reads C times the convolution's output.
struct ShortConvolution {
  std::int64_t kernel = 0;        ///< tokens that the convolution sees, including its own
  bool bias = false;              ///< the maps and the convolution have biases
  std::vector<bool> layers = {};  ///< [layer], at least one of them and not all

  bool operator==(const ShortConvolution&) const = default;
};

/// Gated delta nets (Yang et al. 2024), which replace attention in some layers. Queries, keys and values pass
/// a causal convolution over tokens, with a filter per dimension, and SiLU. Each head holds a state [d_key,
/// d_value], which every token decays, corrects at its key and reads at its query. What it reads is normed
/// and multiplied by SiLU of a gate, and W_O reads the product.
struct DeltaNet {
  std::int64_t n_key_heads = 0;  ///< heads of queries and keys
  std::int64_t n_heads = 0;      ///< heads of values, each with a state; consecutive ones share a key head
  std::int64_t d_key = 0;        ///< width of a head's queries and keys
  std::int64_t d_value = 0;      ///< width of a head's values
  std::int64_t kernel = 0;       ///< tokens that the convolution sees, including its own
  /// A token replaces up to twice what the state holds at its key, so that this may change sign (Grazzi et
  /// al. 2024, OLMo Hybrid).
  bool doubled_beta = false;
  std::optional<double> norm_eps = {};  ///< of the norm of what is read; none: the config's
  std::vector<bool> layers = {};        ///< [layer], at least one of them and not all

  /// Dimensions of queries, keys and values together: the convolution's input.
  std::int64_t d_qkv() const { return 2 * n_key_heads * d_key + n_heads * d_value; }

  bool operator==(const DeltaNet&) const = default;
};

/// How a router turns one logit per expert into the chosen experts and their weights.
enum class RouterKind : std::uint8_t {
  softmax_then_choose,  ///< softmax over all experts; the largest weights are chosen (Mixtral, Qwen)
  sigmoid_then_choose,  ///< a sigmoid of each logit; the largest weights are chosen (DeepSeek-V3)
  choose_then_softmax,  ///< the largest logits are chosen; softmax over those (Granite, gpt-oss)
  sparse_mixer,  ///< two experts, each weighed against those whose logits are near its own (Phi-3.5-MoE,
                 ///< Liu et al. 2023)
};

/// How groups of experts are ranked, if a token's experts come from a few groups only.
enum class GroupScore : std::uint8_t {
  best,      ///< the largest weight in the group (DeepSeek-V2)
  best_two,  ///< the sum of its two largest (DeepSeek-V3)
};

/// Mixtures of experts (Shazeer et al. 2017). The output of a mixture layer is the weighted sum of the few
/// experts that its router chooses for a token, each a gated MLP, plus a shared expert if there is one.
struct Experts {
  std::int64_t n_experts = 0;  ///< routed experts of a mixture layer
  std::int64_t per_token = 0;  ///< experts chosen for a token
  std::int64_t d_expert = 0;   ///< width of a routed expert
  bool bias = false;           ///< routed experts have biases
  /// The weights multiply the inputs of the routed experts, else their outputs (Llama 4).
  bool weighted_inputs = false;
  std::vector<bool> dense_layers = {};  ///< [layer] with an ordinary MLP; empty means none, else some are

  RouterKind router = RouterKind::softmax_then_choose;  ///< how experts are chosen and weighted
  bool router_bias = false;                             ///< the router has a bias
  /// The router computes in float32 in models of narrower dtypes, so that its logits are not rounded.
  bool router_in_float32 = false;
  // For routers that weight all experts, softmax_then_choose and sigmoid_then_choose:
  bool choice_bias = false;           ///< a trained bias per expert, added for choosing only (ERNIE 4.5)
  bool renormalised = false;          ///< the chosen weights are divided by their sum
  double least_sum = 0.0;             ///< renormalised: by at least this (ERNIE 4.5)
  double added_to_sum = 0.0;          ///< renormalised: by the sum plus this (DeepSeek-V3)
  std::int64_t n_groups = 1;          ///< the experts are split into this many groups of equal size
  std::int64_t groups_per_token = 1;  ///< groups whose experts may be chosen for a token
  GroupScore group_score = GroupScore::best;  ///< of weights with their choice bias added
  // For sparse_mixer:
  double mixer_tolerance = 0.0;  ///< logits at most this far below, relatively, count

  std::int64_t d_shared = 0;      ///< width of the shared expert, which every token uses; 0: there is none
  bool shared_gate = false;       ///< the shared expert's output is multiplied by a sigmoid (Qwen 2)
  bool shared_gate_bias = false;  ///< the linear map of that sigmoid has a bias

  /// The router and the routed experts read the stream through their own norms, the shared expert through the
  /// block's. The outputs of routed experts and of the shared expert are normed before their sum (Gemma 4).
  bool own_norms = false;
  bool expert_scale = false;  ///< the chosen weights are multiplied by a trained number per expert (Gemma 4)

  bool operator==(const Experts&) const = default;
};

/// In which models a group of weights stays in float32, whatever the model's dtype.
enum class KeptInFloat32 : std::uint8_t {
  never,       ///< it has the model's dtype
  in_float16,  ///< in float16 models, whose largest number is 65504
  in_half,     ///< in float16 and bfloat16 models
};

/// Groups of weights that some families keep in float32 in narrower models.
struct LeastDtypes {
  KeptInFloat32 choice_bias = KeptInFloat32::never;  ///< of routers (DeepSeek-V3)
  KeptInFloat32 router = KeptInFloat32::never;       ///< W_gate of mixtures (ERNIE 4.5)
  KeptInFloat32 norms = KeptInFloat32::never;        ///< weights and biases of norms (gpt-oss)
  /// W_out of ordinary MLPs. Their output is then not rounded either, nor is the stream (T5).
  KeptInFloat32 mlp_out = KeptInFloat32::never;

  bool operator==(const LeastDtypes&) const = default;
};

/// The map from the stream to logits.
struct Unembedding {
  std::int64_t d_vocab = 0;  ///< tokens that are predicted
  bool tied = false;         ///< W_U is the transpose of W_E
  bool bias = true;          ///< it has b_U
  double in_scale = 1.0;     ///< its input is multiplied by this (T5)
  double scale = 1.0;        ///< logits are multiplied by this, before any soft cap
  double soft_cap = 0.0;     ///< logits := cap tanh(logits / cap); 0 is off
  /// The model holds W_mean [d_model] and b_mean: what center_unembed subtracted from every logit.
  /// Generations with a repetition penalty add it back.
  bool keeps_mean = false;
  /// The activation of a layer [d_model, d_model], followed by a LayerNorm, before the unembedding (BERT's
  /// masked-LM head); none: the unembedding reads the stream.
  std::optional<Activation> mlm_head = {};

  bool operator==(const Unembedding&) const = default;
};

}  // namespace hooked
