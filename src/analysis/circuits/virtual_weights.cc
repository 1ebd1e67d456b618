#include "hooked/analysis/virtual_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "analysis/circuits/decompositions.h"
#include "analysis/circuits/stream_matrices.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kVirtual = "virtual_weights";
constexpr const char* kOverlap = "subspace_overlap";

/// What a matrix belongs to.
enum class Of : std::uint8_t { embedding, head, mlp, unembedding };

/// The properties of a kind of matrix.
struct StreamMatrixRow {
  StreamMatrix matrix;
  std::string_view name;
  Of of;
};

using enum StreamMatrix;

constexpr std::array kStreamMatrices{
    StreamMatrixRow{embedding, "embedding", Of::embedding},
    StreamMatrixRow{positions, "positions", Of::embedding},
    StreamMatrixRow{head_out, "head_out", Of::head},
    StreamMatrixRow{mlp_out, "mlp_out", Of::mlp},
    StreamMatrixRow{query, "query", Of::head},
    StreamMatrixRow{key, "key", Of::head},
    StreamMatrixRow{value, "value", Of::head},
    StreamMatrixRow{mlp_in, "mlp_in", Of::mlp},
    StreamMatrixRow{mlp_gate, "mlp_gate", Of::mlp},
    StreamMatrixRow{unembedding, "unembedding", Of::unembedding},
};

const StreamMatrixRow& stream_matrix_row(StreamMatrix matrix) {
  return kStreamMatrices[static_cast<std::size_t>(matrix)];
}

bool in_block(const StreamMatrixRow& row) { return row.of == Of::head || row.of == Of::mlp; }

at::Tensor matrix_of(const StreamMatrices& matrices, const StreamPart& part) {
  const auto layer = in_block(stream_matrix_row(part.matrix)) ? matrices.layer(part.layer) : 0;
  const bool mixture = stream_matrix_row(part.matrix).of == Of::mlp && matrices.config().mixture(layer);
  const auto expert = mixture ? std::optional(part.index) : std::nullopt;
  const auto head = [&] { return matrices.head({layer, part.index}).head; };
  switch (part.matrix) {
    case embedding:
      return matrices.embedding();
    case positions:
      return matrices.positions();
    case head_out:
      return matrices.outputs(layer)[head()];
    case mlp_out:
      return matrices.mlp_out(layer, expert);
    case query:
      return matrices.queries(layer)[head()];
    case key:
      return matrices.keys(layer)[head()];
    case value:
      return matrices.values(layer)[head()];
    case mlp_in:
      return matrices.mlp_in(layer, expert);
    case mlp_gate:
      return matrices.mlp_gate(layer, expert);
    case unembedding:
      return matrices.unembedding();
  }
  throw ShapeError("stream_matrix", "there is no matrix of this kind; expected one of StreamMatrix");
}

/// Throws ShapeError unless `reader` can read what `writer` writes.
void require_meeting(const StreamMatrices& matrices, const StreamPart& writer, const StreamPart& reader,
                     const char* where) {
  const auto refuse = [&](std::string_view why) {
    throw ShapeError(where, fmt::format("{} and {} do not meet: {}; expected a part that writes, and one "
                                        "that reads the stream after it",
                                        writer.text(), reader.text(), why));
  };
  if (!writer.writes()) refuse("the first one reads");
  if (reader.writes()) refuse("the second one writes");
  const auto& from = stream_matrix_row(writer.matrix);
  const auto& to = stream_matrix_row(reader.matrix);
  if (in_block(from) && in_block(to)) {
    const auto* written =
        matrices.find(StreamStep::Kind::write, from.of == Of::mlp, matrices.layer(writer.layer));
    const auto* read = matrices.find(StreamStep::Kind::read, to.of == Of::mlp, matrices.layer(reader.layer));
    // A part that the model does not have is for matrix_of() to refuse.
    if (written != nullptr && read != nullptr && read < written)
      refuse("the second one comes before the first");
  }
  if (from.of == Of::embedding && to.of == Of::head && matrices.layer(reader.layer) == 0)
    return;  // the first block's attention has its own norms
  matrices.require_plain_stream();
}

/// An orthonormal basis [d_model, k] of the span of the columns of x [d_model, n].
at::Tensor basis_of(const at::Tensor& x, const char* what) {
  const auto [values, vectors] = left_singular(x);
  const double eps = values.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                         : std::numeric_limits<float>::epsilon();
  const auto size = static_cast<double>(std::max(x.size(0), x.size(1)));
  const auto rank = values.gt(values[0] * (eps * size)).sum().item<std::int64_t>();
  if (rank == 0) throw ShapeError(kOverlap, fmt::format("what is {} is zero; expected directions", what));
  return vectors.narrow(1, 0, rank);
}

}  // namespace

std::string StreamPart::text() const {
  const auto& row = stream_matrix_row(matrix);
  if (!in_block(row)) return std::string(row.name);
  return row.of == Of::head ? fmt::format("{} {}.{}", row.name, layer, index)
                            : fmt::format("{} {}", row.name, layer);
}

at::Tensor stream_matrix(const HookedTransformer& model, const StreamPart& part,
                         const CircuitOptions& options) {
  return matrix_of(StreamMatrices(model, options, part.text()), part);
}

FactoredMatrix virtual_weights(const HookedTransformer& model, const StreamPart& writer,
                               const StreamPart& reader, const CircuitOptions& options) {
  const StreamMatrices matrices(model, options, kVirtual);
  require_meeting(matrices, writer, reader, kVirtual);
  auto written = matrix_of(matrices, writer);
  return {std::move(written), matrix_of(matrices, reader)};
}

at::Tensor composition(const FactoredMatrix& left, const FactoredMatrix& right) {
  return matmul(left, right).norm() / (left.norm() * right.norm());
}

SubspaceOverlap subspace_overlap(const at::Tensor& written, const at::Tensor& read) {
  const bool matrices = written.defined() && read.defined() && written.dim() == 2 && read.dim() == 2;
  if (!matrices || written.size(1) != read.size(0) || written.numel() == 0 || read.numel() == 0) {
    const auto text = [](const at::Tensor& x) {
      return x.defined() ? shape_text(x.sizes()) : std::string("an undefined tensor");
    };
    throw ShapeError(kOverlap,
                     fmt::format("these do not meet; expected [n, d_model] and [d_model, m], got {} "
                                 "and {}",
                                 text(written), text(read)));
  }
  const auto left = basis_of(written.mT(), "written"), right = basis_of(read, "read");
  auto cosines = at::linalg_svdvals(at::matmul(left.mT(), right)).clamp_max(1.0);
  const double overlap = cosines.square().mean().item<double>();
  const auto larger = static_cast<double>(std::max(left.size(1), right.size(1)));
  return {.cosines = std::move(cosines),
          .overlap = overlap,
          .random = larger / static_cast<double>(written.size(1)),
          .written = left.size(1),
          .read = right.size(1)};
}

SubspaceOverlap subspace_overlap(const HookedTransformer& model, const StreamPart& writer,
                                 const StreamPart& reader, const CircuitOptions& options) {
  const auto product = virtual_weights(model, writer, reader, options);
  return subspace_overlap(product.A(), product.B());
}

}  // namespace hooked
