#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hooked {

class Transformer;

/// Note [Memory of parameters]
/// Modules make their parameters, and views of them, as tensors whose memory has not been touched yet. Once
/// the graph exists, a parameter can be given other memory: a tensor and its views share a storage, whose
/// bytes are exchanged.

/// The alignment that kernels want for parameters, bytes.
inline constexpr std::size_t kParameterAlignment = 64;

/// A parameter by its name in the graph, with its dimensions from the outermost in memory to the innermost:
/// contiguous.
using Parameter = std::pair<std::string, at::Tensor>;

/// All parameters of a graph.
std::vector<Parameter> parameters_as_they_lie(const Transformer& graph);

/// Makes the bytes from `offset` of `memory` on the parameter's, and those of all its views, and keeps
/// `memory` alive with them. The parameter's old contents are lost.
void settle(const at::Tensor& parameter, const std::shared_ptr<const std::byte>& memory,
            std::uint64_t offset);

}  // namespace hooked
