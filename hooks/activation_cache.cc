#include "hooked/hooks/activation_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <map>

#include "core/nearest.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooks/growing_cache.h"
#include "hooks/held_columns.h"
#include "hooks/padded_places.h"

namespace hooked {

at::Tensor TokenColumns::last(std::int64_t batch) const {
  if (!mask.defined()) return at::full({batch}, end - 1, at::kLong);
  const at::Tensor columns = at::arange(first, end, at::TensorOptions(at::kLong).device(mask.device()));
  return columns.masked_fill(mask.logical_not(), first).amax(1);
}

bool TokenColumns::is_padding(std::int64_t row, std::int64_t position) const {
  const at::Tensor real = rows_with_token(position);
  return real.defined() && !real[row].item<bool>();
}

at::Tensor TokenColumns::rows_with_token(std::int64_t position) const {
  const bool own = position >= first;
  const at::Tensor& of = own ? mask : prefix_mask;
  const std::int64_t column = own ? position - first : position;
  return of.defined() && column >= 0 && column < of.size(1) ? of.select(1, column) : at::Tensor();
}

ActivationCache::ActivationCache(const PointIndex& points) : ActivationCache(points.stacks()) {}

ActivationCache ActivationCache::emptied() const {
  ActivationCache empty(stacks_);
  empty.tokens_ = tokens_;
  empty.encoder_tokens_ = encoder_tokens_;
  empty.model_ = model_;
  return empty;
}

const std::optional<TokenColumns>& ActivationCache::tokens(Stack of) const& {
  return of == Stack::encoder ? encoder_tokens_ : tokens_;
}

void ActivationCache::set_tokens(TokenColumns columns, Stack of) {
  (of == Stack::encoder ? encoder_tokens_ : tokens_) = std::move(columns);
}

void ActivationCache::refuse_missing(const ActivationName& resolved) const {
  std::vector<std::string> kept;
  for (const Entry& e : entries_) kept.push_back(e.name.to_string());
  const std::string text = resolved.to_string();
  if (!kept.empty() && hooked::row(resolved.site).wide) {
    throw HookError(text,
                    "this cache does not hold this activation, which the usual capture leaves out because "
                    "it is wide; ask for it by name, `" +
                        std::string(hooked::row(resolved.site).word) + "`, in addition to the usual ones");
  }
  throw HookError(text, kept.empty()
                            ? std::string("this cache is empty; capture the activation in the run")
                            : fmt::format("this cache does not hold this activation; it has {} others, such "
                                          "as '{}'; add it to the run's capture",
                                          kept.size(), nearest(text, kept)));
}

const ActivationCache::Entry& ActivationCache::entry(const ActivationName& name) const& {
  const ActivationName resolved = stacks_.resolve(name);
  const auto found = numbers_.find(resolved);
  if (found == numbers_.end()) refuse_missing(stacks_.resolve_in_range(name));
  const Entry& kept = entries_[found->second];
  kept.held.require_unchanged(kept.name);
  return kept;
}

const at::Tensor ActivationCache::operator[](const Address& address) const {
  const Entry& found = entry(address.name());
  if (address.indices().empty()) return found.value();
  require_no_padding(found.name, address.indices(), [&](Axis axis) {
    const auto& columns = tokens_along(*this, found.name, axis);
    return columns ? &*columns : nullptr;
  });
  return HeldColumns(*this, found).block(address.indices());
}

bool ActivationCache::contains(const ActivationName& name) const {
  return numbers_.contains(stacks_.resolve(name));
}

std::vector<ActivationName> ActivationCache::names() const {
  std::vector<ActivationName> names;
  for (const Entry& e : entries_) names.push_back(e.name);
  return names;
}

std::size_t ActivationCache::bytes() const {
  std::map<const void*, std::size_t> storages;
  for (const Entry& e : entries_) {
    for (const at::Tensor& held : e.held.held()) storages[held.storage().data()] = held.storage().nbytes();
  }
  std::size_t total = 0;
  for (const auto& [storage, bytes] : storages) total += bytes;
  return total;
}

at::Tensor ActivationCache::stack(act::BlockSite site, Stack of) const {
  const auto end = static_cast<std::int32_t>(n_layers(of));
  if (end == 0) refuse_missing(site.in(of, 0).name());
  std::vector<at::Tensor> layers;
  for (std::int32_t layer = 0; layer < end; ++layer) {
    const at::Tensor own = (*this)[site.in(of, layer)];
    layers.push_back(layer == 0 ? own : to_device(own, layers.front().device()));
  }
  return at::stack(layers);
}

ActivationCache ActivationCache::row(std::int64_t index) const {
  ActivationCache one = emptied();
  for (const Entry& e : entries_) {
    if (!hooked::row(e.name.site).axes.find(Axis::batch)) continue;  // experts' tokens come from all rows
    const std::string where = e.name.to_string();
    // at() reports what is out of range
    one.insert({e.name,
                e.held.at(e.name, Axis::batch, std::vector<std::int64_t>{index}, {e.name.site, where, {}}),
                e.positions, e.row_positions.defined() ? e.row_positions.narrow(0, index, 1) : at::Tensor()});
  }
  for (auto* columns : {&one.tokens_, &one.encoder_tokens_}) {
    if (!*columns) continue;
    for (at::Tensor* of_rows : {&(*columns)->mask, &(*columns)->ids, &(*columns)->prefix_mask})
      if (of_rows->defined()) *of_rows = of_rows->narrow(0, index, 1);
  }
  return one;
}

ActivationCache ActivationCache::join(const std::vector<ActivationCache>& stretches) {
  GrowingCache joined;
  for (const ActivationCache& stretch : stretches) joined.append(stretch);
  return joined.take();
}

ActivationCache ActivationCache::to(const c10::Device& device) const {
  ActivationCache moved = emptied();
  for (const Entry& e : entries_) moved.insert({e.name, e.value().to(device), e.positions, e.row_positions});
  return moved;
}

ActivationCache ActivationCache::in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const {
  ActivationCache formed = *this;
  for (Entry& e : formed.entries_) e.held = e.held.in_form(form);
  return formed;
}

void ActivationCache::insert(Entry entry) {
  entry.name = stacks_.resolve(entry.name);
  const auto [number, added] = numbers_.try_emplace(entry.name, entries_.size());
  if (added) {
    entries_.push_back(std::move(entry));
  } else {
    entries_[number->second] = std::move(entry);
  }
}

}  // namespace hooked
