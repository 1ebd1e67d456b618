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

bool is_of_heads(Site site) { return site == Site::z || site == Site::cross_z; }
bool is_head_input(Site site) {
  return site == Site::q || site == Site::k || site == Site::v || site == Site::cross_q ||
         site == Site::cross_k || site == Site::cross_v;
}
/// Whether this reads the end of an encoder's stream.
bool is_of_source(Site site) { return site == Site::cross_k || site == Site::cross_v; }

[[noreturn]] void refuse_alone(const Address& alone, const char* missing) {
  throw HookError(
      alone.to_string(),
      fmt::format("no path leads {}: parts read what was written before them in their own stream, "
                  "and heads between them stay as they are",
                  missing));
}

}  // namespace

PathSets::PathSets(const ModelConfig& config, const PathPatchingOptions& options)
    : config_(config), points_(config_) {
  for (const Stack stack : stacks_of(config_)) follow(stack, options.through);
  find_senders(options);
  find_receivers(options);
  const bool by_sender = options.cells == PathCells::each_sender || options.cells == PathCells::each;
  const bool by_receiver = options.cells == PathCells::each_receiver || options.cells == PathCells::each;
  sender_sets_ = sets_of(senders_.size(), by_sender);
  receiver_sets_ = sets_of(receivers_.size(), by_receiver);
  require_paths(options);
}

void PathSets::follow(Stack stream, PathThrough through) {
  const std::vector<StreamStep> steps = stream_of(config_, stream);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StreamStep& step = steps[i];
    const Place here{stream, static_cast<std::ptrdiff_t>(i)};
    if (step.by_sublayer()) {
      written_[step.point] = here;
      if (step.of_heads()) written_[step.of_attention(Site::z)] = here;
      if (step.mixes_tokens() || through == PathThrough::nothing)
        frozen_.push_back(step.of_heads() ? step.of_attention(Site::z) : step.point);
    } else if (step.kind != StreamStep::Kind::read) {
      continue;
    } else if (step.reads_end() && stream == Stack::encoder) {
      for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
        for (const Site site : {Site::cross_k, Site::cross_v})
          read_[{.site = site, .stack = config_.main_stack(), .layer = layer}] = here;
      }
    } else if (step.part == Part::cross_attention) {
      read_[step.of_attention(Site::q)] = here;
    } else if (step.of_heads()) {
      for (const Site site : {Site::q, Site::k, Site::v}) read_[step.of_attention(site)] = here;
    } else {
      read_[step.point] = here;
    }
  }
}

bool PathSets::leads_to(const PathSender& sender, const Address& receiver) const {
  const ActivationName& name = sender.place.name();
  const bool entry = name.scope() == SiteScope::entry;
  // Embeddings write before the first step.
  const Place from =
      sender.begins_stream ? Place{entry ? stacks_of(config_).front() : name.stack, -1} : written_.at(name);
  const Place into = read_.at(receiver.name());
  return from.stream == into.stream && from.step < into.step;
}

bool PathSets::is_frozen(const ActivationName& name) const {
  return std::find(frozen_.begin(), frozen_.end(), name) != frozen_.end();
}

/// `name` with the indices of `given`, only on the head axis, as a number from 0 on.
Address PathSets::with_head(const ActivationName& name, const Address& given, bool heads,
                            const char* what) const {
  Address address = name;
  for (const auto& [axis, index] : given.indices().entries()) {
    const auto own = axis_on(name.site, axis);
    const auto* number = std::get_if<std::int64_t>(&index.value);
    if (!heads || !own || (*own != Axis::head && *own != Axis::kv_head) || number == nullptr) {
      throw HookError(given.to_string(),
                      fmt::format("the place of a {} is {}; expected {}", what,
                                  heads ? "all heads of a layer or one" : "a whole activation",
                                  heads ? "[head=...] or no index" : "no index"));
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

ActivationName PathSets::full_name(const Address& given) const {
  return points_.name(points_.require(points_.resolve(given.name())));
}

void PathSets::find_senders(const PathPatchingOptions& options) {
  std::vector<Address> given = options.senders;
  if (given.empty()) {
    for (const StreamWriter& writer : sublayers(config_, config_.main_stack())) given.push_back(writer.place);
  }
  const std::set<ActivationName> beginnings = stream_beginnings(config_);
  for (const Address& address : given) {
    const Site site = address.name().site;
    const ActivationName name = full_name(address);
    const bool embeddings = beginnings.contains(name);
    if (!embeddings && !written_.contains(name)) {
      throw HookError(
          address.to_string(),
          fmt::format("this writes nothing to a stream; expected what a sublayer of a layer adds ({}, or "
                      "attn_out for all heads), an embedding, or resid_pre of the first layer",
                      points_of(sublayers(config_))));
    }
    senders_.push_back({with_head(name, address, is_of_heads(site), "sender"), embeddings});
  }
}

void PathSets::find_receivers(const PathPatchingOptions& options) {
  std::vector<Address> given = options.receivers;
  const ActivationName end = end_of_stream(config_);
  if (given.empty()) given.emplace_back(end);
  for (const Address& address : given) {
    const Site site = address.name().site;
    const ActivationName name = full_name(address);
    const bool at_end =
        name.stack == end.stack && name.layer == end.layer && (site == end.site || site == Site::resid_post);
    if (!at_end && !is_head_input(site) && site != Site::mlp_in) {
      throw HookError(
          address.to_string(),
          "this does not read a stream; expected q, k or v of heads, mlp_in of a layer, or the end of the "
          "stream that predicts");
    }
    receivers_.push_back(with_head(at_end ? end : name, address, is_head_input(site), "receiver"));
  }
}

bool PathSets::leads(const Set& senders, const Set& receivers) const {
  return std::any_of(senders.begin(), senders.end(), [&](std::size_t sender) {
    return std::any_of(receivers.begin(), receivers.end(), [&](std::size_t receiver) {
      return leads_to(senders_[sender], receivers_[receiver]);
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
  for (const PathSender& sender : senders_) {
    if (shows_senders ||
        std::ranges::any_of(receivers_, [&](const auto& one) { return leads_to(sender, one); }))
      continue;
    refuse_alone(sender.place, "from this sender to a receiver; expected one that comes before a receiver");
  }
  for (const Address& receiver : receivers_) {
    if (shows_receivers ||
        std::ranges::any_of(senders_, [&](const auto& one) { return leads_to(one, receiver); }))
      continue;
    refuse_alone(receiver, "from a sender to this receiver; expected one that comes after a sender");
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
  return name.stack == config_.main_stack() && name.scope() == SiteScope::block;
}

bool PathSets::is_behind(const Address& receiver, std::optional<std::int32_t> first) const {
  const ActivationName& name = receiver.name();
  return !first || (in_main_blocks(name) && !is_of_source(name.site) && name.layer >= *first);
}

}  // namespace hooked
