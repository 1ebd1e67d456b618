#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hooked {

/// The gradients of an operation's inputs, undefined for inputs without one, given those of its outputs,
/// undefined for outputs that nothing depended on. At least one is defined. May be called more than once.
using PassBack = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& gradients)>;

/// Whether to record an operation on `x`.
bool records(const at::Tensor& x);

/// `x`, or the same numbers without autograd history if it has one.
at::Tensor without_history(const at::Tensor& x);

/// Enters `outputs`, computed from `inputs` without a graph, into the autograd graph, and returns them as the
/// operation's results. The recorded operation keeps what `pass_back` holds, which should be handles of
/// tensors without history, until a gradient has passed. It writes where it wants, whereas LibTorch's own
/// operators cannot write into existing memory with gradients (Note [Recorded operations]).
std::vector<at::Tensor> recorded(const std::vector<at::Tensor>& outputs,
                                 const std::vector<at::Tensor>& inputs, PassBack pass_back);

/// The same for one output.
at::Tensor recorded(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                    std::function<std::vector<at::Tensor>(const at::Tensor& gradient)> pass_back);

}  // namespace hooked
