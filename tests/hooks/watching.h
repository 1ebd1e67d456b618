#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
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

/// A watch over all of a model without the model: tests fire the points themselves.
class Watching {
 public:
  /// `last` is each row's last real position, [batch] int64; undefined: every row ends at the last.
  explicit Watching(const ModelConfig& config = tiny_config(), at::Tensor last = {})
      : points_(std::make_unique<PointIndex>(config)),
        watch_(std::make_unique<Watch>(*points_, RunExtent{.reach = Reach::everything(*points_),
                                                           .columns = {.last = std::move(last)}})) {}

  Watch* operator->() { return watch_.get(); }
  const PointIndex& points() const { return *points_; }

  /// What downstream sees of `value` at the point of that name; the value itself where nobody watches.
  at::Tensor fire(const std::string& name, const at::Tensor& value) {
    const std::size_t point = points_->require(ActivationName::parse(name));
    return watch_->watches(point) ? watch_->fire(point, value) : value;
  }

 private:
  std::unique_ptr<PointIndex> points_;
  std::unique_ptr<Watch> watch_;
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
