#include "analysis/stream/part_measures.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hooked {
namespace {

/// The norms between a module and the end of a path, in their order.
using NormsBehind = std::vector<FrozenNorm>;

at::Tensor carried(at::Tensor vectors, const NormsBehind& behind) {
  for (const auto& norm : behind) vectors = norm.of(vectors);
  return vectors;
}

/// Squared lengths of the parts, [part, row, pos]. A part is values times a matrix; if the matrix M is not
/// wider than the stream, the squared length is x (M M^T) x. Norms divide by one number for a row and a
/// position, so the matrix is carried through the rest of them once.
at::Tensor squares_of_lengths(const Writing& writing, const NormsBehind& behind) {
  auto x = writing.values();                                       // [row, pos, part, width]
  auto matrix = writing.matrix ? writing.matrix() : at::Tensor();  // [part, width, d_model]
  if (!matrix.defined() || matrix.size(1) > matrix.size(2)) {
    if (matrix.defined()) x = at::einsum("rpuw,uwm->rpum", {x, matrix});
    return carried(x.movedim(2, 0), behind).square().sum(-1);
  }
  for (const auto& norm : behind) {
    x = x / norm.scale.unsqueeze(-1);
    matrix =
        FrozenNorm{
            .centres = norm.centres, .scale = at::ones({1, 1, 1}, matrix.options()), .weight = norm.weight}
            .of(matrix);
  }
  const auto products = at::einsum("uwm,uvm->uwv", {matrix, matrix});
  return (at::einsum("rpuw,uwv->rpuv", {x, products}) * x).sum(-1).permute({2, 0, 1});
}

/// The sum of a writing's parts, [row, pos, d_model].
at::Tensor sum_of(const Writing& writing, const NormsBehind& behind) {
  const auto x = writing.values();
  return carried(writing.matrix ? at::einsum("rpuw,uwm->rpm", {x, writing.matrix()}) : x.sum(2), behind);
}

/// The norms between a writing, which belongs to the path, and the end.
NormsBehind norms_behind(const StreamPath& path, const Writing& writing) {
  const auto holds = [&](const PathStep& step) {
    return std::ranges::any_of(step.written, [&](const Writing& own) { return &own == &writing; });
  };
  NormsBehind behind;
  for (auto step = path.rbegin(); !holds(*step); ++step) {
    if (step->norm) behind.push_back(*step->norm);
  }
  behind.insert(behind.end(), writing.through.rbegin(), writing.through.rend());
  std::ranges::reverse(behind);
  return behind;
}

}  // namespace

void measure_parts(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                   const std::function<void(const PartMeasures& measures)>& use) {
  auto first = static_cast<std::int64_t>(part_axis(path).labels.size()) - 1;
  auto rest = at::einsum("rpm,rpnm->rpn", {whole, directions});
  const auto remainder = first;
  walk_back(path, directions, [&](const Writing& writing, const at::Tensor& seen) {
    first -= static_cast<std::int64_t>(writing.labels.size());
    const auto along = writing.along(seen);
    rest = rest - along.sum(0);
    use({first, along, [&] { return squares_of_lengths(writing, norms_behind(path, writing)); }});
  });
  const auto square_of_rest = [&] {
    auto vector = whole;
    for (const auto& step : path) {
      for (const auto& writing : step.written) vector = vector - sum_of(writing, norms_behind(path, writing));
    }
    return vector.square().sum(-1).unsqueeze(0);
  };
  use({remainder, rest.unsqueeze(0), square_of_rest});
}

}  // namespace hooked
