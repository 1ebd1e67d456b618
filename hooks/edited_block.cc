#include "hooks/edited_block.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooks/layout_text.h"

namespace hooked {
namespace {

at::Tensor without_direction(const at::Tensor& block, const at::Tensor& direction) {
  const at::Tensor along = (block * direction).sum(-1, /*keepdim=*/true) / (direction * direction).sum();
  return block - along * direction;
}

double largest_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat:
      return std::numeric_limits<float>::max();
    case at::kLong:
      return static_cast<double>(std::numeric_limits<std::int64_t>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

void require_holds(at::ScalarType dtype, double number, std::string_view where) {
  const double largest = largest_of(dtype);
  if (!std::isfinite(number) || std::abs(number) <= largest) return;
  throw HookError(
      where, fmt::format("the edit's number is beyond the range of {}; expected {:g} to {:g}, got {:g}; take "
                         "a smaller one, or load the model in a wider dtype",
                         dtype_text(dtype), -largest, largest, number));
}

}  // namespace

at::Tensor edited_block(EditKind kind, const std::variant<double, at::Tensor>& value, const at::Tensor& block,
                        std::string_view where) {
  at::Tensor operand;
  if (const auto* number = std::get_if<double>(&value)) {
    require_holds(block.scalar_type(), *number, where);
    operand = at::full_like(block, *number);
  } else {
    operand = std::get<at::Tensor>(value);
    if (operand.scalar_type() != block.scalar_type() || operand.device() != block.device()) {
      throw HookError(
          where, fmt::format("the edit's value is another kind of tensor; expected {} on {}, got {}; "
                             "convert it with .to(...)",
                             dtype_text(block.scalar_type()), block.device().str(), layout_text(operand)));
    }
    const bool exact = kind == EditKind::replace;
    if (exact ? operand.sizes() != block.sizes() : !at::is_expandable_to(operand.sizes(), block.sizes())) {
      throw HookError(where,
                      fmt::format("the edit's value does not fit the addressed block; expected {}{}, got {}",
                                  exact ? "" : "a shape that broadcasts to ", shape_text(block.sizes()),
                                  shape_text(operand.sizes())));
    }
  }
  if (kind == EditKind::project_out && operand.size(0) != block.size(-1)) {
    throw HookError(
        where, fmt::format("the direction is not a vector along the block's last axis; expected [{}], got {}",
                           block.size(-1), shape_text(operand.sizes())));
  }
  switch (kind) {
    case EditKind::add:
      return block + operand;
    case EditKind::scale:
      return block * operand;
    case EditKind::project_out:
      return without_direction(block, operand);
    case EditKind::set:
    case EditKind::replace:
      break;
  }
  return operand;
}

}  // namespace hooked
