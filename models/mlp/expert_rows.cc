#include "models/mlp/expert_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/parallel.h"
#include "models/kernels/kernels.h"
#include "models/ops/recorded.h"
#include "models/storage/workspace.h"

namespace hooked {
namespace {

bool in_one_pass(const ExpertRows& rows, const at::Tensor& weights, Memory memory) {
  const at::ScalarType dtype = weights.scalar_type();
  const auto serves = [&](const at::Tensor& x) { return x.device().is_cpu() && x.scalar_type() == dtype; };
  return memory.workspace != nullptr && kernels::own_kernels() != nullptr &&
         (dtype == at::kFloat || dtype == at::kBFloat16) && !rows.written.empty() && serves(weights) &&
         std::ranges::all_of(rows.written, serves);
}

template <class Number>
void add_up(const at::Tensor& out, const ExpertRows& rows, const at::Tensor& weights) {
  std::vector<const Number*> row_of(static_cast<std::size_t>(rows.tokens * rows.ranks));
  const auto* place = rows.places.const_data_ptr<std::int64_t>();
  std::vector<at::Tensor> contiguous;
  for (const at::Tensor& written : rows.written) {
    contiguous.push_back(written.contiguous());
    const auto* row = static_cast<const Number*>(contiguous.back().const_data_ptr());
    for (std::int64_t i = 0; i < written.size(0); ++i, row += written.size(1), ++place) {
      row_of[static_cast<std::size_t>(*place % rows.tokens * rows.ranks + *place / rows.tokens)] = row;
    }
  }
  const std::int64_t size = out.size(1), ranks = rows.ranks;
  auto* sums = static_cast<Number*>(out.mutable_data_ptr());
  const auto* weight = static_cast<const Number*>(weights.const_data_ptr());
  const auto add_row = kernels::own_kernels()->rows<Number>().weighted;
  share_operations(rows.tokens, 2 * rows.tokens * ranks * size, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t token = first; token < end; ++token) {
      add_row(sums + token * size, row_of.data() + token * ranks, weight + token * ranks, ranks, size);
    }
  });
}

at::Tensor by_operators(const ExpertRows& rows, const at::Tensor& weights) {
  at::Tensor by_place = at::zeros({rows.ranks * rows.tokens, rows.d_model}, weights.options());
  if (!rows.written.empty()) by_place = at::index_copy(by_place, 0, rows.places, at::cat(rows.written));
  return (by_place.view({rows.ranks, rows.tokens, -1}) * weights.t().unsqueeze(-1)).sum(0);
}

// The gradients of everything experts wrote, and of the weights, given those of the sums.
std::vector<at::Tensor> passed_back(const ExpertRows& rows, const at::Tensor& weights,
                                    const at::Tensor& gradient) {
  std::vector<at::Tensor> passed;
  const at::Tensor by_place = weights.t().reshape({-1, 1});
  at::Tensor of_weights = at::zeros({rows.ranks * rows.tokens}, weights.options());
  std::int64_t first = 0;
  for (const at::Tensor& written : rows.written) {
    const at::Tensor places = rows.places.narrow(0, first, written.size(0));
    const at::Tensor sums = gradient.index_select(0, places.remainder(rows.tokens));
    of_weights.index_copy_(0, places, (written * sums).sum(-1));
    passed.push_back(sums * by_place.index_select(0, places));
    first += written.size(0);
  }
  passed.push_back(of_weights.view({rows.ranks, rows.tokens}).t());
  return passed;
}

}  // namespace

at::Tensor weighted_sum(const ExpertRows& rows, const at::Tensor& weights, Memory memory) {
  if (!in_one_pass(rows, weights, memory)) return by_operators(rows, weights);
  ExpertRows plain = rows;
  for (at::Tensor& written : plain.written) written = without_history(written);
  const at::Tensor plain_weights = without_history(weights).contiguous();
  const at::Tensor out = memory.workspace->empty({rows.tokens, rows.d_model}, weights.options());
  weights.scalar_type() == at::kFloat ? add_up<float>(out, plain, plain_weights)
                                      : add_up<std::uint16_t>(out, plain, plain_weights);
  std::vector<at::Tensor> inputs = rows.written;
  inputs.push_back(weights);
  if (std::ranges::none_of(inputs, records)) return out;
  return recorded(out, inputs, [plain, plain_weights](const at::Tensor& gradient) {
    return passed_back(plain, plain_weights, gradient);
  });
}

}  // namespace hooked
