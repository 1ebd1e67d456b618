#include "hooked/hooks/activation_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/nearest.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooked/io/safetensors.h"

namespace hooked {

ActivationCache::ActivationCache(const PointIndex& points) : ActivationCache(points.stacks()) {}

void ActivationCache::refuse_missing(const ActivationName& resolved) const {
  std::vector<std::string> kept;
  for (const Entry& e : entries_) kept.push_back(e.name.to_string());
  const std::string text = resolved.to_string();
  throw HookError(
      text, kept.empty() ? std::string("this cache is empty; capture the activation in the run")
                         : fmt::format("this cache does not hold this activation; the nearest of its {} is "
                                       "'{}'; add it to the run's capture",
                                       kept.size(), nearest(text, kept)));
}

const ActivationCache::Entry& ActivationCache::entry(const ActivationName& name) const {
  const ActivationName resolved = stacks_.resolve(name);
  const auto found = numbers_.find(resolved);
  if (found == numbers_.end()) refuse_missing(resolved);
  return entries_[found->second];
}

const at::Tensor ActivationCache::operator[](const Address& address) const {
  const Entry& found = entry(address.name());
  if (address.indices().empty()) return found.value;
  const std::string where = found.name.to_string();
  return take_block(found.value, address.indices(), {found.name.site, where, {}});
}

const at::Tensor ActivationCache::operator[](std::string_view text) const {
  if (text.find('.') != std::string_view::npos || text.find('[') != std::string_view::npos) {
    return (*this)[Address::parse(text)];
  }
  return (*this)[Address(from_shorthand(text))];
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
  for (const Entry& e : entries_) storages[e.value.storage().data()] = e.value.storage().nbytes();
  std::size_t total = 0;
  for (const auto& [storage, bytes] : storages) total += bytes;
  return total;
}

at::Tensor ActivationCache::stack(act::BlockSite site, Stack of) const {
  const auto end = static_cast<std::int32_t>(n_layers(of));
  if (end == 0) refuse_missing(site.in(of, 0).name());
  std::vector<at::Tensor> layers;
  for (std::int32_t layer = 0; layer < end; ++layer) layers.push_back((*this)[site.in(of, layer)]);
  return at::stack(layers);
}

ActivationCache ActivationCache::row(std::int64_t index) const {
  ActivationCache one = emptied();
  for (const Entry& e : entries_) {
    if (!hooked::row(e.name.site).axes.find(Axis::batch)) continue;  // experts' tokens are of all rows
    AxisIndices indices;
    indices.add(Axis::batch, std::vector<std::int64_t>{index});
    const std::string where = e.name.to_string();
    one.insert({e.name, take_block(e.value, indices, {e.name.site, where, {}}), e.positions});
  }
  return one;
}

namespace {

// Nothing when the positions are all from 0 on: then columns and positions are the same.
std::vector<std::int64_t> unless_all(std::vector<std::int64_t> positions) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != static_cast<std::int64_t>(i)) return positions;
  }
  return {};
}

}  // namespace

ActivationCache ActivationCache::join(const std::vector<ActivationCache>& stretches) {
  ActivationCache joined = stretches.empty() ? ActivationCache() : stretches.front().emptied();
  std::vector<ActivationName> names;  // in firing order; a stretch may lack some
  std::unordered_set<ActivationName> known;
  for (const ActivationCache& stretch : stretches) {
    for (const Entry& e : stretch) {
      if (known.insert(e.name).second) names.push_back(e.name);
    }
  }
  for (const ActivationName& name : names) {
    std::vector<at::Tensor> values;
    std::vector<std::int64_t> positions;
    for (const ActivationCache& stretch : stretches) {
      if (!stretch.contains(name)) continue;
      const Entry& e = stretch.entry(name);
      values.push_back(e.value);
      positions.insert(positions.end(), e.positions.begin(), e.positions.end());
    }
    const SiteRow& site = hooked::row(name.site);
    if (site.axes.find(Axis::key)) {
      std::int64_t keys = 0;
      for (const at::Tensor& value : values) keys = std::max(keys, value.size(-1));
      for (at::Tensor& value : values)
        value = at::constant_pad_nd(value, {0, keys - value.size(-1)}, site.unseen);
    }
    joined.insert({name, at::cat(values, sequence_dimension(name.site)), unless_all(std::move(positions))});
  }
  return joined;
}

ActivationCache ActivationCache::to(const c10::Device& device) const {
  ActivationCache moved = emptied();
  for (const Entry& e : entries_) moved.insert({e.name, e.value.to(device), e.positions});
  return moved;
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

namespace {

constexpr std::string_view kLayersKey = "n_layers";
constexpr std::string_view kEncoderLayersKey = "n_encoder_layers";  // only of encoder-decoders
constexpr std::string_view kOrderKey = "order";  // names in firing order: files order their data by dtype
constexpr std::string_view kPositionsPrefix = "positions.";

std::int64_t parse_count(std::string_view text, std::string_view where) {
  if (const auto count = parse_integer(text)) return *count;
  throw CheckpointError(where, fmt::format("the metadata holds '{}'; expected an integer", text));
}

// The parts of a list written with commas.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return parts;
}

std::vector<std::int64_t> parse_positions(std::string_view text, std::string_view where) {
  std::vector<std::int64_t> positions;
  for (const std::string_view part : split_list(text)) positions.push_back(parse_count(part, where));
  return positions;
}

}  // namespace

void ActivationCache::save(const std::filesystem::path& file) const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata{{std::string(kLayersKey), std::to_string(stacks_.n_layers)}};
  if (stacks_.n_encoder_layers > 0)
    metadata[std::string(kEncoderLayersKey)] = std::to_string(stacks_.n_encoder_layers);
  std::vector<std::string> order;
  for (const Entry& e : entries_) {
    order.push_back(e.name.to_string());
    tensors.emplace_back(order.back(), e.value.to(at::kCPU));
    if (e.positions.empty()) continue;
    metadata[fmt::format("{}{}", kPositionsPrefix, e.name.to_string())] =
        fmt::format("{}", fmt::join(e.positions, ","));
  }
  metadata[std::string(kOrderKey)] = fmt::format("{}", fmt::join(order, ","));
  save_safetensors(file, tensors, metadata);
}

ActivationCache ActivationCache::load(const std::filesystem::path& file) {
  const SafetensorsFile saved = SafetensorsFile::open(file);
  const auto& metadata = saved.metadata();
  const auto layers = metadata.find(std::string(kLayersKey));
  const auto order = metadata.find(std::string(kOrderKey));
  if (layers == metadata.end() || order == metadata.end()) {
    throw CheckpointError(file.string(),
                          "this is not a saved cache; expected metadata 'n_layers' and 'order'; use a file "
                          "that ActivationCache::save wrote");
  }
  const auto encoder_layers = metadata.find(std::string(kEncoderLayersKey));
  Stacks stacks{.n_layers = parse_count(layers->second, file.string())};
  if (encoder_layers != metadata.end())
    stacks.n_encoder_layers = parse_count(encoder_layers->second, file.string());
  ActivationCache cache(stacks);
  for (const std::string_view part : split_list(order->second)) {
    const std::string name(part);
    const auto positions = metadata.find(fmt::format("{}{}", kPositionsPrefix, name));
    cache.insert({ActivationName::parse(name), saved.read(name),
                  positions == metadata.end() ? std::vector<std::int64_t>()
                                              : parse_positions(positions->second, file.string())});
  }
  return cache;
}

}  // namespace hooked
