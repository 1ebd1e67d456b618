#pragma once

#include <memory>
#include <optional>
#include <string>

#include "models/graph/graph.h"
#include "models/ops/norm_rows.h"
#include "models/sequence/run.h"

namespace hooked {

/// The division of a norm: everything about it except its weights.
struct Division {
  NormKind kind;
  std::vector<std::int64_t> shape;  ///< sizes of the last axes, which are normed together
  double eps;
  at::ScalarType dtype;  ///< of what is normed; the input and the weights may be wider

  /// `x` in float32 or better, centred if the norm centres.
  at::Tensor dividend(const at::Tensor& x) const;
  /// [.., 1] of a dividend.
  at::Tensor scale(const at::Tensor& dividend) const;
  /// `x` / scale, in `dtype`. Not while gradients are recorded.
  at::Tensor normalized(const at::Tensor& x, Memory memory) const;
};

/// LayerNorm or RMSNorm over the last axis or the last two, with its two points.
///
/// scale = sqrt(mean(x^2) + eps) of the (for LayerNorm centred) input, normalized = x / scale; then weight
/// and bias. Statistics are accumulated in float32 or better. One pass if nobody changes what the points
/// show. The result has the model's dtype, even if the stream or the weights are wider.
class Norm : public torch::nn::Module {
 public:
  struct Layout {
    NormKind kind;
    Site normalized;                  ///< the point after the division; norm_with() gives the divisor's
    std::vector<std::int64_t> shape;  ///< sizes of the last axes, which are normed together
    bool weighted = true;
    bool bias = false;
    bool offset = false;  ///< a stored weight w means 1 + w
    /// Sizes of the last axes along which the weight varies; empty: `shape`.
    std::vector<std::int64_t> weight_shape = {};
    std::optional<double> eps = {};  ///< none: the config's
    /// It has no points of its own, and only its `without_points` is called.
    bool silent = false;
  };

  Norm(const Layout& layout, const GraphContext& context);

  /// `x` normed, same shape.
  at::Tensor forward(const at::Tensor& x, Run& run) const;

  /// `x` [..., shape] normed without firing the points: for inputs that differ from what the points show.
  at::Tensor without_points(const at::Tensor& x, const Run& run) const;

  struct Output {
    at::Tensor normed;
    bool edited;  ///< a hook or edit changed scale or normalized
  };
  /// Like `forward`, also returning whether anybody changed what the points show.
  Output forward_with_edits(const at::Tensor& x, Run& run) const;

  /// Whether anybody watches one of the two points.
  bool watched(const Run& run) const {
    return hook_scale_->watched(run.watch) || hook_normalized_->watched(run.watch);
  }

  /// Reads `other`'s weight and bias from now on (one norm with two pairs of points).
  void share_weights_of(const Norm& other);

  /// Adds the weight to those that are wanted with 1 added (Run::offset_weights), if it is one.
  void add_offset_weight(std::vector<at::Tensor>& weights);

  WeightSlots slots(const std::string& path) const;

 private:
  /// `x` with the normed axes as one, and what our kernel does with its rows.
  struct Rows {
    at::Tensor x;
    RowNorm how;
  };
  /// Without autograd history. Nothing if LibTorch's operators are required, or our kernel is not suitable.
  std::optional<Rows> rows_of(const at::Tensor& x, const Run& run) const;
  /// `normed`, which our kernel computed from `x` by its `rows`, with its backward pass.
  at::Tensor recorded_norm(const at::Tensor& normed, const at::Tensor& x, const Rows& rows,
                           const Run& run) const;
  /// Whether the input or the weights are wider than the result.
  bool narrows(const at::Tensor& x) const;
  /// Whether LibTorch's operator rounds the normed values before it multiplies by the weight.
  bool rounds_between(const at::Tensor& x) const;
  at::Tensor weighted(const at::Tensor& normalized, const Run& run) const;
  at::Tensor weight(const Run& run) const;
  /// What LibTorch's operators multiply by and add, of the shape of the normed axes.
  struct Affine {
    std::optional<at::Tensor> weight = {}, bias = {};
  };
  Affine of_operator(const Run& run) const;
  at::Tensor by_operator(const at::Tensor& x, const Affine& with) const;
  struct NormedByKernel {
    at::Tensor normed;            // x, weighted
    at::Tensor reciprocal_scale;  // [.., 1], in float32 or better
  };
  /// In one operator, for devices on which that is one kernel. For norms whose weight has the normed axes.
  NormedByKernel by_kernel(const at::Tensor& x, const Run& run) const;
  /// `x` normed by the shorter path, if nobody changes what the points show and `normalized` may be left to
  /// the cache.
  at::Tensor forward_unchanged(const at::Tensor& x, Run& run) const;

  Division division_;
  std::vector<std::int64_t> weight_shape_;
  bool offset_;
  std::size_t offset_number_ = 0;  // index in Run::offset_weights
  at::Tensor w_;
  at::Tensor b_;
  Point hook_scale_;
  Point hook_normalized_;
};

/// The layout of a norm over d_model, with the biases and offsets that the config's norms have.
Norm::Layout stream_norm(const ModelConfig& config, NormKind kind, Site normalized, bool weighted);
/// The same for a norm outside the blocks, whose weight is never folded and never an offset.
Norm::Layout outer_norm(const ModelConfig& config, NormKind kind, Site normalized);

/// Registers a norm in `owner` under that name.
std::shared_ptr<Norm> add_norm(torch::nn::Module& owner, const char* name, const Norm::Layout& layout,
                               const GraphContext& context);

}  // namespace hooked
