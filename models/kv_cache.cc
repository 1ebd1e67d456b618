#include "models/kv_cache.h"

#include <ATen/ops/empty.h>

#include <cassert>

namespace hooked {

KvCache::KvCache(const ModelConfig& config, Size size, const c10::Device& device) : size_(size) {
  const at::TensorOptions options = at::TensorOptions(config.dtype).device(device);
  const auto room = [&](std::int64_t width) {
    return at::empty({config.n_layers, size.batch, config.n_kv_heads, size.capacity, width}, options);
  };
  keys_ = room(config.d_head);
  values_ = room(config.value_dim());
  split();
}

void KvCache::split() {
  layers_.clear();
  for (std::int64_t layer = 0; layer < keys_.size(0); ++layer) {
    // With versions of their own: what is kept of one layer has not been written into when the next is.
    layers_.push_back({keys_.select(0, layer).variable_data(), values_.select(0, layer).variable_data()});
  }
}

void KvCache::append(std::int64_t layer, const at::Tensor& keys, const at::Tensor& values) {
  assert(length_ + keys.size(1) <= size_.capacity);
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  own.keys.narrow(2, length_, keys.size(1)).copy_(keys.transpose(1, 2));
  own.values.narrow(2, length_, values.size(1)).copy_(values.transpose(1, 2));
}

void KvCache::append_at(std::int64_t layer, const at::Tensor& column, const at::Tensor& keys,
                        const at::Tensor& values) {
  KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  own.keys.index_copy_(2, column, keys.transpose(1, 2));
  own.values.index_copy_(2, column, values.transpose(1, 2));
}

KeysAndValues KvCache::layer(std::int64_t layer, std::int64_t columns) const {
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  return {own.keys.narrow(2, 0, columns), own.values.narrow(2, 0, columns)};
}

KvCache KvCache::first(std::int64_t columns) const {
  assert(columns <= length_);
  KvCache cut = *this;
  cut.size_.capacity = cut.length_ = columns;
  if (padded_) cut.real_ = real_.narrow(1, 0, columns);
  cut.keys_ = keys_.narrow(3, 0, columns);
  cut.values_ = values_.narrow(3, 0, columns);
  cut.split();
  return cut;
}

void KvCache::mark(std::int64_t columns, const at::Tensor& real) {
  assert(length_ + columns <= size_.capacity);
  if (!real.defined() && !padded_) return;
  if (!real_.defined()) {
    real_ = at::empty({size_.batch, size_.capacity}, keys_.options().dtype(at::kBool));
  }
  if (!padded_) real_.fill_(true);
  padded_ = true;
  const at::Tensor place = real_.narrow(1, length_, columns);
  if (real.defined()) {
    place.copy_(real);
  } else {
    place.fill_(true);
  }
}

void KvCache::advance(std::int64_t columns, const at::Tensor& real) {
  mark(columns, real);
  advance(columns);
}

void KvCache::take_over(const KvCache& before) {
  const std::int64_t columns = before.length();
  keys_.narrow(3, length_, columns).copy_(before.keys_.narrow(3, 0, columns));
  values_.narrow(3, length_, columns).copy_(before.values_.narrow(3, 0, columns));
  advance(columns, before.real());
  encoder_ = before.encoder_;
}

void KvCache::clear() {
  keys_.zero_();
  values_.zero_();
  padded_ = false;
  length_ = 0;
  encoder_ = {};
}

void KvCache::settle_encoder() {
  if (encoder_.empty()) return;
  const auto settle = [&](at::Tensor& room, at::Tensor& given) {
    if (!given.defined()) return;
    std::vector<std::int64_t> sizes = given.sizes().vec();
    sizes.front() = size_.batch;
    if (!room.defined()) room = at::empty(sizes, given.options());
    room.copy_(given);
    given = room;
  };
  encoder_room_.layers.resize(encoder_.layers.size());
  for (std::size_t l = 0; l < encoder_.layers.size(); ++l) {
    settle(encoder_room_.layers[l].keys, encoder_.layers[l].keys);
    settle(encoder_room_.layers[l].values, encoder_.layers[l].values);
  }
  settle(encoder_room_.real, encoder_.real);
}

template <typename Cache, typename Use>
void KvCache::for_each_tensor(Cache& cache, const Use& use) {
  use(cache.keys_);
  use(cache.values_);
  if (cache.padded_) use(cache.real_);
  for (auto& layer : cache.encoder_.layers) {
    use(layer.keys);
    use(layer.values);
  }
  if (cache.encoder_.real.defined()) use(cache.encoder_.real);
}

std::vector<at::Tensor> KvCache::tensors() const {
  std::vector<at::Tensor> all;
  for_each_tensor(*this, [&](const at::Tensor& tensor) { all.push_back(tensor); });
  return all;
}

KvCache KvCache::with_tensors(const std::vector<at::Tensor>& tensors) const {
  KvCache other = *this;
  std::size_t next = 0;
  for_each_tensor(other, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
  other.split();
  return other;
}

std::size_t KvCache::bytes() const { return keys_.nbytes() + values_.nbytes(); }

}  // namespace hooked
