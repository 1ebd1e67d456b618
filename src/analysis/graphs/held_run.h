#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/graphs/graph_coders.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// The one row that a graph is about. Throws as attribute_graph() about its input.
Input graph_input(const HookedTransformer& model, const Input& input, std::string_view where);

/// A run of one row, and what is held of it: with attention patterns, gates and the scales of norms at these
/// values, the stream is linear in the embeddings and in what stands in the place of MLPs.
class HeldRun {
 public:
  HeldRun(const HookedTransformer& model, const GraphCoders& coders, Input input, std::int64_t excluded);

  const HookedTransformer& model() const { return model_; }
  const GraphCoders& coders() const { return coders_; }
  const ActivationCache& run() const { return run_; }
  const Input& input() const { return input_; }
  std::int64_t length() const { return length_; }
  std::int64_t layers() const { return coders_.layers(); }
  /// The first position at which MLPs have nodes.
  std::int64_t first() const { return first_; }
  /// A layer's active features; none in a layer without features.
  const ActiveFeatures& active(std::int64_t layer) const {
    return active_.at(static_cast<std::size_t>(layer));
  }

  // All of them without the axis of the row, in the dtype of the coders.
  at::Tensor embedded() const;                   ///< [pos, d_model]: what tokens write
  at::Tensor mlp_out(std::int64_t layer) const;  ///< [pos, d_model]
  at::Tensor read(std::int64_t layer) const;     ///< [pos, d_in]: what features read
  at::Tensor end() const;  ///< [d_model]: what the unembedding reads at the last position
  at::Tensor logits() const { return logits_; }  ///< [vocab] of the last position, after any soft cap
  /// [pos, d_model]: what is written in an MLP's place by no node, and not by its skip connection.
  at::Tensor constant(std::int64_t layer) const;
  /// What a skip connection makes of x [.., d_in]; undefined without one.
  at::Tensor skipped(std::int64_t layer, const at::Tensor& x) const;

  /// The hooks that hold it in a run of copies of the row; `patterns`: only attention patterns.
  std::vector<Hook> holding(bool patterns = false) const;
  /// The input, `rows` times.
  Input copies(std::int64_t rows) const;

  ActivationName tokens_at() const { return tokens_at_; }  ///< where tokens write
  ActivationName mlp_at(std::int64_t layer) const;
  ActivationName in_layer(Site site, std::int64_t layer) const;
  ActivationName end_at() const;

 private:
  at::Tensor of(const ActivationName& name) const;

  const HookedTransformer& model_;
  const GraphCoders& coders_;
  Input input_;
  std::int64_t length_, first_;
  ActivationName tokens_at_;
  std::vector<ActivationName> held_;
  ActivationCache run_;
  at::Tensor logits_;
  std::vector<ActiveFeatures> active_;
};

/// Where gradients begin: a direction that is read.
struct ReadDirection {
  std::int64_t layer;    ///< of the features that read; the number of layers: the unembedding
  std::int64_t pos;      ///< where
  at::Tensor direction;  ///< [width]
};

/// The linear form of a held run, in several rows: gradients of one direction in each row at a time.
class LinearRun {
 public:
  /// `by_heads`: what heads pass on can be chosen for each row.
  LinearRun(const HeldRun& held, std::int64_t rows, bool by_heads = false);

  std::int64_t rows() const { return rows_; }
  /// What features read if all nodes write nothing, [pos, d_in], and what the unembedding reads, [d_model].
  const at::Tensor& constant_read(std::int64_t layer) const;
  const at::Tensor& constant_end() const { return constant_end_; }

  /// Gets the gradient [row, pos, d_model] in the dtype of the coders at the MLP of a layer, or with -1 at
  /// the embeddings.
  using Visit = std::function<void(std::int64_t layer, const at::Tensor& gradient)>;
  /// At most rows() directions, one in each row. With `heads`, only these heads of the layer pass gradients
  /// on, in each row [row, head].
  struct HeadsOf {
    std::int64_t layer;
    at::Tensor pass;
  };
  void back(const std::vector<ReadDirection>& directions, const Visit& visit,
            const std::optional<HeadsOf>& heads = std::nullopt) const;

 private:
  struct Passing;

  std::int64_t rows_, layers_;
  std::shared_ptr<Passing> passing_;
  at::Tensor end_;  // [row, 1, d_model], attached
  std::vector<at::Tensor> constant_reads_;
  at::Tensor constant_end_;
};

}  // namespace hooked
