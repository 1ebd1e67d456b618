#pragma once

#include <memory>
#include <vector>

#include "hooked/core/placement.h"
#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/sequence/run.h"
#include "models/sequence/stack_inputs.h"
#include "models/transformer/block.h"
#include "models/transformer/embed.h"
#include "models/transformer/unembed.h"

namespace hooked {

/// What the graph computes from: ids and streams on the model's device.
struct GraphInput {
  at::Tensor encoder_tokens = {};  ///< [batch, pos of the encoder] int64; undefined if no encoder runs
  /// [batch, pos] int64 of the main stack; undefined with `residual`, unless blocks read tokens.
  at::Tensor tokens = {};
  at::Tensor residual = {};       ///< [batch, pos, d_model], the stream before the first block that runs
  at::Tensor logit_columns = {};  ///< columns whose logits are computed, [position] int64; undefined: all
  at::Tensor logit_tokens = {};   ///< tokens whose logits are computed, [token] int64; undefined: all
};

/// The residual stream after the last block that runs.
struct Stream {
  at::Tensor residual;  ///< [batch, pos, d_model]
  at::Tensor columns;   ///< the requested columns of `residual`, [position] int64; undefined: all
};

/// The whole model: its module paths are the activations' names.
///
/// Const after loading: `forward` writes no member and many threads may call it, each with its own
/// Run.
class Transformer : public torch::nn::Module {
 public:
  /// Uninitialised parameters of `options`, on the devices of `placement`; on the meta device nothing is
  /// allocated. The config and points must outlive the graph. `multiply_groups`: the devices with
  /// GraphContext::multiplies_groups.
  Transformer(const ModelConfig& config, const PointIndex& points, const at::TensorOptions& options,
              Storage storage, Placement placement, const std::vector<c10::Device>& multiply_groups = {});
  /// On the device of `options`.
  Transformer(const ModelConfig& config, const PointIndex& points, const at::TensorOptions& options,
              Storage storage = Storage::fastest)
      : Transformer(config, points, options, storage, options.device()) {}

  /// Embeds, runs the blocks of `reach` and unembeds. Returns logits [batch, position, vocab] if the run
  /// reaches the exit, else the residual stream [batch, pos, d_model] where it ends. Without an unembedding
  /// the exit is the final norm, whose output [batch, pos, d_model] is returned.
  at::Tensor forward(const GraphInput& input, const Reach& reach, Run& run) const;

  /// The first part of it. If only some logits are requested, and nobody watches other columns, the last
  /// block computes only their columns (and the keys and values of all).
  Stream stream(const GraphInput& input, const Reach& reach, Run& run) const;
  /// The second part: final norm, masked-LM head and unembedding at those columns [position] of a stream, to
  /// the logits of those tokens [token]; undefined for all. Without an unembedding, the final norm's output.
  at::Tensor exit(const at::Tensor& stream, const at::Tensor& columns, const at::Tensor& tokens,
                  Run& run) const;

  /// The form in which each layer's keys are remembered by a generation whose runs are all watched so.
  std::vector<KeyForm> key_forms(const WatchPlan& plan) const;
  /// Remembered columns in those forms: keys and values are computed from latents if heads are wanted.
  KvCache in_forms(KvCache columns, const std::vector<KeyForm>& forms, Memory memory) const;

  /// Every tensor of the state dict and where it is stored.
  WeightSlots slots() const;

 private:
  /// What precedes the first block of the main stack.
  struct Entry {
    at::Tensor stream;               // [batch, pos, d_model]
    at::Tensor query_key_positions;  // [1 or batch, pos, d_model] under shortformer, else undefined
    at::Tensor tokens = {};          // [batch, pos] int64 and
    at::Tensor embedding = {};       // [batch, pos, d_model], if blocks read them, else undefined
  };

  /// Runs the reached blocks of the encoder and its final norm: its output [batch, pos, d_model], undefined
  /// if the run ends inside.
  at::Tensor encode(const at::Tensor& tokens, const Reach& reach, Run& run) const;
  Entry embed(const at::Tensor& tokens, Run& run) const;
  /// The same for the stack that has the embedding's points: the only one, or the encoder.
  Entry watched_embed(const at::Tensor& tokens, const Sequence& sequence, Run& run) const;
  /// Whether the last block may leave out columns whose logits nobody asks for.
  bool narrows(const GraphInput& input, const Reach& reach, const Run& run) const;
  /// The residual stream of a run that starts after the embedding; `tokens` are those of its columns, if
  /// blocks read them.
  Entry resume(const at::Tensor& residual, const at::Tensor& tokens, Run& run) const;

  /// What the blocks of a stack read in addition to the stream.
  StackInputs stack_inputs(const std::vector<std::shared_ptr<Block>>& stack, const Sequence& sequence,
                           Run& run) const;
  /// What cross-attention reads: this run's `encoder_output`, or what an earlier run computed from its own.
  std::optional<CrossInputs> cross_inputs(const at::Tensor& encoder_output, Run& run) const;
  /// Ids after the hooks and edits on them.
  at::Tensor watched_tokens(const at::Tensor& tokens, Run& run) const;
  at::Tensor pos_embed(const at::Tensor& W_pos, const Sequence& sequence) const;

  /// Brings a block's inputs to its device, if the previous block is on another one or there is none.
  void enter(const BlockPlace& block, at::Tensor& stream, StackInputs& inputs) const;

  const ModelConfig& config_;
  const Placement placement_;
  LayerFrequencies frequencies_;  // of rotary models
  /// For all norms, if a stored w means 1 + w, on one device that is not the CPU: each addition would be a
  /// launch.
  std::vector<at::Tensor> offset_weights_;
  std::shared_ptr<Embed> embed_;
  std::shared_ptr<DecoderEmbed> decoder_embed_;  // null without a decoder
  at::Tensor W_pos_;                             // [pos, d_model]
  std::vector<std::shared_ptr<Block>> encoder_;  // empty without an encoder
  std::shared_ptr<Norm> encoder_final_ln_;       // null without an encoder
  std::vector<std::shared_ptr<Block>> blocks_;   // of the main stack
  std::shared_ptr<Norm> ln_final_;               // in a decoder, `decoder_final_ln`
  std::shared_ptr<MlmHead> mlm_head_;            // null without one
  std::shared_ptr<Unembed> unembed_;             // null without one
  Point hook_tokens_, hook_embed_, hook_pos_embed_, hook_full_embed_;
};

}  // namespace hooked
