#include "loading/fill/place_layers.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/weight_table.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

std::int64_t bytes_of(const WeightRow& row, const ModelConfig& config, const WeightPart& part) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(weight_dtype(row, config)));
  for (const std::int64_t length : weight_shape(row, config, part)) bytes *= length;
  return bytes;
}

bool stands_before_blocks(const std::string& name) {
  return name.starts_with("embed.") || name.starts_with("pos_embed.") || name.starts_with("decoder_embed.");
}

}  // namespace

Placement place_layers(const ModelConfig& config, const std::vector<c10::Device>& devices) {
  if (devices.size() == 1) return devices.front();
  std::vector<std::int64_t> of_blocks;
  std::int64_t before = 0, behind = 0;
  for (const WeightPart& part : weight_parts(config)) {
    std::int64_t in_block = 0;
    for_each_weight(config, part, [&](const WeightRow& row, const std::string& name) {
      (part ? in_block : stands_before_blocks(name) ? before : behind) += bytes_of(row, config, part);
    });
    if (part) of_blocks.push_back(in_block);
  }
  if (devices.size() > of_blocks.size()) {
    throw ConfigError("device",
                      fmt::format("the model has too few layers for {} devices; expected at most {}, one for "
                                  "each layer",
                                  devices.size(), of_blocks.size()));
  }
  if (config.tied_unembedding()) {
    before += behind;
    behind = 0;
  }
  std::vector<c10::Device> device_of;
  const auto blocks = evenly_cut(of_blocks, static_cast<std::int64_t>(devices.size()), before, behind);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    device_of.insert(device_of.end(), static_cast<std::size_t>(blocks[i]), devices[i]);
  }
  return Placement(config, std::move(device_of));
}

}  // namespace hooked
