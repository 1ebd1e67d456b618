#include "models/sequence/kv_cache.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace hooked {

namespace {

// The sizes of one column of a layer.
struct ColumnSizes {
  std::int64_t heads, d_key, d_value;
  KeyForm form;
};

ColumnSizes column_sizes(const ModelConfig& config, std::int64_t layer, KeyForm form) {
  switch (form) {
    case KeyForm::heads:
    case KeyForm::state:
    case KeyForm::shared:
      break;
    case KeyForm::latents:
      return {1, config.latent->d_kv + config.latent->d_shared_key, config.latent->d_kv, form};
    case KeyForm::convolved:
      return {1, config.d_model, config.d_model, form};
  }
  return {config.kv_heads(layer), config.head_width(layer), config.value_dim(layer), KeyForm::heads};
}

// Uninitialised, for `size` such columns.
KeysAndValues room_for(const ColumnSizes& column, const KvCache::Size& size,
                       const at::TensorOptions& options) {
  const auto room = [&](std::int64_t width) {
    return at::empty({size.batch, column.heads, size.capacity, width}, options);
  };
  const at::Tensor keys = room(column.d_key);
  if (column.form == KeyForm::heads) return {keys, room(column.d_value)};
  return {keys, keys.narrow(3, 0, column.d_value), column.form};
}

// The same for columns like those of `own`.
KeysAndValues room_for(const KeysAndValues& own, const KvCache::Size& size) {
  return room_for({own.keys.size(1), own.keys.size(3), own.values.size(3), own.form}, size,
                  own.keys.options());
}

// Copies columns into a room from its column `first` on. Only heads have values that are not in their keys.
void copy_columns(const KeysAndValues& columns, const KeysAndValues& room, std::int64_t first) {
  const std::int64_t count = columns.keys.size(2);
  room.keys.narrow(2, first, count).copy_(columns.keys);
  if (columns.form == KeyForm::heads) room.values.narrow(2, first, count).copy_(columns.values);
}

std::size_t bytes_of(const KeysAndValues& held) {
  if (!held.keys.defined()) return 0;
  return held.keys.nbytes() + (held.form == KeyForm::heads ? held.values.nbytes() : 0);
}

std::size_t bytes_of(const RecurrentState& state) {
  return state.defined() ? state.inputs.nbytes() + state.state.nbytes() : 0;
}

void copy_state(const RecurrentState& from, const RecurrentState& room) {
  room.inputs.copy_(from.inputs);
  room.state.copy_(from.state);
}

}  // namespace

template <typename Cache, typename Use>
void KvCache::for_each_tensor(Cache& cache, const Use& use) {
  const auto use_both = [&](auto& held) {
    if (!held.keys.defined()) return;
    use(held.keys);
    // Latents are stored once.
    if (held.form == KeyForm::heads) use(held.values);
  };
  for (auto& layer : cache.layers_) use_both(layer);
  for (auto& state : cache.states_) {
    if (!state.defined()) continue;
    use(state.inputs);
    use(state.state);
  }
  if (cache.padded_) use(cache.real_);
  for (auto& layer : cache.encoder_.layers) use_both(layer);
  if (cache.encoder_.real.defined()) use(cache.encoder_.real);
}

KvCache::KvCache(std::int64_t layers, Size size)
    : size_(size),
      layers_(static_cast<std::size_t>(layers)),
      states_(static_cast<std::size_t>(layers)),
      next_states_(static_cast<std::size_t>(layers)) {}

void KvCache::set_state(std::int64_t layer, const RecurrentState& next) {
  RecurrentState& room = next_states_[static_cast<std::size_t>(layer)];
  if (!allotted_) {
    room = {next.inputs.detach().clone(), next.state.detach()};  // inputs may be part of a much larger tensor
    return;
  }
  copy_state(next, room);
}

bool KvCache::has_states() const {
  return std::any_of(states_.begin(), states_.end(), [](const RecurrentState& s) { return s.defined(); });
}

void KvCache::advance(std::int64_t columns) {
  length_ += columns;
  for (std::size_t l = 0; l < states_.size(); ++l) {
    if (!next_states_[l].defined()) continue;
    if (allotted_) {
      copy_state(next_states_[l], states_[l]);
    } else {
      states_[l] = std::exchange(next_states_[l], {});
    }
  }
}

void KvCache::append(std::int64_t layer, const KeysAndValues& own) {
  KeysAndValues& room = layers_[static_cast<std::size_t>(layer)];
  if (!room.keys.defined()) room = room_for(own, size_);
  assert(room.form == own.form && length_ + own.keys.size(2) <= size_.capacity);
  copy_columns(own, room, length_);
}

void KvCache::replace(std::int64_t layer, const KeysAndValues& filled) {
  assert(filled.keys.size(2) == length_);
  KeysAndValues& room = layers_[static_cast<std::size_t>(layer)];
  room = room_for(filled, size_);
  copy_columns(filled, room, 0);
}

std::int64_t KvCache::bytes() const {
  std::size_t bytes = 0;
  for (std::int64_t l = 0; l < std::ssize(layers_); ++l) bytes += bytes_of(layer(l, length_));
  for (const KeysAndValues& made : encoder_.layers) bytes += bytes_of(made);
  for (const RecurrentState& state : states_) bytes += bytes_of(state);
  return static_cast<std::int64_t>(bytes);
}

KeysAndValues KvCache::layer(std::int64_t layer, std::int64_t columns) const {
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  if (!own.keys.defined()) return {};
  return {own.keys.narrow(2, 0, columns), own.values.narrow(2, 0, columns), own.form};
}

std::optional<KeyForm> KvCache::form(std::int64_t layer) const {
  const KeysAndValues& own = layers_[static_cast<std::size_t>(layer)];
  if (state(layer).defined()) return KeyForm::state;
  return own.keys.defined() ? std::optional(own.form) : std::nullopt;
}

KvCache KvCache::first(std::int64_t columns) const {
  assert(columns <= length_ && (columns == length_ || !has_states()));
  KvCache cut = *this;
  cut.size_.capacity = cut.length_ = columns;
  if (padded_) cut.real_ = real_.narrow(1, 0, columns);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    cut.layers_[l] = layer(static_cast<std::int64_t>(l), columns);
  }
  return cut;
}

void KvCache::mark(std::int64_t columns, const at::Tensor& real) {
  assert(length_ + columns <= size_.capacity);
  if (!real.defined() && !padded_) return;
  if (!real_.defined()) real_ = at::empty({size_.batch, size_.capacity}, real.options().dtype(at::kBool));
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
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const auto number = static_cast<std::int64_t>(l);
    KeysAndValues columns = before.layer(number, before.length());
    if (!columns.keys.defined()) continue;
    for (at::Tensor* x : {&columns.keys, &columns.values}) *x = x->expand({size_.batch, -1, -1, -1});
    append(number, columns);
  }
  for (std::size_t l = 0; l < states_.size(); ++l) {
    const RecurrentState& given = before.states_[l];
    if (!given.defined()) continue;
    const RecurrentState rows{given.inputs.expand({size_.batch, -1, -1}),
                              given.state.expand({size_.batch, -1, -1, -1})};
    if (allotted_) {
      set_state(static_cast<std::int64_t>(l), rows);
    } else {
      states_[l] = rows;
    }
  }
  advance(before.length(), before.real());
  encoder_ = before.encoder_;
}

void KvCache::allot(const ModelConfig& config, const std::vector<KeyForm>& forms, const c10::Device& device) {
  const auto options = at::TensorOptions(config.dtype).device(device);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (forms[l] == KeyForm::shared) continue;
    if (forms[l] != KeyForm::state) {
      layers_[l] = room_for(column_sizes(config, static_cast<std::int64_t>(l), forms[l]), size_, options);
      continue;
    }
    const DeltaNet& net = *config.delta_net;
    for (RecurrentState* room : {&states_[l], &next_states_[l]}) {
      room->inputs = at::zeros({size_.batch, net.kernel - 1, net.d_qkv()}, options);
      room->state = at::zeros({size_.batch, net.n_heads, net.d_key, net.d_value},
                              options.dtype(at::toOpMathType(config.dtype)));
    }
  }
  allotted_ = true;
}

void KvCache::clear() {
  padded_ = false;
  length_ = 0;
  encoder_ = {};
  for_each_tensor(*this, [](const at::Tensor& tensor) { tensor.zero_(); });
  for (const RecurrentState& state : next_states_) {
    for (const at::Tensor& part : {state.inputs, state.state})
      if (part.defined()) part.zero_();
  }
}

void KvCache::append_at(std::int64_t layer, const at::Tensor& column, const KeysAndValues& own) {
  KeysAndValues& room = layers_[static_cast<std::size_t>(layer)];
  assert(room.form == own.form);
  room.keys.index_copy_(2, column, own.keys);
  if (own.form == KeyForm::heads) room.values.index_copy_(2, column, own.values);
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

std::int64_t KvCache::room_bytes() const {
  std::size_t bytes = 0;
  for (const RecurrentState& state : states_) bytes += 2 * bytes_of(state);
  for (const KeysAndValues& layer : layers_) bytes += bytes_of(layer);
  return static_cast<std::int64_t>(bytes);
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
  for (KeysAndValues& layer : other.layers_) {
    if (layer.form != KeyForm::heads && layer.keys.defined())
      layer.values = layer.keys.narrow(3, 0, layer.values.size(3));
  }
  return other;
}

}  // namespace hooked
