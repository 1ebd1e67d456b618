#include "hooked/core/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace hooked {

Placement::Placement(const c10::Device& device) : of_blocks_{device}, entry_(device), exit_(device) {}

Placement::Placement(const ModelConfig& config, std::vector<c10::Device> of_blocks)
    : of_blocks_(std::move(of_blocks)),
      n_encoder_layers_(config.n_encoder_layers()),
      entry_(of_blocks_.front()),
      exit_(config.tied_unembedding() ? of_blocks_.front() : of_blocks_.back()) {
  assert(of_blocks_.size() == config.blocks().size());
}

c10::Device Placement::of(const BlockPlace& block) const {
  if (!spread()) return entry_;
  const bool behind_encoder = n_encoder_layers_ > 0 && block.stack != Stack::encoder;
  const auto number = static_cast<std::size_t>(block.layer + (behind_encoder ? n_encoder_layers_ : 0));
  return number < of_blocks_.size() ? of_blocks_[number] : exit_;
}

std::vector<c10::Device> Placement::devices() const {
  std::vector<c10::Device> all = of_blocks_;
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::string Placement::text() const {
  if (!spread()) return {};
  std::vector<std::string> stretches;
  const auto n = static_cast<std::int64_t>(of_blocks_.size());
  for (std::int64_t first = 0; first < n;) {
    const bool of_encoder = first < n_encoder_layers_;
    const std::int64_t stack = of_encoder ? 0 : n_encoder_layers_,
                       stack_end = of_encoder ? n_encoder_layers_ : n;
    const c10::Device& device = of_blocks_[static_cast<std::size_t>(first)];
    std::int64_t end = first + 1;
    while (end < stack_end && of_blocks_[static_cast<std::size_t>(end)] == device) ++end;
    const char* const which = n_encoder_layers_ == 0 ? "" : of_encoder ? "encoder " : "decoder ";
    stretches.push_back(end == first + 1 ? fmt::format("{}layer {} on {}", which, first - stack, device.str())
                                         : fmt::format("{}layers {} to {} on {}", which, first - stack,
                                                       end - 1 - stack, device.str()));
    first = end;
  }
  return fmt::format("the model is spread over devices: {}", fmt::join(stretches, ", "));
}

std::vector<std::int64_t> evenly_cut(const std::vector<std::int64_t>& block_bytes, std::int64_t parts,
                                     std::int64_t before, std::int64_t behind) {
  const auto n = static_cast<std::int64_t>(block_bytes.size());
  assert(parts > 0 && n >= parts);
  std::vector<std::int64_t> sum{0};  // of the blocks before each
  for (const std::int64_t bytes : block_bytes) sum.push_back(sum.back() + bytes);
  const auto bytes_of = [&](std::int64_t part, std::int64_t first, std::int64_t end) {
    return sum[end] - sum[first] + (part == 0 ? before : 0) + (part + 1 == parts ? behind : 0);
  };
  // least[part][end]: the smallest possible largest part, if the parts up to this one end there.
  struct Cut {
    std::int64_t largest, first;
  };
  std::vector<std::vector<Cut>> least(parts, std::vector<Cut>(n + 1));
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t end = part + 1; end <= n - (parts - 1 - part); ++end) {
      Cut& best = least[part][end];
      best = {bytes_of(part, 0, end), 0};
      if (part == 0) continue;
      best.largest = std::numeric_limits<std::int64_t>::max();
      for (std::int64_t first = part; first < end; ++first) {
        const std::int64_t largest = std::max(least[part - 1][first].largest, bytes_of(part, first, end));
        if (largest < best.largest) best = {largest, first};
      }
    }
  }
  std::vector<std::int64_t> blocks(parts);
  for (std::int64_t part = parts - 1, end = n; part >= 0; --part) {
    blocks[part] = end - least[part][end].first;
    end = least[part][end].first;
  }
  return blocks;
}

}  // namespace hooked
