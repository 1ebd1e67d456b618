#include "models/mixers/causal_convolution.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace hooked {
namespace {

// The last `count` of all columns as [row, count, d], with zeros before the first.
at::Tensor last_columns(const std::vector<KeysAndValues>& columns, std::int64_t count) {
  const std::int64_t rows = columns.back().keys.size(0);
  std::vector<at::Tensor> found;  // from right to left
  std::int64_t missing = count;
  for (auto segment = columns.rbegin(); segment != columns.rend() && missing > 0; ++segment) {
    const at::Tensor held = segment->keys.select(1, 0);
    const std::int64_t taken = std::min(missing, held.size(1));
    found.push_back(held.narrow(1, held.size(1) - taken, taken).expand({rows, -1, -1}));
    missing -= taken;
  }
  if (missing > 0)
    found.push_back(at::zeros({rows, missing, found.front().size(2)}, found.front().options()));
  std::reverse(found.begin(), found.end());
  return found.size() == 1 ? found.front() : at::cat(found, 1);
}

// What each tap of each token reads, [row, pos, tap, d].
at::Tensor tapped(const std::vector<KeysAndValues>& columns, const EarlierTokens& earlier) {
  const std::int64_t rows = columns.back().keys.size(0);
  std::vector<at::Tensor> segments;
  for (const KeysAndValues& segment : columns) {
    segments.push_back(segment.keys.select(1, 0).expand({rows, -1, -1}));
  }
  const at::Tensor all = segments.size() == 1 ? segments.front() : at::cat(segments, 1);
  const at::Tensor places = earlier.columns.expand({rows, -1, -1});  // [row, pos, tap]
  const at::Tensor read = all.gather(1, places.flatten(1).unsqueeze(-1).expand({-1, -1, all.size(2)}))
                              .unflatten(1, {places.size(1), places.size(2)});
  return read.masked_fill(earlier.missing.unsqueeze(-1), 0);
}

}  // namespace

at::Tensor causal_convolution(const std::vector<KeysAndValues>& columns, std::int64_t length,
                              const EarlierTokens& earlier, const at::Tensor& filter,
                              const at::Tensor& bias) {
  const at::ScalarType dtype = filter.scalar_type(), wide = at::toOpMathType(dtype);
  const std::int64_t taps = filter.size(0);
  const at::Tensor weights = filter.to(wide);
  at::Tensor sum;
  if (earlier.columns.defined()) {
    sum = (tapped(columns, earlier).to(wide) * weights).sum(2);
  } else {
    const at::Tensor read = last_columns(columns, length + taps - 1).to(wide);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const at::Tensor part = read.narrow(1, tap, length) * weights[tap];
      sum = sum.defined() ? sum + part : part;
    }
  }
  if (bias.defined()) sum = sum + bias.to(wide);
  return sum.to(dtype);
}

}  // namespace hooked
