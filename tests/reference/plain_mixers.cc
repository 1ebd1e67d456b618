#include "plain_layers.h"

namespace hooked::reference {
namespace {

Array times(const Array& a, const Array& b) {
  Array out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] *= b.values[i];
  return out;
}

/// Each dimension of `x` [batch, pos, width] by a filter of its own [width, tap], whose last tap is the
/// token's own, over the real tokens of a row.
Array convolved(const Array& x, const Array& filter, const Array& bias, const Sequence& sequence) {
  Array out(x.shape);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    std::vector<std::int64_t> tokens;  // columns of those so far
    for (std::int64_t p = 0; p < x.size(1); ++p) {
      if (sequence.real[b][p]) tokens.push_back(p);
      const auto seen = static_cast<std::int64_t>(tokens.size());
      for (std::int64_t m = 0; m < x.size(2); ++m) {
        double total = bias.shape.empty() ? 0.0 : bias(m);
        for (std::int64_t back = 0; back < filter.size(1) && back < seen; ++back) {
          total += filter(m, filter.size(1) - 1 - back) * x(b, tokens[seen - 1 - back], m);
        }
        out(b, p, m) = total;
      }
    }
  }
  return out;
}

}  // namespace

Array short_convolution(const ModelConfig&, const Weights& weights, std::int64_t layer, const Array& x,
                        const Sequence& sequence, Points& points) {
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".conv.";
  const auto part = [&](const std::string& which, const std::string& point) {
    return points[name + point] =
               linear(x, weights.at(name + "W_" + which), weight_or_empty(weights, name + "b_" + which));
  };
  const Array before = part("B", "hook_b"), behind = part("C", "hook_c"), value = part("X", "hook_x");
  const Array read = points[name + "hook_bx"] = times(before, value);
  const Array filtered = points[name + "hook_conv"] = convolved(
      read, weights.at(name + "filter.weight"), weight_or_empty(weights, name + "filter.bias"), sequence);
  const Array gated = points[name + "hook_gated"] = times(behind, filtered);
  return linear(gated, weights.at(name + "W_out"), weight_or_empty(weights, name + "b_out"));
}

}  // namespace hooked::reference
