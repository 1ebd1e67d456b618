#include "tests/support/compare.h"

#include <ATen/TensorOperators.h>
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

/// The dimension with one entry per token: pos, or query on scores and patterns; -1 if no
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
  const auto activation = activation_of(name);  // anything else is of the end, as logits are
  return activation && counts_source(*activation, Axis::pos) ? how.attention_mask : *how.decoder_mask;
}

/// Where an activation's rows are padding, in the shape of `value`; undefined if none are.
at::Tensor padding_of(const at::Tensor& value, const std::string& name, const Comparison& how) {
  const at::Tensor& mask = mask_for(name, how);
  const std::int64_t tokens = token_dimension(name);
  if (!mask.defined() || tokens < 0) return {};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(value.dim()), 1);
  sizes.front() = mask.size(0);
  sizes[static_cast<std::size_t>(tokens)] = mask.size(1);
  return mask.eq(0).reshape(sizes).expand_as(value);
}

std::vector<std::int64_t> unflatten(std::int64_t place, at::IntArrayRef shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = place % shape[dim];
    place /= shape[dim];
  }
  return index;
}

/// What is wrong with numbers that were all recorded, or nothing.
std::string difference(const at::Tensor& got_tensor, const at::Tensor& expected_tensor,
                       const TensorComparison& how) {
  const auto as_double = [&](const at::Tensor& value) {
    const at::Tensor numbers = value.detach().to(at::kCPU, at::kDouble);
    return (how.left_out.defined() ? numbers.masked_fill(how.left_out, 0.0) : numbers).contiguous();
  };
  const at::Tensor got = as_double(got_tensor), expected = as_double(expected_tensor);
  const double* a = got.data_ptr<double>();
  const double* b = expected.data_ptr<double>();
  double largest_value = how.least, largest_difference = 0.0;
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
  if (largest_difference <= how.tolerance * largest_value) return {};
  return fmt::format("{}: got {:.17g}, expected {:.17g}; difference {:.3g} of {:.3g}, tolerance {:.3g}",
                     shape_text(unflatten(worst, got.sizes())), a[worst], b[worst], largest_difference,
                     largest_value, how.tolerance);
}

/// What is wrong with numbers whose projection was recorded, or nothing.
std::string difference(const at::Tensor& got_tensor, const Projection& expected,
                       const TensorComparison& how) {
  const Projection got = projection_of(expected.name, got_tensor, how.left_out);
  const auto places = [](const Projection& of) {
    return fmt::format("-inf at {} places, {} left out, NaN or inf at {}, hash {:016x}", of.minus_infinities,
                       of.left_out, of.not_finite, of.places);
  };
  if (places(got) != places(expected)) return fmt::format(": {}; expected {}", places(got), places(expected));
  const auto compared = static_cast<double>(got_tensor.numel() - got.minus_infinities - got.left_out);
  const double allowed = how.tolerance * std::max(how.least, expected.largest);
  if (!(std::abs(got.largest - expected.largest) <= allowed)) {
    return fmt::format(": max |x| is {:.17g}, expected {:.17g}; allowed difference {:.3g}", got.largest,
                       expected.largest, allowed);
  }
  for (std::size_t i = 0; i < got.sums.size(); ++i) {
    // The sum of independent errors of at most the allowed size is at most about this large.
    if (std::abs(got.sums[i] - expected.sums[i]) <= allowed * std::sqrt(compared)) continue;
    return fmt::format(
        ": sum {} of {} numbers (max |x| {:.3g}) is {:.17g}, expected {:.17g}; allowed difference {:.3g}", i,
        compared, expected.largest, got.sums[i], expected.sums[i], allowed * std::sqrt(compared));
  }
  return {};
}

/// What is wrong with one tensor, or nothing.
std::string difference(const std::string& name, const at::Tensor& got, const Recorded& expected,
                       const TensorComparison& how) {
  if (got.sizes() != expected.sizes()) {
    return fmt::format("{}: shape {}, expected {}", name, shape_text(got.sizes()),
                       shape_text(expected.sizes()));
  }
  const std::string wrong = expected.numbers() != nullptr ? difference(got, *expected.numbers(), how)
                                                          : difference(got, expected.projection(), how);
  return wrong.empty() ? wrong : name + wrong;
}

}  // namespace

NamedTensors by_name(const ActivationCache& cache) {
  NamedTensors tensors;
  for (const auto& entry : cache) tensors[entry.name.to_string()] = entry.value();
  return tensors;
}

testing::AssertionResult agree(const NamedTensors& got, const RecordedTensors& expected,
                               const Comparison& how) {
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
    } else {
      const at::Tensor& ours = got.at(name);
      const Recorded& theirs = expected.at(name);
      TensorComparison one{.tolerance = how.tolerance};
      if (ours.sizes() == theirs.sizes()) one.left_out = padding_of(ours, name, how);
      if (auto failure = difference(name, ours, theirs, one); !failure.empty())
        failures.push_back(std::move(failure));
    }
  }
  if (names.empty()) return testing::AssertionFailure() << "nothing was compared";
  if (failures.empty()) return testing::AssertionSuccess();
  auto result = testing::AssertionFailure()
                << failures.size() << " of " << names.size() << " activations differ";
  for (std::size_t i = 0; i < std::min(failures.size(), kShownFailures); ++i) result << "\n  " << failures[i];
  return result;
}

testing::AssertionResult agree(const NamedTensors& got, const NamedTensors& expected, const Comparison& how) {
  return agree(got, RecordedTensors(expected.begin(), expected.end()), how);
}

testing::AssertionResult agrees(const std::string& name, const at::Tensor& got, const Recorded& expected,
                                const TensorComparison& how) {
  const std::string wrong = difference(name, got, expected, how);
  return wrong.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << wrong;
}

}  // namespace hooked
