#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How the codes of a dictionary follow from its pre-activations h.
enum class CodeActivation : std::uint8_t {
  relu,              ///< max(h, 0)
  jump_relu,         ///< h where h > threshold, else 0
  top_k,             ///< h where it is one of the token's k largest, else 0
  abs_top_k,         ///< h where |h| is one of the token's k largest, else 0
  gated,             ///< h, which is the magnitude, where the gate is positive, else 0
  group_max,         ///< h where it is the largest of its group, else 0; k groups of neighbours
  matching_pursuit,  ///< there are no pre-activations: features are chosen one by one
};

/// The name of an activation: `jump_relu`.
std::string_view code_activation_name(CodeActivation activation) noexcept;

/// What is done to a dictionary's input x before it is encoded, and undone on what a sparse autoencoder
/// decodes.
enum class InputNorm : std::uint8_t {
  none,           ///< nothing
  layer_norm,     ///< (x - mean) / (standard deviation + 1e-5); the deviation is that of n - 1
  constant_norm,  ///< x · sqrt(d_in) / |x|
  /// Nothing, but training multiplied inputs by sqrt(d_in) / their mean norm. That factor should have been
  /// folded into the weights, and files do not say whether it was.
  expected_average,
  whitening,  ///< nothing, in a state of training before the whitening of inputs was folded into the weights
};

/// What the norms of a feature's decoder rows do where an activation keeps the largest codes.
enum class DecoderNorms : std::uint8_t {
  ignored,  ///< nothing
  chosen,   ///< features are chosen by code · norm, codes stay (Llamascopium)
  scaled,   ///< codes are multiplied by the norm, and divided by it before they are decoded (SAELens)
};

/// Which tokens a dictionary was not fitted on; their activations stay as they are.
struct ExcludedTokens {
  bool special = false;  ///< those with a role in the tokenizer: BOS, EOS, PAD, SEP, decoder start
  std::vector<std::int64_t> ids = {};  ///< these ids
};

/// The processing of weights that a dictionary's model had. All false: the weights as stored.
struct DictionaryBasis {
  bool folded_norms = false;         ///< the weights of norms were folded into what reads them (`fold_ln`)
  bool centred_writes = false;       ///< what is written to the stream was centred (`center_writing_weights`)
  bool centred_unembedding = false;  ///< `center_unembed`
  bool folded_value_biases = false;  ///< `fold_value_biases`, which changes values and z

  bool operator==(const DictionaryBasis&) const = default;
};

/// What a dictionary computes, and what its files say about it. docs/dictionaries.md has the formulas.
struct DictionaryConfig {
  std::int64_t d_in = 0;              ///< width of the activation that is encoded
  std::int64_t d_out = 0;             ///< width of what is decoded
  std::int64_t features = 0;          ///< number of codes of a token
  at::ScalarType dtype = at::kFloat;  ///< in which it computes

  /// False: a sparse autoencoder, which reconstructs its input. True: a transcoder, which computes the
  /// activation at `output` from the one at `input`; norms of the input are not undone.
  bool transcodes = false;
  bool skips = false;  ///< x · W_skipᵀ is a part of the reconstruction
  /// It writes to its own layer and to those after it: W_dec is [features, layers, d_out]. Such dictionaries
  /// are decoded together (DictionarySet).
  bool crosses_layers = false;

  CodeActivation activation = CodeActivation::relu;  ///< how codes follow from pre-activations
  bool rectified = true;  ///< codes are never negative; must be true for relu, gated and matching_pursuit,
                          ///< false for abs_top_k
  std::int64_t k = 0;     ///< of top_k, abs_top_k; groups of group_max
  DecoderNorms decoder_norms = DecoderNorms::ignored;  ///< of top_k, abs_top_k
  bool subtracts_decoder_bias = false;                 ///< b_dec is subtracted from the input
  bool adds_decoder_bias = true;                       ///< b_dec is added to what is decoded
  InputNorm input_norm = InputNorm::none;              ///< what happens to the input before that
  bool flattens_heads = false;  ///< the activation has an axis of heads: [..., heads, d_head]

  double residual_threshold = 1e-2;  ///< matching pursuit ends where |residual| is smaller
  std::int64_t max_iterations = 0;   ///< of matching pursuit; 0: d_in
  bool stops_on_repeat = true;       ///< matching pursuit ends when no new feature was chosen

  std::string model_name = {};  ///< the model it was fitted on; may be empty, as all that follow
  /// The activation that is encoded, by its name in the engine: `blocks.3.hook_resid_post`.
  std::string input = {};
  std::string output = {};                     ///< the activation in whose place the reconstruction stands
  std::optional<std::int64_t> layer = {};      ///< of `input`
  std::optional<std::int64_t> head = {};       ///< the activation is that of one head (`hook_head_index`)
  DictionaryBasis basis = {};                  ///< how the model's weights were processed
  ExcludedTokens excluded = {};                ///< tokens that it was not fitted on
  std::string format = {};                     ///< the kind of files it was read from: `SAELens 6`
  std::vector<std::string> notes = {};         ///< what the files leave open, and what was decided
  std::vector<std::string> ignored_keys = {};  ///< keys of the files that nothing reads
  /// The files' other facts about the dictionary, a JSON object; saving writes it as SAELens's `metadata`.
  std::string metadata = "{}";
};

/// What a dictionary is, in words: `sparse autoencoder, the 32 largest codes`.
std::string architecture_text(const DictionaryConfig& config);

}  // namespace hooked
