#include "hooks/growing_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/site.h"
#include "hooks/held_columns.h"
#include "hooks/host_transport.h"
#include "hooks/layout_text.h"

namespace hooked {
namespace {

// Nothing if the positions are all those of the sequence, as far as its length is known: then columns and
// positions are the same.
std::vector<std::int64_t> unless_all(std::vector<std::int64_t> positions,
                                     const std::optional<TokenColumns>& columns) {
  if (columns && columns->end != std::ssize(positions)) return positions;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != static_cast<std::int64_t>(i)) return positions;
  }
  return {};
}

// Positions that all rows share, [row, position].
at::Tensor of_rows(const std::vector<std::int64_t>& positions, std::int64_t rows) {
  return at::tensor(positions, at::kLong).expand({rows, -1});
}

bool has_keys(const ActivationName& name) { return row(name.site).axes.find(Axis::key).has_value(); }

// Throws HookError unless the value of `name` differs from the earlier one only along the axes that grow.
void require_continuation(const ActivationName& name, const at::Tensor& before, const at::Tensor& value) {
  const std::int64_t along = sequence_dimension(name.site);
  std::vector<std::int64_t> expected = before.sizes().vec(), got = value.sizes().vec();
  bool fits = expected.size() == got.size() && before.scalar_type() == value.scalar_type() &&
              before.device() == value.device();
  if (fits) {
    expected[static_cast<std::size_t>(along)] = got[static_cast<std::size_t>(along)];
    if (has_keys(name)) expected.back() = got.back();
    fits = expected == got;
  }
  if (fits) return;
  throw HookError(name.to_string(),
                  fmt::format("stretches of columns do not fit together; expected the same rows, dtype and "
                              "device in all, {}, got {}",
                              layout_text(before), layout_text(value)));
}

// At least `needed`, and twice the old size, so that growing by one is rare.
std::int64_t grown_size(std::int64_t had, std::int64_t needed) {
  return had >= needed ? had : std::max(needed, 2 * had);
}

}  // namespace

void GrowingCache::append(const ActivationCache& stretch) {
  if (columns_.empty()) {
    stacks_ = {stretch.n_layers(), stretch.n_layers(Stack::encoder)};
    encoder_columns_ = stretch.tokens(Stack::encoder);
    model_ = stretch.model();
  }
  if (!model_ || !stretch.model()) {
    model_ = nullptr;
  } else if (*model_ != *stretch.model()) {
    throw HookError("join", fmt::format("the stretches are of two models; expected {}, got {}",
                                        model_->text(), stretch.model()->text()));
  }
  columns_.push_back(stretch.tokens());
  for (const ActivationCache::Entry& unchecked : stretch) {
    const ActivationCache::Entry& entry = stretch.entry(unchecked.name);  // reports writes into it
    const auto [number, added] = numbers_.try_emplace(entry.name, grown_.size());
    if (added) grown_.push_back({.name = entry.name});
    append(grown_[number->second], entry, stretch);
    if (!entry.held.device().is_cpu()) waiting_bytes_ += entry.held.nbytes();
  }
  if (!transport_ || (++waiting_ < at_once_ && waiting_bytes_ < transport_->block_bytes)) return;
  put_arriving();
  send_waiting();
}

void GrowingCache::append_positions(Grown& grown, const ActivationCache::Entry& entry,
                                    const ActivationCache& stretch) {
  const auto axis = axis_on(entry.name.site, Axis::pos);
  if (!axis) return;  // an expert's tokens
  const std::vector<std::int64_t> sizes = entry.held.sizes();
  if (entry.row_positions.defined()) {
    if (grown.row_positions.empty() && grown.stretches > 0)
      grown.row_positions.push_back(of_rows(std::exchange(grown.positions, {}), sizes.front()));
    grown.row_positions.push_back(entry.row_positions.to(at::kCPU));
    return;
  }
  std::vector<std::int64_t> positions = entry.positions;
  if (positions.empty()) {  // all of the stretch's positions
    const auto& columns = tokens_along(stretch, entry.name, *axis);
    positions.resize(
        static_cast<std::size_t>(sizes[static_cast<std::size_t>(sequence_dimension(entry.name.site))]));
    std::iota(positions.begin(), positions.end(), columns ? columns->first : std::ssize(grown.positions));
  }
  if (!grown.row_positions.empty()) return grown.row_positions.push_back(of_rows(positions, sizes.front()));
  grown.positions.insert(grown.positions.end(), positions.begin(), positions.end());
}

void GrowingCache::append(Grown& grown, const ActivationCache::Entry& entry,
                          const ActivationCache& stretch) const {
  append_positions(grown, entry, stretch);
  ++grown.stretches;
  if (transport_) return grown.waiting.push_back(entry);  // which may not have arrived yet
  const at::Tensor& value = entry.value();
  if (grown.room.defined()) require_continuation(grown.name, grown.room, value);
  if (!grown.room.defined() || at_once_ == 1 || has_keys(entry.name)) return put(grown, value);
  grown.waiting.push_back(entry);
  if (grown.waiting.size() == at_once_) put_waiting(grown);
}

void GrowingCache::send_waiting() {
  struct Sent {
    Grown& of;
    std::size_t place;  // index into what arrives
  };
  std::vector<Sent> order;
  std::vector<at::Tensor> tensors;
  for (Grown& grown : grown_) {
    std::vector<at::Tensor> neighbours;  // on one device, which are copied together
    const auto add_neighbours = [&] {
      if (neighbours.empty()) return;
      order.push_back({grown, grown.arriving.size()});
      grown.arriving.emplace_back();
      tensors.push_back(neighbours.size() == 1 ? neighbours.front()
                                               : at::cat(neighbours, sequence_dimension(grown.name.site)));
      neighbours.clear();
    };
    for (const ActivationCache::Entry& entry : grown.waiting) {
      const bool here = entry.held.device().is_cpu();
      if (here || has_keys(grown.name)) add_neighbours();
      if (here) {
        grown.arriving.push_back(entry.held);
      } else {
        neighbours.push_back(entry.value());
      }
    }
    add_neighbours();
    grown.waiting.clear();
  }
  const std::vector<LateTensor> sent = transport_->send(tensors);
  for (std::size_t i = 0; i < sent.size(); ++i) order[i].of.arriving[order[i].place] = sent[i];
  waiting_ = waiting_bytes_ = 0;
}

void GrowingCache::put_arriving() {
  for (Grown& grown : grown_) {
    for (const LateTensor& arriving : grown.arriving) {
      const at::Tensor& value = arriving.value(grown.name);
      if (grown.room.defined()) require_continuation(grown.name, grown.room, value);
      put(grown, value);
    }
    grown.arriving.clear();
  }
}

void GrowingCache::put_waiting(Grown& grown) {
  if (grown.waiting.empty()) return;
  std::vector<at::Tensor> values;
  for (const ActivationCache::Entry& entry : grown.waiting) values.push_back(entry.value());
  put(grown, at::cat(values, sequence_dimension(grown.name.site)));
  grown.waiting.clear();
}

void GrowingCache::put(Grown& grown, const at::Tensor& value) {
  const std::int64_t along = sequence_dimension(grown.name.site), columns = value.size(along);
  const bool keyed = has_keys(grown.name);
  const std::int64_t keys = keyed ? value.size(-1) : 0;
  if (!grown.room.defined()) {  // the output of a single stretch (an encoder's) is never copied
    grown.room = value;
    grown.columns = columns;
    grown.keys = keys;
    return;
  }
  std::vector<std::int64_t> sizes = grown.room.sizes().vec();
  const auto d = static_cast<std::size_t>(along);
  sizes[d] = grown_size(sizes[d], grown.columns + columns);
  if (keyed) sizes.back() = grown_size(sizes.back(), keys);
  if (!grown.own || at::IntArrayRef(sizes) != grown.room.sizes()) {
    const at::Tensor before = grown.room.narrow(along, 0, grown.columns);
    grown.room = keyed ? at::full(sizes, row(grown.name.site).unseen, before.options())
                       : at::empty(sizes, before.options());
    grown.own = true;
    at::Tensor old = grown.room.narrow(along, 0, grown.columns);
    if (keyed) old = old.narrow(-1, 0, before.size(-1));
    old.copy_(before);
  }
  at::Tensor place = grown.room.narrow(along, grown.columns, columns);
  if (keyed) place = place.narrow(-1, 0, keys);
  place.copy_(value);
  grown.columns += columns;
  grown.keys = std::max(grown.keys, keys);
}

// Nothing if a stretch does not know its columns, or does not begin where the one before it ends.
std::optional<TokenColumns> GrowingCache::joined_columns() const {
  std::optional<TokenColumns> all;
  std::int64_t batch = 0;
  c10::Device device = at::kCPU;  // of the masks
  for (const std::optional<TokenColumns>& columns : columns_) {
    if (!columns || (all && columns->first != all->end)) return std::nullopt;
    if (!all) {
      all = TokenColumns{.first = columns->first, .end = columns->first, .prefix_mask = columns->prefix_mask};
    }
    all->end = columns->end;
    if (columns->mask.defined()) {
      batch = columns->mask.size(0);
      device = columns->mask.device();
    }
  }
  const auto knows_ids = [](const auto& columns) { return columns->ids.defined(); };
  if (all && std::all_of(columns_.begin(), columns_.end(), knows_ids)) {
    std::vector<at::Tensor> ids;
    for (const std::optional<TokenColumns>& columns : columns_)
      ids.push_back(to_device(columns->ids, columns_.front()->ids.device()));
    all->ids = at::cat(ids, 1);
  }
  if (batch == 0) return all;
  std::vector<at::Tensor> masks;
  const at::TensorOptions options = at::TensorOptions(at::kBool).device(device);
  for (const std::optional<TokenColumns>& columns : columns_) {
    masks.push_back(columns->mask.defined() ? to_device(columns->mask, device)
                                            : at::ones({batch, columns->end - columns->first}, options));
  }
  all->mask = at::cat(masks, 1);
  return all;
}

ActivationCache GrowingCache::take() {
  ActivationCache joined(stacks_);
  joined.set_model(model_);
  if (encoder_columns_) joined.set_tokens(*encoder_columns_, Stack::encoder);
  if (auto columns = joined_columns()) joined.set_tokens(*std::move(columns));
  if (transport_) {
    put_arriving();
    send_waiting();
    put_arriving();
  }
  for (Grown& grown : grown_) {
    put_waiting(grown);
    at::Tensor value = grown.room.narrow(sequence_dimension(grown.name.site), 0, grown.columns);
    const auto axis = axis_on(grown.name.site, Axis::pos);
    const auto& columns = axis ? tokens_along(joined, grown.name, *axis) : joined.tokens();
    if (has_keys(grown.name)) {
      value = value.narrow(-1, 0, grown.keys);
      // Even if the last queries were not kept, their keys are columns of the sequence.
      const std::int64_t later = columns ? columns->end - grown.keys : 0;
      if (later > 0) value = at::constant_pad_nd(value, {0, later}, row(grown.name.site).unseen);
    }
    // As in a run's cache: views that pin far more memory than they show are compacted.
    if (grown.stretches > 1 && grown.room.nbytes() > 2 * value.nbytes())
      value = value.clone(at::MemoryFormat::Contiguous);
    joined.insert({grown.name, value, unless_all(std::move(grown.positions), columns),
                   grown.row_positions.empty() ? at::Tensor() : at::cat(grown.row_positions, 1)});
  }
  *this = GrowingCache(at_once_, std::move(transport_));
  return joined;
}

}  // namespace hooked
