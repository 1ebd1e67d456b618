#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// What errors of graphs are about.
inline constexpr const char* kGraph = "attribution graph";

/// The features of a layer that are active in a run of one row: by position, then number. On the device of
/// the layer.
struct ActiveFeatures {
  at::Tensor pos;       ///< [active] int64
  at::Tensor features;  ///< [active] int64
  at::Tensor values;    ///< [active]

  std::int64_t size() const { return pos.size(0); }
};

/// What stands in the place of a model's MLPs: each layer's features, what they read and what they write.
/// Vectors are in `dtype`.
class GraphCoders {
 public:
  GraphCoders(std::int64_t layers, at::ScalarType dtype) : layers_(layers), dtype_(dtype) {}
  GraphCoders(const GraphCoders&) = delete;
  GraphCoders& operator=(const GraphCoders&) = delete;
  virtual ~GraphCoders() = default;

  std::int64_t layers() const { return layers_; }
  at::ScalarType dtype() const { return dtype_; }
  /// Whether the layer has features.
  bool codes(std::int64_t layer) const { return reads(layer).has_value(); }
  /// What a layer's features read; nothing: it has none.
  virtual std::optional<ActivationName> reads(std::int64_t layer) const = 0;
  /// What else active() needs of the run.
  virtual std::vector<ActivationName> needs() const { return {}; }
  /// The active features of a layer at the positions from `first` on.
  virtual ActiveFeatures active(std::int64_t layer, const ActivationCache& run, std::int64_t first) const = 0;
  /// The activation that codes are computed from, and the codes [.., feature] that it makes.
  virtual ActivationName codes_at(std::int64_t layer) const = 0;
  virtual at::Tensor codes_of(std::int64_t layer, const at::Tensor& x) const = 0;
  /// The number of a layer's features.
  virtual std::int64_t features(std::int64_t layer) const = 0;
  /// What features read, [n, d_in], and the bias that is added to it, [n].
  virtual at::Tensor encoder(std::int64_t layer, const at::Tensor& features) const = 0;
  virtual at::Tensor encoder_bias(std::int64_t layer, const at::Tensor& features) const = 0;
  /// Whether features of `source` write to the MLP's output of `target`, and what: [n, d_out].
  virtual bool writes(std::int64_t source, std::int64_t target) const { return source == target; }
  virtual at::Tensor decoder(std::int64_t source, std::int64_t target, const at::Tensor& features) const = 0;
  /// What is added to the MLP's output of a layer in addition to features, [d_out]; undefined: nothing.
  virtual at::Tensor bias(std::int64_t layer) const = 0;
  /// [d_out, d_in] of the skip connection; undefined: none.
  virtual at::Tensor skip(std::int64_t) const { return {}; }
  /// Whether MLPs have error nodes.
  virtual bool has_errors() const { return true; }
  /// What a user should know.
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  std::int64_t layers_;
  at::ScalarType dtype_;
};

/// The dtype in which graphs of a model are computed: its own, at least float32.
at::ScalarType graph_dtype(const HookedTransformer& model);

/// Throws as attribute_graph() about model and features.
std::unique_ptr<GraphCoders> graph_coders(const HookedTransformer& model, const GraphFeatures& features);

}  // namespace hooked
