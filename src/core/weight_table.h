#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/axis.h"
#include "hooked/core/block_place.h"
#include "hooked/core/model_config.h"
#include "hooked/core/part.h"

namespace hooked {

/// The kind of a weight, which decides how fresh ones are initialised.
enum class WeightKind : std::uint8_t {
  matrix,         ///< multiplies what it reads, stored [.., in, out]; also embedding tables
  linear,         ///< a matrix stored [out, in]
  bias,           ///< added to a product, or to scores
  optional_bias,  ///< a bias that files may lack: zeros
  gain,           ///< the weight of a norm, stored as an offset from 1 if the config has norm_offset
  plain_gain,     ///< the weight of a norm that is never an offset
  shift,          ///< the bias of a norm
  number,         ///< trained numbers of no other kind: an activation's, sinks, what a router adds
};

/// What a matrix multiplies, if a norm may precede it.
enum class WeightInput : std::uint8_t {
  nothing,          ///< no norm of the stream or the neurons
  attention_input,  ///< the stream before attention
  cross_input,      ///< the stream before cross-attention
  mlp_input,        ///< the stream before the MLP
  router_input,     ///< the stream before a router, which may have a norm of its own
  expert_input,     ///< the stream before routed experts, likewise
  neurons,          ///< the MLP's neurons after the activation
  encoder_output,   ///< the stream after an encoder's last block
  final_stream,     ///< the stream after the last block
  unembed_input,    ///< the same, or the output of a masked-LM head
};

/// What else a config must say for a part's weight to exist. It is asked only if the part exists.
struct WeightOption {
  bool (*holds)(const ModelConfig& config);
  std::string_view words;
};

/// A part of a model's weights: those of a block, or nothing for those outside the blocks.
using WeightPart = std::optional<BlockPlace>;

/// One row of the table of weights.
struct WeightRow {
  std::string_view path;  ///< name in the state dict: `{stack}.{layer}.attn.W_Q`
  AxisList axes;          ///< of the tensor with that name
  WeightKind kind;
  WeightInput reads;
  bool writes_stream;  ///< its output is added to the residual stream
  Part part;           ///< models with this part have the weight if `also` holds
  WeightOption also;
  double start;  ///< value of a fresh weight that is not a matrix; gains as if they were not offsets

  bool in_block() const { return path.starts_with('{'); }
  bool per_expert() const { return path.find("{expert}") != path.npos; }
  bool is_matrix() const { return kind == WeightKind::matrix || kind == WeightKind::linear; }
  bool is_bias() const { return kind == WeightKind::bias || kind == WeightKind::optional_bias; }
  bool is_gain() const { return kind == WeightKind::gain || kind == WeightKind::plain_gain; }
  /// Whether a block of a model, or the model outside its blocks, has the weight.
  bool there(const ModelConfig& config, const WeightPart& block) const;
  /// When that is so, for documents and errors.
  std::string when_there() const;
  /// Whether its absence in a state dict means zeros.
  bool optional() const { return kind == WeightKind::optional_bias; }
  /// The path inside its block, or the whole path outside the blocks.
  std::string_view local_path() const;
};

/// The weight's shape in a part of a model.
std::vector<std::int64_t> weight_shape(const WeightRow& row, const ModelConfig& config,
                                       const WeightPart& part);

/// The weight's dtype in a model: the model's, or float32 if its family keeps it so (LeastDtypes).
at::ScalarType weight_dtype(const WeightRow& row, const ModelConfig& config);

/// Every weight, those outside the blocks first.
std::span<const WeightRow> weight_table() noexcept;

/// The row of a weight by its name in the state dict, or by its name inside a block; null if there is none.
/// Accepts either spelling of keys and values.
const WeightRow* find_weight_row(std::string_view name);

/// Calls `use` for each weight of a part of the model, with its row and its name inside the block in plain
/// spelling (`attn.W_K`, `mlp.experts.3.W_in.weight`).
void for_each_weight(const ModelConfig& config, const WeightPart& part,
                     const std::function<void(const WeightRow& row, const std::string& local_name)>& use);

/// The name in the state dict of a weight that is called `local_name` in a block, or outside the blocks.
std::string weight_name(const WeightPart& part, std::string_view local_name, const ModelConfig& config);

/// TransformerLens's spelling of keys' and values' weights if there are more query heads than key/value
/// heads: `_W_K` for `W_K`, also after dots; other names are unchanged.
std::string grouped_spelling(std::string_view name);

/// The path of the norm at the end of a stack: `ln_final`, `encoder_final_ln` or `decoder_final_ln`.
std::string_view final_norm_path(Stack stack);

/// Every part: the blocks in the order in which they run, then the rest.
std::vector<WeightPart> weight_parts(const ModelConfig& config);

}  // namespace hooked
