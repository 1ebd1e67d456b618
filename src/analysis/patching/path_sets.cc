#include "analysis/patching/path_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "hooked/core/error.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

std::vector<PathSets::Set> sets_of(std::size_t count, bool each) {
  std::vector<PathSets::Set> all(each ? count : 1);
  for (std::size_t i = 0; i < count; ++i) all[each ? i : 0].push_back(i);
  return all;
}

}  // namespace

PathSets::PathSets(const ModelConfig& config, const PathPatchingOptions& options)
    : config_(config), points_(config_), order_(config_) {
  find_senders(options);
  find_receivers(options);
  find_frozen(options.through);
  const bool by_sender = options.cells == PathCells::each_sender || options.cells == PathCells::each;
  const bool by_receiver = options.cells == PathCells::each_receiver || options.cells == PathCells::each;
  sender_sets_ = sets_of(senders_.size(), by_sender);
  receiver_sets_ = sets_of(receivers_.size(), by_receiver);
  require_paths(options);
}

bool PathSets::is_frozen(const ActivationName& name) const {
  return std::find(frozen_.begin(), frozen_.end(), name) != frozen_.end();
}

/// A full name with indices only on the head axis, as a number from 0 on.
Address PathSets::checked(const Address& given, bool heads, const char* what) const {
  const ActivationName name = points_.name(points_.require(points_.resolve(given.name())));
  Address address = name;
  for (const auto& [axis, index] : given.indices().entries()) {
    const auto own = axis_on(name.site, axis);
    const auto* number = std::get_if<std::int64_t>(&index.value);
    if (!heads || !own || (*own != Axis::head && *own != Axis::kv_head) || number == nullptr) {
      throw HookError(given.to_string(), fmt::format("a {} has at most the index of one head; expected {}",
                                                     what, heads ? "[head=...]" : "none"));
    }
    const std::int64_t size = size_of(*own, config_, name.layer);
    if (*number < -size || *number >= size) {
      throw HookError(given.to_string(),
                      fmt::format("there is no head {}; expected {} to {}", *number, -size, size - 1));
    }
    address = address.at(*own, *number < 0 ? *number + size : *number);
  }
  return address;
}

void PathSets::find_senders(const PathPatchingOptions& options) {
  std::vector<Address> given = options.senders;
  if (given.empty()) {
    for (const StreamWriter& writer : sublayers(config_, config_.main_stack())) given.push_back(writer.place);
  }
  const std::set<ActivationName> beginnings = stream_beginnings(config_);
  for (const Address& address : given) {
    const Site site = address.name().site;
    const Address place = checked(address, is_of_heads(site), "sender");
    const bool embeddings = beginnings.contains(place.name());
    if (!embeddings && !order_.is_written(place.name())) {
      throw HookError(
          address.to_string(),
          fmt::format("this writes nothing to a stream; expected what a sublayer of a layer adds ({}, or "
                      "attn_out for all heads), an embedding, or resid_pre of the first layer",
                      points_of(sublayers(config_))));
    }
    senders_.push_back({place, embeddings});
  }
}

void PathSets::find_receivers(const PathPatchingOptions& options) {
  std::vector<Address> given = options.receivers;
  const ActivationName end = end_of_stream(config_);
  if (given.empty()) given.emplace_back(end);
  for (const Address& address : given) {
    const Site site = address.name().site;
    Address place = checked(address, is_head_input(site), "receiver");
    const bool at_end = place.name().stack == end.stack && place.name().layer == end.layer &&
                        (site == end.site || site == Site::resid_post);
    if (at_end) place = end;
    if (!at_end && !is_head_input(site) && site != Site::mlp_in) {
      throw HookError(
          address.to_string(),
          "this does not read a stream; expected q, k or v of heads, mlp_in of a layer, or the end of the "
          "stream that predicts");
    }
    receivers_.push_back(std::move(place));
  }
}

bool PathSets::leads(const Set& senders, const Set& receivers) const {
  return std::any_of(senders.begin(), senders.end(), [&](std::size_t sender) {
    return std::any_of(receivers.begin(), receivers.end(), [&](std::size_t receiver) {
      return order_.leads_to(senders_[sender], receivers_[receiver]);
    });
  });
}

/// Throws HookError for what is on no path if nothing else would show it.
void PathSets::require_paths(const PathPatchingOptions& options) const {
  const auto all = [](const std::vector<Set>& sets) {
    Set together;
    for (const Set& set : sets) together.insert(together.end(), set.begin(), set.end());
    return together;
  };
  const bool any = leads(all(sender_sets_), all(receiver_sets_));
  const bool shows_senders = (any && sender_sets_.size() > 1) || options.senders.empty();
  const bool shows_receivers = any && receiver_sets_.size() > 1;
  if (!shows_senders) order_.require_readers(senders_, receivers_);
  if (!shows_receivers) order_.require_writers(senders_, receivers_);
}

void PathSets::find_frozen(PathThrough through) {
  for (const Stack stack : stacks_of(config_)) {
    for (const StreamStep& step : stream_of(config_, stack)) {
      const bool freezes = step.mixes_tokens() || through == PathThrough::nothing;
      if (step.by_sublayer() && freezes)
        frozen_.push_back(step.of_heads() ? step.of_attention(Site::z) : step.point);
    }
  }
}

std::optional<std::int32_t> PathSets::first_layer(const Set& senders) const {
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  for (const std::size_t number : senders) {
    const ActivationName& name = senders_[number].place.name();
    if (!in_main_blocks(name)) return std::nullopt;
    first = std::min(first, name.layer);
  }
  return first;
}

bool PathSets::in_main_blocks(const ActivationName& name) const {
  return name.stack == config_.main_stack() && ::hooked::row(name.site).scope == SiteScope::block;
}

bool PathSets::is_behind(const Address& receiver, std::optional<std::int32_t> first) const {
  const ActivationName& name = receiver.name();
  return !first || (in_main_blocks(name) && !is_of_source(name.site) && name.layer >= *first);
}

}  // namespace hooked
