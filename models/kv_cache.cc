#include "models/kv_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <cassert>

namespace hooked {

KvCache::KvCache(const ModelConfig& config, Size size, const Placement& placement) : size_(size) {
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const auto options = at::TensorOptions(config.dtype).device(placement.of({config.main_stack(), layer}));
    const auto room = [&](std::int64_t width) {
      return at::empty({size.batch, config.n_kv_heads, size.capacity, width}, options);
    };
    layers_.push_back({room(config.d_head), room(config.value_dim())});
  }
}

void KvCache::append(std::int64_t layer, const at::Tensor& keys, const at::Tensor& values) {
  assert(length_ + keys.size(1) <= size_.capacity);
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  own.keys.narrow(2, length_, keys.size(1)).copy_(keys.transpose(1, 2));
  own.values.narrow(2, length_, values.size(1)).copy_(values.transpose(1, 2));
}

KeysAndValues KvCache::layer(std::int64_t layer, std::int64_t columns) const {
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  return {own.keys.narrow(2, 0, columns), own.values.narrow(2, 0, columns)};
}

KvCache KvCache::first(std::int64_t columns) const {
  assert(columns <= length_);
  KvCache cut = *this;
  cut.size_.capacity = cut.length_ = columns;
  if (real_.defined()) cut.real_ = real_.narrow(1, 0, columns);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    cut.layers_[l] = layer(static_cast<std::int64_t>(l), columns);
  }
  return cut;
}

void KvCache::advance(std::int64_t columns, const at::Tensor& real) {
  if (real.defined() || real_.defined()) {
    const at::TensorOptions options = (real.defined() ? real : real_).options();
    const auto or_all = [&](const at::Tensor& mask, std::int64_t width) {
      return mask.defined() ? mask : at::ones({size_.batch, width}, options);
    };
    real_ = at::cat({or_all(real_, length_), or_all(real, columns)}, 1);
  }
  length_ += columns;
}

}  // namespace hooked
