#include "hooked/analysis/singular_directions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/circuits/decompositions.h"
#include "analysis/circuits/stream_matrices.h"
#include "analysis/values/float32_at_least.h"
#include "core/number_text.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kSingular = "singular_directions";

constexpr std::array<std::string_view, 7> kSingularNames{"ov_written", "ov_read",  "qk_query", "qk_key",
                                                         "mlp_in",     "mlp_gate", "mlp_out"};

/// Singular values, descending, and the vectors on the stream's side as rows [direction, d_model].
struct SideOfStream {
  at::Tensor values, vectors;
};

SideOfStream left_of(const FactoredMatrix& M) {
  const auto [U, S, V] = M.svd();
  return {S, U.mT()};
}

SideOfStream right_of(const FactoredMatrix& M) { return left_of(M.t()); }

/// Of a matrix [d_model, neuron].
SideOfStream left_of(const at::Tensor& matrix) {
  const auto left = left_singular(matrix);
  return {left.values, left.vectors.mT()};
}

SideOfStream side_of(const StreamMatrices& matrices, const SingularOptions& options) {
  const auto layer = matrices.layer(options.layer);
  const auto expert = matrices.config().mixture(layer) ? std::optional(options.index) : std::nullopt;
  const auto head = [&] { return matrices.head({layer, options.index}).head; };
  const auto ov = [&] {
    matrices.require_plain_values();
    return FactoredMatrix(matrices.values(layer)[head()], matrices.outputs(layer)[head()]);
  };
  const auto qk = [&] {
    matrices.require_plain_scores(layer);
    return FactoredMatrix(matrices.queries(layer)[head()], matrices.keys(layer)[head()].mT());
  };
  switch (options.of) {
    case SingularOf::ov_written:
      return right_of(ov());
    case SingularOf::ov_read:
      return left_of(ov());
    case SingularOf::qk_query:
      return left_of(qk());
    case SingularOf::qk_key:
      return right_of(qk());
    case SingularOf::mlp_in:
      return left_of(matrices.mlp_in(layer, expert));
    case SingularOf::mlp_gate:
      return left_of(matrices.mlp_gate(layer, expert));
    case SingularOf::mlp_out:
      return left_of(matrices.mlp_out(layer, expert).mT());
  }
  throw ShapeError(kSingular, "there is no such matrix; expected one of SingularOf");
}

/// The first direction of each direction's subspace; `values` [direction] on the CPU, descending.
std::vector<std::int64_t> subspaces_of(const at::Tensor& values, double within) {
  std::vector<std::int64_t> first;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const auto value = values[i].item<double>();
    const bool same = i > 0 && values[i - 1].item<double>() - value <= within * values[i - 1].item<double>();
    first.push_back(same ? first.back() : i);
  }
  return first;
}

std::vector<SingularTokens::Token> tokens_of(const HookedTransformer& model, const at::Tensor& logits,
                                             std::int64_t count, bool largest) {
  const auto [found, ids] = logits.topk(std::min(count, logits.size(0)), 0, largest);
  const auto pieces = model.has_tokenizer() ? model.to_str_tokens(ids) : std::vector<std::string>();
  std::vector<SingularTokens::Token> tokens;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto id = ids[i].item<std::int64_t>();
    auto piece = pieces.empty() ? std::to_string(id) : pieces[static_cast<std::size_t>(i)];
    tokens.push_back({id, std::move(piece), found[i].item<double>()});
  }
  return tokens;
}

}  // namespace

SingularDirections singular_directions(const HookedTransformer& model, const SingularOptions& options) {
  if (options.directions < 1 || options.top_k < 1) {
    throw ShapeError(kSingular, fmt::format("there is nothing to show; expected directions and top_k of at "
                                            "least 1, got {} and {}",
                                            options.directions, options.top_k));
  }
  const StreamMatrices matrices(model, options.circuits, kSingular);
  matrices.require_plain_stream();
  const auto W_U = float32_at_least(matrices.unembedding());
  const auto [all, vectors] = side_of(matrices, options);
  const auto every = all.to(at::kCPU, at::kDouble);
  const auto subspaces = subspaces_of(every, options.equal_within);
  const auto count = std::min(options.directions, all.size(0));
  auto directions = vectors.narrow(0, 0, count);
  auto logits = at::matmul(directions, W_U);
  const auto largest = std::get<1>(logits.abs().max(1, true));
  const auto sign = logits.gather(1, largest).sign();  // [direction, 1]
  directions = directions * sign;
  logits = logits * sign;
  SingularDirections read{.title = fmt::format("{} {}", kSingularNames[static_cast<std::size_t>(options.of)],
                                               matrices.layer(options.layer)),
                          .values = all.narrow(0, 0, count),
                          .directions = std::move(directions),
                          .logits = std::move(logits),
                          .top = {}};
  const bool of_head = options.of < SingularOf::mlp_in;
  if (of_head || matrices.config().mixture(matrices.layer(options.layer)))
    read.title += fmt::format(".{}", options.index);
  const auto shown = read.logits.to(at::kCPU, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto subspace = subspaces[static_cast<std::size_t>(i)];
    read.top.push_back({.value = every[i].item<double>(),
                        .subspace = subspace,
                        .dimensions = std::ranges::count(subspaces, subspace),
                        .raised = tokens_of(model, shown[i], options.top_k, true),
                        .lowered = tokens_of(model, shown[i], options.top_k, false)});
  }
  return read;
}

std::ostream& operator<<(std::ostream& out, const SingularDirections& directions) {
  std::vector<double> logits;
  for (const SingularTokens& row : directions.top) {
    for (const auto* tokens : {&row.raised, &row.lowered})
      for (const auto& token : *tokens) logits.push_back(token.logit);
  }
  const auto number = ColumnFormat::of(logits, 2);
  const auto pieces = [&](const std::vector<SingularTokens::Token>& tokens) {
    std::vector<std::string> shown;
    for (const auto& token : tokens) shown.push_back(fmt::format("{} {}", token.piece, number(token.logit)));
    return fmt::format("{}", fmt::join(shown, ", "));
  };
  out << "Singular directions of " << directions.title << '\n';
  for (std::size_t i = 0; i < directions.top.size(); ++i) {
    const auto& row = directions.top[i];
    out << fmt::format("{:>3}  {:.4g}", i, unsigned_nan(row.value));
    if (row.dimensions > 1)
      out << fmt::format("  (one of {} of equal size, from {})", row.dimensions, row.subspace);
    out << fmt::format("  raises {}; lowers {}\n", pieces(row.raised), pieces(row.lowered));
  }
  return out;
}

}  // namespace hooked
