#include "analysis/path_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>

#include "analysis/added_to_stream.h"
#include "analysis/stream_path.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kCure =
    "parts read what was written before them in their own stream, and heads between them stay as they are";

/// Where something that a sublayer or a stream does stands.
struct PathPlace {
  Stack stream;
  std::int64_t layer;
  int rank;  ///< within its layer
  auto operator<=>(const PathPlace&) const = default;
};

enum Rank : int { kAttentionReads, kAttentionWrites, kCrossReads, kCrossWrites, kMlpReads, kMlpWrites };

int rank_of(Site site, const ModelConfig& config) {
  if (site == Site::cross_q) return kCrossReads;
  if (site == Site::cross_z || site == Site::cross_attn_out) return kCrossWrites;
  if (site == Site::mlp_in) return config.parallel() ? kAttentionReads : kMlpReads;
  if (is_added_behind_attention(site)) return kMlpWrites;
  return is_head_input(site) ? kAttentionReads : kAttentionWrites;
}

PathPlace place_of(const PathSender& sender, const ModelConfig& config) {
  const ActivationName& name = sender.place.name();
  // An encoder reads what stands before the first block.
  const bool of_encoder =
      name.stack == Stack::encoder || (config.has_encoder() && row(name.site).scope == SiteScope::entry);
  const Stack stream = of_encoder ? Stack::encoder : config.main_stack();
  if (sender.begins_stream) return {stream, -1, 0};
  return {stream, name.layer, rank_of(name.site, config)};
}

PathPlace place_of(const Address& receiver, const ModelConfig& config) {
  const ActivationName& name = receiver.name();
  if (is_of_source(name.site)) return {Stack::encoder, config.n_encoder_layers(), 0};
  if (name.stack == Stack::encoder) return {Stack::encoder, name.layer, rank_of(name.site, config)};
  if (name == end_of_stream(config)) return {config.main_stack(), config.n_layers, 0};
  return {config.main_stack(), name.layer, rank_of(name.site, config)};
}

}  // namespace

bool is_of_heads(Site site) { return site == Site::z || site == Site::cross_z; }
bool is_head_input(Site site) {
  return site == Site::q || site == Site::k || site == Site::v || site == Site::cross_q ||
         site == Site::cross_k || site == Site::cross_v;
}
bool is_of_source(Site site) { return site == Site::cross_k || site == Site::cross_v; }

bool begins_stream(const ActivationName& name, const ModelConfig& config) {
  switch (name.site) {
    case Site::resid_pre:
      return name.layer == 0;
    case Site::embed:
    case Site::token_embed:
    case Site::token_type_embed:
      return true;
    case Site::pos_embed:
    case Site::position_embed:
      return config.learned_positions();  // shortformer's are in no stream
    default:
      return false;
  }
}

bool leads_to(const PathSender& sender, const Address& receiver, const ModelConfig& config) {
  const PathPlace from = place_of(sender, config), into = place_of(receiver, config);
  return from.stream == into.stream && from < into;
}

void require_readers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers,
                     const ModelConfig& config) {
  for (const PathSender& sender : senders) {
    if (std::any_of(receivers.begin(), receivers.end(),
                    [&](const Address& receiver) { return leads_to(sender, receiver, config); }))
      continue;
    throw HookError(
        sender.place.to_string(),
        fmt::format("no path leads from this sender to a receiver; expected one that comes before "
                    "a receiver: {}",
                    kCure));
  }
}

void require_writers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers,
                     const ModelConfig& config) {
  for (const Address& receiver : receivers) {
    if (std::any_of(senders.begin(), senders.end(),
                    [&](const PathSender& sender) { return leads_to(sender, receiver, config); }))
      continue;
    throw HookError(receiver.to_string(),
                    fmt::format("no path leads from a sender to this receiver; expected one that comes after "
                                "a sender: {}",
                                kCure));
  }
}

}  // namespace hooked
