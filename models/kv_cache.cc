#include "models/kv_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <cassert>

namespace hooked {

namespace {

// Uninitialised, for `size` columns like those of `own`.
KeysAndValues room_for(const KeysAndValues& own, const KvCache::Size& size) {
  const auto room = [&](const at::Tensor& like) {
    return at::empty({size.batch, like.size(1), size.capacity, like.size(3)}, like.options());
  };
  const at::Tensor keys = room(own.keys);
  if (own.form == KeyForm::heads) return {keys, room(own.values)};
  return {keys, keys.narrow(3, 0, own.values.size(3)), own.form};
}

}  // namespace

KvCache::KvCache(std::int64_t layers, Size size) : size_(size), layers_(static_cast<std::size_t>(layers)) {}

void KvCache::append(std::int64_t layer, const KeysAndValues& own) {
  KeysAndValues& room = layers_[static_cast<std::size_t>(layer)];
  if (!room.keys.defined()) room = room_for(own, size_);
  assert(room.form == own.form && length_ + own.keys.size(2) <= size_.capacity);
  const auto write = [&](const at::Tensor& to, const at::Tensor& from) {
    to.narrow(2, length_, from.size(2)).copy_(from);
  };
  write(room.keys, own.keys);
  if (own.form == KeyForm::heads) write(room.values, own.values);
}

void KvCache::replace(std::int64_t layer, const KeysAndValues& filled) {
  assert(filled.keys.size(2) == length_);
  KeysAndValues& room = layers_[static_cast<std::size_t>(layer)];
  room = room_for(filled, size_);
  room.keys.narrow(2, 0, length_).copy_(filled.keys);
  if (filled.form == KeyForm::heads) room.values.narrow(2, 0, length_).copy_(filled.values);
}

std::int64_t KvCache::bytes() const {
  std::int64_t bytes = 0;
  const auto add = [&](const KeysAndValues& held) {
    if (!held.keys.defined()) return;
    bytes += static_cast<std::int64_t>(held.keys.nbytes());
    if (held.form == KeyForm::heads) bytes += static_cast<std::int64_t>(held.values.nbytes());
  };
  for (std::int64_t l = 0; l < static_cast<std::int64_t>(layers_.size()); ++l) add(layer(l, length_));
  for (const KeysAndValues& made : encoder_.layers) add(made);
  return bytes;
}

KeysAndValues KvCache::layer(std::int64_t layer, std::int64_t columns) const {
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  if (!own.keys.defined()) return {};
  return {own.keys.narrow(2, 0, columns), own.values.narrow(2, 0, columns), own.form};
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
    const c10::Device device = (real.defined() ? real : real_).device();
    const auto or_all = [&](const at::Tensor& mask, std::int64_t width) {
      return mask.defined() ? mask
                            : at::ones({size_.batch, width}, at::TensorOptions(at::kBool).device(device));
    };
    real_ = at::cat({or_all(real_, length_), or_all(real, columns)}, 1);
  }
  length_ += columns;
}

}  // namespace hooked
