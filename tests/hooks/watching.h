#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/point_index.h"
#include "hooks/watch.h"

namespace hooked {

/// A config of 3 layers, 4 heads, d_model 6, d_mlp 5: every axis has another size.
inline ModelConfig tiny_config() {
  ModelConfig config;
  config.n_layers = 3;
  config.d_model = 6;
  config.n_ctx = 8;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 7;
  config.d_mlp = 5;
  config.d_vocab = 9;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = at::kDouble;
  return config;
}

/// A watch on a whole model without the model: tests fire the points themselves.
class Watching {
 public:
  /// `last` is each row's last real position, [batch] int64; undefined: every row ends at the last.
  explicit Watching(const ModelConfig& config = tiny_config(), at::Tensor last = {})
      : points_(std::make_unique<PointIndex>(config)),
        plan_(std::make_shared<WatchPlan>(*points_, Reach::everything(*points_))),
        extent_{.columns = {.last = std::move(last)}} {}

  /// Everything added here before the first point fires is watched.
  WatchPlan* operator->() { return plan_.get(); }
  const PointIndex& points() const { return *points_; }

  /// What the model sees downstream of `value` at the point of that name; the value itself if nobody watches.
  at::Tensor fire(const std::string& name, const at::Tensor& value) {
    const std::size_t point = points_->require(ActivationName::parse(name));
    return watch().watches(point) ? watch().fire(point, value) : value;
  }
  ActivationCache take_cache() { return watch().take_cache(); }

 private:
  Watch& watch() {
    if (!watch_) watch_.emplace(plan_, extent_);
    return *watch_;
  }

  std::unique_ptr<PointIndex> points_;
  std::shared_ptr<WatchPlan> plan_;
  RunExtent extent_;
  std::optional<Watch> watch_;
};

/// The names that a selection picks in a model, in order.
inline std::vector<std::string> picked(const Selection& selection,
                                       const ModelConfig& config = tiny_config()) {
  const PointIndex points(config);
  std::vector<std::string> names;
  for (const std::size_t point : selection.resolve(points, Reach::everything(points))) {
    names.push_back(points.name(point).to_string());
  }
  return names;
}

}  // namespace hooked
