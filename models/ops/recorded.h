#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hooked {

/// The gradients of an operation's inputs, undefined for those that have none, given those of its outputs,
/// undefined for outputs that nothing depended on. At least one is defined. May be called more than once.
using PassBack = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& gradients)>;

/// Whether an operation on `x` is to be recorded.
bool records(const at::Tensor& x);

/// `x`, or the same numbers without history where it has one.
at::Tensor without_history(const at::Tensor& x);

/// Enters `outputs`, computed from `inputs` without a graph, into the graph of gradients, and gives them as
/// what stands behind the operation. An operation so recorded keeps what `pass_back` holds, which should be
/// handles of tensors without history, until a gradient has passed, and writes where it wants: LibTorch's own
/// operators cannot write into memory that is there, with gradients (Note [Recorded operations]).
std::vector<at::Tensor> recorded(const std::vector<at::Tensor>& outputs,
                                 const std::vector<at::Tensor>& inputs, PassBack pass_back);

/// The same of one output.
at::Tensor recorded(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                    std::function<std::vector<at::Tensor>(const at::Tensor& gradient)> pass_back);

}  // namespace hooked
