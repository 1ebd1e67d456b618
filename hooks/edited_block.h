#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <variant>

#include "hooked/hooks/edit.h"

namespace hooked {

/// The result of an edit of that kind on the block that it addresses. Throws HookError about `where` for a
/// value that does not fit.
at::Tensor edited_block(EditKind kind, const std::variant<double, at::Tensor>& value, const at::Tensor& block,
                        std::string_view where);

}  // namespace hooked
