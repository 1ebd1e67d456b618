#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/narrow.h>
#include <ATen/ops/select.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/transpose.h>
#include <ATen/ops/unsqueeze.h>
#include <fmt/format.h>

#include <array>

#include "weights/steps.h"

namespace hooked::weights {
namespace {

/// A B^T = U diag(S) V^T per head; U and V [head, rows, d_head], S [head, d_head], padded with zeros if the
/// shape limits the product's rank to less than d_head.
struct Svd {
  at::Tensor U, S, V;
};

/// The decomposition of a product of thin factors A, B [head, rows, d_head], computed from their d_head-sized
/// triangles: the [rows, rows] product never exists.
Svd svd_of_product(const at::Tensor& A, const at::Tensor& B) {
  const auto [Q_A, R_A] = at::linalg_qr(A);
  const auto [Q_B, R_B] = at::linalg_qr(B);
  const auto [U, S, Vh] = at::linalg_svd(R_A.matmul(R_B.transpose(-2, -1)), /*full_matrices=*/false);
  const std::array<std::int64_t, 2> padding = {0, A.size(-1) - S.size(-1)};
  return {at::constant_pad_nd(Q_A.matmul(U), padding), at::constant_pad_nd(S, padding),
          at::constant_pad_nd(Q_B.matmul(Vh.transpose(-2, -1)), padding)};
}

/// The place of one matrix of an attention and its bias: `attn.W_` and `attn.b_`, followed by Q, K or V.
struct Projection {
  std::string weight;
  std::string bias;
};

Projection projection(const std::string& attention, char letter) {
  return {attention + ".W_" + letter, attention + ".b_" + letter};
}

/// [head, d_model, d_head] and, if the model has one, the bias as one more input row that always reads 1.
at::Tensor with_bias_row(WorkingWeights& block, const Projection& of, const ModelConfig& before) {
  const at::Tensor W = block.get(of.weight);
  return before.qkv_bias ? at::cat({W, block.get(of.bias).unsqueeze(1)}, 1) : W;
}

void set_with_bias_row(WorkingWeights& block, const Projection& of, const at::Tensor& rows,
                       const ModelConfig& before) {
  block.set(of.weight, rows.narrow(1, 0, before.d_model));
  if (before.qkv_bias) block.set(of.bias, rows.select(1, before.d_model));
}

void refactor_attention(WorkingWeights& block, const std::string& attention, const ModelConfig& before) {
  const Projection q = projection(attention, 'Q'), k = projection(attention, 'K');
  const Svd scores = svd_of_product(with_bias_row(block, q, before), with_bias_row(block, k, before));
  const at::Tensor half = scores.S.sqrt().unsqueeze(1);  // [head, 1, d_head]
  set_with_bias_row(block, q, scores.U * half, before);
  set_with_bias_row(block, k, scores.V * half, before);

  if (before.qkv_bias) move_value_biases(block, attention, before);
  const std::string W_V = attention + ".W_V", W_O = attention + ".W_O";
  const Svd output = svd_of_product(block.get(W_V), block.get(W_O).transpose(1, 2));
  block.set(W_V, output.U * output.S.unsqueeze(1));
  block.set(W_O, output.V.transpose(1, 2));
}

void refactor_part(WorkingWeights& part, const ModelConfig& before) {
  for (const std::string& attention : attentions_of(part.part(), before)) {
    refactor_attention(part, attention, before);
  }
}

std::optional<Obstacle> factors_obstacle(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.latent_attention()) {
    return Obstacle{would_change,
                    "keys and values share a latent with a norm, so they have no factors of their own"};
  }
  if (config.rotary() != nullptr) {
    return Obstacle{would_change, "rotary positions turn queries and keys between the two factors"};
  }
  if (config.qkv_clip > 0) {
    return Obstacle{would_change, "queries, keys and values are clamped between the two factors"};
  }
  if (config.qk_norm) {
    return Obstacle{would_change, "the norms of queries and keys are between the two factors"};
  }
  if (config.grouped_query()) {
    return Obstacle{would_change, "heads that share keys and values cannot each have factors of their own"};
  }
  return obstacle_behind_values(config);
}

std::optional<std::string> factors_risk(const StoredNumbers& numbers, const WeightPart& part,
                                        const ModelConfig& before) {
  for (const std::string& attention : attentions_of(part, before)) {
    for (const auto* weight : {".W_Q", ".W_K", ".W_V", ".W_O", ".b_Q", ".b_K", ".b_V"}) {
      const at::Tensor values = numbers.values(part, attention + weight);
      if (!values.defined()) continue;
      if (const std::string where = not_finite(values); !where.empty())
        return fmt::format("{} holds {}", numbers.name_of(part, attention + weight), where);
    }
  }
  return std::nullopt;
}

void add_output_bias_of_values(ModelConfig& config) {
  if (config.qkv_bias) config.attn_out_bias = true;
}

}  // namespace

StepDefinition refactor_attention_step() {
  return {.step = ProcessingStep::refactor_factored_attn_matrices,
          .obstacle = factors_obstacle,
          .risk = factors_risk,
          .apply = refactor_part,
          .update = add_output_bias_of_values};
}

}  // namespace hooked::weights
