#include "analysis/patching/path_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"
#include "hooks/stream.h"

namespace hooked {

PathOrder::PathOrder(const ModelConfig& config) : first_stream_(stacks_of(config).front()) {
  for (const Stack stack : stacks_of(config)) follow(config, stack);
}

void PathOrder::follow(const ModelConfig& config, Stack stream) {
  const std::vector<StreamStep> steps = stream_of(config, stream);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StreamStep& step = steps[i];
    const Place here{stream, static_cast<std::ptrdiff_t>(i)};
    if (step.by_sublayer()) {
      written_[step.point] = here;
      if (step.of_heads()) written_[step.of_attention(Site::z)] = here;
    } else if (step.kind != StreamStep::Kind::read) {
      continue;
    } else if (step.reads_end() && stream == Stack::encoder) {
      for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        for (const Site site : {Site::cross_k, Site::cross_v})
          read_[{.site = site, .stack = config.main_stack(), .layer = layer}] = here;
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

PathOrder::Place PathOrder::written(const PathSender& sender) const {
  const ActivationName& name = sender.place.name();
  if (!sender.begins_stream) return written_.at(name);
  return {row(name.site).scope == SiteScope::entry ? first_stream_ : name.stack, -1};
}

bool PathOrder::leads_to(const PathSender& sender, const Address& receiver) const {
  const Place from = written(sender), into = read_.at(receiver.name());
  return from.stream == into.stream && from.step < into.step;
}

namespace {

[[noreturn]] void refuse(const Address& alone, const char* missing) {
  throw HookError(
      alone.to_string(),
      fmt::format("no path leads {}: parts read what was written before them in their own stream, "
                  "and heads between them stay as they are",
                  missing));
}

}  // namespace

void PathOrder::require_readers(const std::vector<PathSender>& senders,
                                const std::vector<Address>& receivers) const {
  for (const PathSender& sender : senders) {
    if (std::ranges::none_of(receivers, [&](const Address& one) { return leads_to(sender, one); }))
      refuse(sender.place, "from this sender to a receiver; expected one that comes before a receiver");
  }
}

void PathOrder::require_writers(const std::vector<PathSender>& senders,
                                const std::vector<Address>& receivers) const {
  for (const Address& receiver : receivers) {
    if (std::ranges::none_of(senders, [&](const PathSender& one) { return leads_to(one, receiver); }))
      refuse(receiver, "from a sender to this receiver; expected one that comes after a sender");
  }
}

bool is_of_heads(Site site) { return site == Site::z || site == Site::cross_z; }
bool is_head_input(Site site) {
  return site == Site::q || site == Site::k || site == Site::v || site == Site::cross_q ||
         site == Site::cross_k || site == Site::cross_v;
}
bool is_of_source(Site site) { return site == Site::cross_k || site == Site::cross_v; }

}  // namespace hooked
