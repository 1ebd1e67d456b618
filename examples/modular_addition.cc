// How a model that has grokked a + b mod p does it: by waves of a few frequencies (Nanda et al. 2023).
// Everything that is printed is found in the model.
//
//   modular_addition [MODEL]
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <hooked/hooked.h>

#include <iostream>
#include <vector>

#include "examples/modular_addition/addition_task.h"

namespace act = hooked::act;

namespace {

/// [a, b, ...]: the power of each pair of frequencies of `values` [p, p, ...], which are numbers for each
/// pair of numbers. Their mean is left out.
at::Tensor powers(const at::Tensor& values) {
  auto power = at::fft_fft2(values, {}, {0, 1}).abs().square();
  power[0][0] = 0;
  return power;
}

/// [frequency from 1 to (p - 1) / 2]: the share of waves of a + b, cos and sin of 2 pi k (a + b) / p.
at::Tensor shares_of_sum_waves(const at::Tensor& power) {
  const auto p = power.size(0);
  const auto same = power.diagonal();  // the same frequency in a and in b; p - k is -k
  return (same + same.flip(0).roll(1)).slice(0, 1, (p + 1) / 2) / power.sum();
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/modular_addition/model",
                                                     {.dtype = at::kFloat});
  const auto p = model.config().d_vocab_out();
  const auto pairs = addition::all_pairs(p);

  // 1. It has a rule: it is right about pairs that it saw in neither order.
  const auto run = model.run_with_cache(pairs.tokens, act::post(0));
  const auto logits = run.logits().select(1, -1).to(at::kDouble);
  const auto seen = addition::seen_in_training(p);
  const auto in_neither_order = (seen | seen.view({p, p}).t().reshape({-1})).logical_not();
  std::cout << fmt::format(
      "right: {:.2f} % of {} pairs, {:.2f} % of {} that it saw in neither order\n",
      100 * addition::accuracy(logits, pairs.sums), p * p,
      100 * addition::accuracy(logits.index({in_neither_order}), pairs.sums.index({in_neither_order})),
      in_neither_order.sum().item<std::int64_t>());

  // 2. Logits are waves of a + b. The key frequencies are those that explain at least 1 % of the logits'
  // variance over pairs. (A number that all logits of a pair share changes no probability.)
  const auto relative = logits - logits.mean(1, true);
  const auto of_logits = shares_of_sum_waves(powers(relative.view({p, p, p})).sum(2));
  const auto key = of_logits.ge(0.01).nonzero().squeeze(1) + 1;
  std::cout << fmt::format("{} of {} frequencies explain {:.1f} % of the logits' variance:", key.size(0),
                           of_logits.size(0), 100 * of_logits.index_select(0, key - 1).sum().item<double>());
  for (std::int64_t i = 0; i < key.size(0); ++i) std::cout << ' ' << key[i].item<std::int64_t>();
  std::cout << '\n';

  // 3. The embedding holds the same frequencies of single numbers.
  const auto embedding = model.weights().W_E().slice(0, 0, p).to(at::kDouble);  // without "="
  const auto waves = at::fft_rfft(embedding, {}, 0);                            // [frequency, d_model]
  const auto of_embedding = waves.abs().square().sum(1).slice(0, 1);
  std::cout << fmt::format(
      "they are {:.1f} % of the embedding\n",
      100 * (of_embedding.index_select(0, key - 1).sum() / of_embedding.sum()).item<double>());

  // 4. A neuron computes with one of them: products of a wave of a and a wave of b.
  const auto neurons = run.cache[act::post(0)].select(1, -1).to(at::kDouble);  // [pair, neuron]
  const auto power = powers(neurons.view({p, p, -1}));
  std::vector<at::Tensor> of_frequency;
  for (std::int64_t k = 1; k < (p + 1) / 2; ++k) {
    const auto same = at::tensor({std::int64_t{0}, k, p - k});
    of_frequency.push_back(power.index_select(0, same).index_select(1, same).sum(at::IntArrayRef{0, 1}));
  }
  const auto [most, frequency] = at::stack(of_frequency).max(0);  // [neuron]
  const at::Tensor active = neurons.amax(0).gt(0);
  const at::Tensor explained = (most / power.sum(at::IntArrayRef{0, 1})).index({active});
  const at::Tensor has_key = at::isin(frequency + 1, key).index({active});
  std::cout << fmt::format(
      "{} of {} active neurons have a key frequency; a neuron's frequency explains {:.1f} % of the median "
      "one\n",
      has_key.sum().item<std::int64_t>(), has_key.size(0), 100 * explained.median().item<double>());

  // 5. The frequencies are the reason, not a symptom: without them in the embedding of a and b the model is
  // lost, without all others it is not.
  for (const bool without_key : {true, false}) {
    auto is_removed = at::full({waves.size(0)}, !without_key, at::kBool).index_fill(0, key, without_key);
    is_removed[0] = false;  // the mean
    const auto removed =
        at::fft_irfft(waves * is_removed.unsqueeze(1), p, 0).to(at::kFloat);  // [number, d_model]
    const auto ablated =
        model.run_with_hooks(pairs.tokens, hooked::Hook(act::embed, [&](const at::Tensor& embed) {
                               auto left = embed.clone();
                               left.slice(1, 0, 2) -= removed.index({pairs.tokens.slice(1, 0, 2)});
                               return left;
                             }));
    const auto logits_left = ablated.logits().select(1, -1);
    std::cout << fmt::format("without {} frequencies in the embedding: {:.2f} % right\n",
                             without_key ? "the key" : "all other",
                             100 * addition::accuracy(logits_left, pairs.sums));
  }
}
