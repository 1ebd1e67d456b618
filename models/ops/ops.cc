#include "models/ops/ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/add.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>

#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "models/ops/recorded.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"

namespace hooked::ops {
namespace {

// [batch, head, rows, columns] as [batch * kv_head, group * rows, columns]: heads that share keys are
// adjacent, so that one product per key/value head serves its whole group. If all rows of the batch share
// their keys, they are adjacent as well: [kv_head, batch * group * rows, columns].
at::Tensor by_kv_head(const at::Tensor& x, const at::Tensor& shared) {
  const std::int64_t kv_heads = shared.size(1), group = x.size(1) / kv_heads;
  if (shared.size(0) == x.size(0)) return x.reshape({x.size(0) * kv_heads, group * x.size(2), x.size(3)});
  return x.unflatten(1, {kv_heads, group})
      .transpose(0, 1)
      .reshape({kv_heads, x.size(0) * group * x.size(2), x.size(3)});
}

// The reverse, to [batch, head, rows, columns] with the first three sizes of `like`.
at::Tensor by_head(const at::Tensor& product, const at::Tensor& like, const at::Tensor& shared) {
  const std::int64_t kv_heads = shared.size(1), group = like.size(1) / kv_heads;
  if (shared.size(0) == like.size(0)) {
    return product.view({like.size(0), like.size(1), like.size(2), product.size(-1)});
  }
  return product.view({kv_heads, like.size(0), group, like.size(2), product.size(-1)})
      .transpose(0, 1)
      .flatten(1, 2);
}

// The result that `out` writes, or `plain` for LibTorch's differentiable operators.
template <typename Out, typename Plain>
at::Tensor into_workspace(at::IntArrayRef sizes, const at::Tensor& like, bool differentiable, Memory memory,
                          const Out& out, const Plain& plain) {
  if (memory.workspace == nullptr || differentiable) return plain();
  at::Tensor result = memory.workspace->empty(sizes, like.options());
  out(result);
  return result;
}

// The number of outputs that a product computes for each row.
struct Outputs {
  std::int64_t size;
  at::ScalarType dtype;
};

// `multiply(result, rows)` over the last axis of `x`. Makes rows contiguous: a product over a sliced 3-D
// input goes row by row.
template <typename Multiply>
at::Tensor product_of_rows(const at::Tensor& x, Outputs outputs, const Workspace& memory,
                           const Multiply& multiply) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)}).contiguous();
  at::Tensor result = memory.empty(with_last_size(x, outputs.size), x.options().dtype(outputs.dtype));
  at::Tensor result_rows = result.view({-1, outputs.size});
  multiply(result_rows, rows);
  return result;
}

// `multiply(result, rows)` for each head's rows, [head, batch * pos, size] both, for x [batch, pos, head,
// in]: [batch, pos, head, size].
template <typename Multiply>
at::Tensor by_head_rows(const at::Tensor& x, std::int64_t size, const Workspace& memory,
                        const Multiply& multiply) {
  const at::Tensor rows = x.flatten(0, 1).transpose(0, 1).contiguous();
  at::Tensor result = memory.empty({rows.size(0), rows.size(1), size}, x.options());
  multiply(result, rows);
  return result.transpose(0, 1).unflatten(0, {x.size(0), x.size(1)});
}

// The indices of the rows that are not all zeros; undefined if these are more than half of them.
at::Tensor few_rows_in_use(const at::Tensor& rows) {
  if (!rows.device().is_cpu()) return {};
  const auto bytes = static_cast<std::size_t>(rows.size(1) * rows.element_size());
  const auto* first = static_cast<const char*>(rows.const_data_ptr());
  std::vector<std::int64_t> used;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const char* begin = first + static_cast<std::size_t>(row) * bytes;
    if (begin[0] == 0 && std::memcmp(begin, begin + 1, bytes - 1) == 0) continue;
    used.push_back(row);
    if (2 * used.size() > static_cast<std::size_t>(rows.size(0))) return {};
  }
  return at::tensor(used, at::kLong);
}

// product_of_rows for a gradient. After the last attention, a metric of one position has gradients in one
// row.
template <typename Multiply>
at::Tensor gradient_of_rows(const at::Tensor& gradient, Outputs inputs, const Workspace& memory,
                            const Multiply& multiply) {
  const at::Tensor rows = gradient.reshape({-1, gradient.size(-1)}).to(inputs.dtype).contiguous();
  const at::Tensor used = few_rows_in_use(rows);
  if (!used.defined()) return product_of_rows(rows.view(gradient.sizes()), inputs, memory, multiply);
  at::Tensor result = memory.empty(with_last_size(gradient, inputs.size), rows.options()).zero_();
  const at::Tensor product = product_of_rows(rows.index_select(0, used), inputs, memory, multiply);
  result.view({-1, inputs.size}).index_copy_(0, used, product);
  return result;
}

template <typename Multiply, typename Back>
at::Tensor recorded_product(const at::Tensor& x, Outputs outputs, Memory memory, const Multiply& multiply,
                            const Back& back) {
  if (!records(x)) return product_of_rows(x, outputs, *memory.workspace, multiply);
  return recorded(product_of_rows(x.detach(), outputs, *memory.workspace, multiply), {x},
                  [memory = *memory.workspace, inputs = Outputs{x.size(-1), x.scalar_type()},
                   back](const at::Tensor& gradient) {
                    return std::vector{gradient_of_rows(
                        gradient, inputs, memory,
                        [&](at::Tensor& result, const at::Tensor& rows) { back(result, rows, memory); })};
                  });
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Memory memory) {
  if (memory.workspace == nullptr) return at::linear(x, weight, bias);
  return recorded_product(
      x, {weight.size(0), x.scalar_type()}, memory,
      [&](at::Tensor& result, const at::Tensor& rows) { linear_into(result, rows, weight, bias); },
      [weight](at::Tensor& result, const at::Tensor& rows, const Workspace&) {
        linear_into(result, rows, weight.t(), {});
      });
}

at::Tensor unrounded_linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias,
                            Memory memory) {
  const at::ScalarType dtype = sum_dtype(x.scalar_type());
  if (memory.workspace == nullptr) {
    return at::linear(x.to(dtype), matrix.plain().to(dtype), bias.defined() ? bias.to(dtype) : bias);
  }
  return recorded_product(
      x, {matrix.out(), dtype}, memory,
      [&](at::Tensor& result, const at::Tensor& rows) { matrix.multiply_into(result, rows, bias); },
      [matrix](at::Tensor& result, const at::Tensor& rows, const Workspace& memory) {
        matrix.multiply_back_into(result, rows, memory);
      });
}

at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias, Memory memory) {
  if (memory.workspace == nullptr) return at::linear(x, matrix.plain(), bias);
  return recorded_product(
      x, {matrix.out(), x.scalar_type()}, memory,
      [&](at::Tensor& result, const at::Tensor& rows) { matrix.multiply_into(result, rows, bias); },
      [matrix](at::Tensor& result, const at::Tensor& rows, const Workspace& memory) {
        matrix.multiply_back_into(result, rows, memory);
      });
}

std::vector<at::Tensor> split(const at::Tensor& x, at::IntArrayRef sizes, std::int64_t dim, Memory memory) {
  if (memory.workspace == nullptr || !records(x)) return x.split_with_sizes(sizes, dim);
  return recorded(x.detach().split_with_sizes(sizes, dim), {x},
                  [memory = *memory.workspace, sizes = sizes.vec(), whole = x.sizes().vec(), dim,
                   options = x.options()](const std::vector<at::Tensor>& gradients) {
                    at::Tensor passed = memory.empty(whole, options);
                    const std::vector<at::Tensor> parts = passed.split_with_sizes(sizes, dim);
                    for (std::size_t i = 0; i < parts.size(); ++i) {
                      gradients[i].defined() ? parts[i].copy_(gradients[i]) : parts[i].zero_();
                    }
                    return std::vector{passed};
                  });
}

at::Tensor by_head_product(const at::Tensor& x, const at::Tensor& weight, Memory memory) {
  const std::int64_t heads = weight.size(0), out_size = weight.size(2);
  const at::Tensor rows = x.reshape({-1, heads, x.size(-1)}).transpose(0, 1);  // [head, batch * pos, in]
  const at::Tensor product = into_workspace(
      {rows.size(1), heads, out_size}, x, records(x), memory,
      [&](at::Tensor& out) {
        at::Tensor by_head = out.transpose(0, 1);
        at::bmm_out(by_head, rows, weight);
      },
      [&] { return at::bmm(rows, weight).transpose(0, 1); });
  return product.reshape({x.size(0), x.size(1), heads, out_size});
}

at::Tensor by_head_product(const at::Tensor& x, const Matrix& matrix, Memory memory) {
  const std::int64_t heads = x.size(2);
  if (memory.workspace == nullptr || records(x)) {
    return by_head_product(x, matrix.by_output_heads(heads).read(), memory);
  }
  return by_head_rows(
      x, matrix.out() / heads, *memory.workspace,
      [&](at::Tensor& out, const at::Tensor& rows) { matrix.multiply_heads_into(out, rows); });
}

at::Tensor by_head_product_back(const at::Tensor& x, const Matrix& matrix, Memory memory) {
  const std::int64_t heads = x.size(2);
  if (memory.workspace == nullptr || records(x)) {
    return by_head_product(x, matrix.by_output_heads(heads).read().transpose(1, 2), memory);
  }
  return by_head_rows(x, matrix.in(), *memory.workspace, [&](at::Tensor& out, const at::Tensor& rows) {
    matrix.multiply_heads_back_into(out, rows, *memory.workspace);
  });
}

at::Tensor rows_at(const at::Tensor& x, const at::Tensor& numbers, Memory memory) {
  return into_workspace(
      {numbers.size(0), x.size(1)}, x, records(x), memory,
      [&](at::Tensor& out) { at::index_select_out(out, x, 0, numbers); },
      [&] { return x.index_select(0, numbers); });
}

at::Tensor add(const at::Tensor& a, const at::Tensor& b, Memory memory) {
  const auto write = [&](at::Tensor& out) {
    const SparingThreads sparing;
    at::add_out(out, without_history(a), without_history(b));
  };
  const at::Tensor sum = into_workspace(a.sizes(), a, false, memory, write, [&] { return a + b; });
  if (memory.workspace == nullptr || !(records(a) || records(b))) return sum;
  return recorded(sum, {a, b}, [](const at::Tensor& gradient) { return std::vector{gradient, gradient}; });
}

at::Tensor multiply(const at::Tensor& a, const at::Tensor& b, Memory memory) {
  const at::Tensor left = without_history(a), right = without_history(b);
  const auto write = [&](at::Tensor& out) {
    const SparingThreads sparing;
    at::mul_out(out, left, right);
  };
  const at::Tensor product = into_workspace(a.sizes(), a, false, memory, write, [&] { return a * b; });
  if (memory.workspace == nullptr || !(records(a) || records(b))) return product;
  // For each factor, if the other one gets a gradient.
  return recorded(product, {a, b},
                  [memory = *memory.workspace, for_left = records(a) ? right : at::Tensor(),
                   for_right = records(b) ? left : at::Tensor()](const at::Tensor& gradient) {
                    const auto times = [&](const at::Tensor& factor) -> at::Tensor {
                      if (!factor.defined()) return {};
                      at::Tensor passed = memory.empty(gradient.sizes(), gradient.options());
                      at::mul_out(passed, gradient, factor);
                      return passed;
                    };
                    return std::vector{times(for_left), times(for_right)};
                  });
}

at::Tensor scores(const at::Tensor& q, const at::Tensor& k, double scale, Memory memory) {
  const at::Tensor queries = by_kv_head(q, k);
  const at::Tensor keys = k.reshape({-1, k.size(2), k.size(3)}).transpose(1, 2);
  const at::Tensor product = into_workspace(
      {queries.size(0), queries.size(1), keys.size(2)}, q, records(q) || records(k), memory,
      [&](at::Tensor& out) { at::baddbmm_out(out, out, queries, keys, /*beta=*/0, /*alpha=*/scale); },
      [&] { return at::bmm(queries, keys) * scale; });
  return by_head(product, q, k);
}

void scores_into(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, double scale) {
  const at::Tensor queries = by_kv_head(q, k);
  const at::Tensor keys = k.reshape({-1, k.size(2), k.size(3)}).transpose(1, 2);
  const bool in_place = k.size(0) == q.size(0);
  at::Tensor product = in_place ? out.view({queries.size(0), queries.size(1), keys.size(2)})
                                : at::empty({queries.size(0), queries.size(1), keys.size(2)}, q.options());
  at::baddbmm_out(product, product, queries, keys, /*beta=*/0, /*alpha=*/scale);
  if (!in_place) out.copy_(by_head(product, q, k));
}

at::Tensor softmax(const at::Tensor& x, Memory memory) {
  return into_workspace(
      x.sizes(), x, records(x), memory,
      [&](at::Tensor& out) { at::_softmax_out(out, x, -1, /*half_to_float=*/false); },
      [&] { return at::softmax(x, -1); });
}

at::Tensor mix(const at::Tensor& pattern, const at::Tensor& v, Memory memory) {
  const at::Tensor values = v.reshape({-1, v.size(2), v.size(3)});
  const at::Tensor mixed = by_head(at::bmm(by_kv_head(pattern, v), values), pattern, v).transpose(1, 2);
  return into_workspace(
      mixed.sizes(), mixed, records(mixed), memory, [&](at::Tensor& out) { out.copy_(mixed); },
      [&] { return mixed.contiguous(); });
}

void mix_into(const at::Tensor& out, const at::Tensor& pattern, const at::Tensor& v, bool add) {
  const at::Tensor values = v.reshape({-1, v.size(2), v.size(3)});
  const at::Tensor mixed = by_head(at::bmm(by_kv_head(pattern, v), values), pattern, v).transpose(1, 2);
  if (add) {
    out.add_(mixed);
  } else {
    out.copy_(mixed);
  }
}

at::Tensor soft_cap(const at::Tensor& x, double cap) { return cap * at::tanh(x / cap); }

}  // namespace hooked::ops
