#include "tests/support/compare.h"

#include <ATen/ops/index.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "hooked/core/tensor_text.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/selection.h"

namespace hooked {
namespace {

constexpr std::size_t kShownFailures = 8;

std::optional<ActivationName> activation_of(std::string_view name) {
  constexpr std::string_view kGradient = "grad.";
  if (name.starts_with(kGradient)) name.remove_prefix(kGradient.size());
  return ActivationName::try_parse(name);
}

/// Names that fire earlier come first, so that the first failure is the cause of the later ones.
auto firing_order(const std::string& name) {
  const auto activation = activation_of(name);
  if (!activation) return std::tuple(3, 0, 0, name);  // logits
  return std::tuple(static_cast<int>(row(activation->site).scope), static_cast<int>(activation->layer),
                    static_cast<int>(activation->site), name);
}

/// The dimension whose entries belong to one token each: pos, or query on scores and patterns; -1 where no
/// entry belongs to padding.
std::int64_t token_dimension(const std::string& name) {
  const auto activation = activation_of(name);
  if (!activation) return 1;
  const AxisList& axes = row(activation->site).axes;
  if (per_expert(row(activation->site))) return -1;  // padding goes to no expert
  const auto query = axes.find(Axis::query);
  return query ? *query : axes.find(Axis::pos).value_or(1);
}

/// The mask of the tokens along an activation's token dimension.
const at::Tensor& mask_for(const std::string& name, const Comparison& how) {
  if (!how.decoder_mask) return how.attention_mask;
  const auto activation = activation_of(name);  // what is no activation is of the end, as logits are
  return activation && counts_source(*activation, Axis::pos) ? how.attention_mask : *how.decoder_mask;
}

/// Rows of real tokens only: [token, ...].
at::Tensor without_padding(const at::Tensor& value, const std::string& name, const Comparison& how) {
  const at::Tensor& mask = mask_for(name, how);
  if (!mask.defined() || token_dimension(name) < 0) return value;
  const at::Tensor by_token = value.movedim(token_dimension(name), 1);
  return at::index(by_token, {mask.to(at::kBool)});
}

std::vector<std::int64_t> unflatten(std::int64_t place, at::IntArrayRef shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = place % shape[dim];
    place /= shape[dim];
  }
  return index;
}

/// What is wrong with one activation, or nothing.
std::optional<std::string> difference(const std::string& name, const at::Tensor& got_tensor,
                                      const at::Tensor& expected_tensor, const Comparison& how) {
  if (got_tensor.sizes() != expected_tensor.sizes()) {
    return fmt::format("{}: shape {}, expected {}", name, shape_text(got_tensor.sizes()),
                       shape_text(expected_tensor.sizes()));
  }
  const auto as_double = [&](const at::Tensor& value) {
    return without_padding(value.detach().to(at::kCPU, at::kDouble), name, how).contiguous();
  };
  const at::Tensor got = as_double(got_tensor), expected = as_double(expected_tensor);
  const double* a = got.data_ptr<double>();
  const double* b = expected.data_ptr<double>();
  double largest_value = 1.0, largest_difference = 0.0;
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    if (std::isinf(a[i]) && a[i] == b[i]) continue;
    // NaN and a lone infinity fail whatever the tolerance.
    const double delta = std::isfinite(a[i]) && std::isfinite(b[i]) ? std::abs(a[i] - b[i]) : INFINITY;
    if (std::isfinite(b[i])) largest_value = std::max(largest_value, std::abs(b[i]));
    if (delta > largest_difference) {
      largest_difference = delta;
      worst = i;
    }
  }
  if (largest_difference <= how.tolerance * largest_value) return std::nullopt;
  const auto index = unflatten(worst, got.sizes());
  return fmt::format("{}{}: got {:.17g}, expected {:.17g}; difference {:.3g} of {:.3g}, tolerance {:.3g}",
                     name, shape_text(index), a[worst], b[worst], largest_difference, largest_value,
                     how.tolerance);
}

}  // namespace

NamedTensors by_name(const ActivationCache& cache) {
  NamedTensors tensors;
  for (const auto& entry : cache) tensors[entry.name.to_string()] = entry.value();
  return tensors;
}

testing::AssertionResult agree(const NamedTensors& got, const NamedTensors& expected, const Comparison& how) {
  std::vector<std::string> names;
  for (const auto& [name, value] : expected) names.push_back(name);
  for (const auto& [name, value] : got) {
    if (!expected.contains(name)) names.push_back(name);
  }
  std::erase_if(names, [&](const std::string& name) {
    if (got.contains(name) && expected.contains(name)) return false;
    return std::ranges::any_of(how.exceptions,
                               [&](const auto& exception) { return glob_matches(exception.first, name); });
  });
  std::ranges::sort(names, {}, firing_order);

  std::vector<std::string> failures;
  for (const std::string& name : names) {
    if (!got.contains(name)) {
      failures.push_back(name + ": expected, but not there");
    } else if (!expected.contains(name)) {
      failures.push_back(name + ": there, but not expected");
    } else if (auto failure = difference(name, got.at(name), expected.at(name), how)) {
      failures.push_back(std::move(*failure));
    }
  }
  if (names.empty()) return testing::AssertionFailure() << "nothing was compared";
  if (failures.empty()) return testing::AssertionSuccess();
  auto result = testing::AssertionFailure()
                << failures.size() << " of " << names.size() << " activations differ";
  for (std::size_t i = 0; i < std::min(failures.size(), kShownFailures); ++i) result << "\n  " << failures[i];
  return result;
}

}  // namespace hooked
