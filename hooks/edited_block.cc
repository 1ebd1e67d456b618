#include "hooks/edited_block.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <fmt/format.h>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooks/layout_text.h"

namespace hooked {
namespace {

at::Tensor without_direction(const at::Tensor& block, const at::Tensor& direction) {
  const at::Tensor along = (block * direction).sum(-1, /*keepdim=*/true) / (direction * direction).sum();
  return block - along * direction;
}

}  // namespace

at::Tensor edited_block(EditKind kind, const std::variant<double, at::Tensor>& value, const at::Tensor& block,
                        std::string_view where) {
  at::Tensor operand;
  if (const auto* number = std::get_if<double>(&value)) {
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
