#include "report/attention_bytes.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/base64.h"
#include "core/json.h"

namespace hooked {
namespace {

constexpr std::int64_t kMostWhole = 256;  // tokens of a prompt whose patterns are kept whole
constexpr std::int64_t kMostKept = 32;    // keys of each query of longer ones
constexpr std::int64_t kBlock = 32;       // the side of a block whose mean is kept
// Bytes of a file's patterns before base64, which adds a third: below 40 MB in all.
constexpr std::int64_t kMostBytes = std::int64_t{27} << 20;
constexpr std::uint16_t kNoKey = 65535;

std::uint16_t as_16_bits(double share) {
  return static_cast<std::uint16_t>(
      std::lround(std::clamp(std::isnan(share) ? 0.0 : share, 0.0, 1.0) * 65535));
}

std::string base64_of(const std::vector<std::uint16_t>& numbers) {
  std::string bytes;
  bytes.reserve(2 * numbers.size());
  for (const std::uint16_t number : numbers) {
    bytes += static_cast<char>(number & 0xFF);
    bytes += static_cast<char>(number >> 8);
  }
  return encode_base64(bytes);
}

}  // namespace

AttentionBytes::AttentionBytes(std::int64_t heads, std::int64_t length, bool causal)
    : length_(length), kept_(0), causal_(causal) {
  const std::int64_t whole = causal ? length * (length + 1) / 2 : length * length;
  if (length <= kMostWhole && 2 * heads * whole <= kMostBytes) return;
  kept_ = std::clamp<std::int64_t>(kMostBytes / (4 * heads * length), 1, std::min(kMostKept, length));
}

void AttentionBytes::add(const ActivationName& name, const at::Tensor& patterns) {
  layers_.push_back({{"layer", name.layer}, {"heads", patterns.size(0)}, {"label", name.to_string()}});
  kept_ == 0 ? add_whole(patterns.contiguous()) : add_strongest(patterns);
}

void AttentionBytes::add_whole(const at::Tensor& patterns) {
  const auto* share = patterns.const_data_ptr<double>();
  for (std::int64_t row = 0; row < patterns.size(0) * length_; ++row, share += length_) {
    const std::int64_t seen = causal_ ? row % length_ + 1 : length_;
    for (std::int64_t key = 0; key < seen; ++key) values_.push_back(as_16_bits(share[key]));
  }
}

void AttentionBytes::add_strongest(const at::Tensor& patterns) {
  const auto [shares, keys] = at::topk(patterns, kept_);
  const at::Tensor strongest = shares.contiguous(), which = keys.contiguous();
  const auto* share = strongest.const_data_ptr<double>();
  const auto* key = which.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < strongest.numel(); ++i) {
    values_.push_back(as_16_bits(share[i]));
    at_.push_back(share[i] > 0 ? static_cast<std::uint16_t>(key[i]) : kNoKey);
  }
  const at::Tensor means =
      at::avg_pool2d(patterns, {kBlock, kBlock}, {}, {0, 0}, /*ceil_mode=*/true, /*count_include_pad=*/false)
          .contiguous();
  const auto* mean = means.const_data_ptr<double>();
  for (std::int64_t i = 0; i < means.numel(); ++i) means_.push_back(as_16_bits(mean[i]));
}

Json AttentionBytes::part() const {
  Json part{{"kind", "attention"}, {"layers", layers_}, {"queries", length_},
            {"keys", length_},     {"causal", causal_}, {"form", kept_ == 0 ? "whole" : "strongest"},
            {"kept", kept_},       {"block", kBlock},   {"values", base64_of(values_)}};
  if (kept_ > 0) {
    part["at"] = base64_of(at_);
    part["means"] = base64_of(means_);
  }
  return part;
}

}  // namespace hooked
