#include "engine/sampling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "core/id_list.h"
#include "core/parallel.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"
#include "models/kernels/kernels.h"

namespace hooked {
namespace {

/// The logit of a token that cannot be picked.
constexpr double kRuledOut = -std::numeric_limits<double>::infinity();

using Tokens = std::vector<std::int64_t>;

// Sets the logits [vocab] of these tokens.
void set(const at::Tensor& logits, const Tokens& tokens, double value) {
  if (tokens.empty()) return;
  logits.index_fill_(0, to_device(at::tensor(tokens, at::kLong), logits.device()), value);
}

void force(const at::Tensor& logits, const Tokens& tokens) {
  logits.fill_(kRuledOut);
  set(logits, tokens, 0.0);
}

bool ends_with(const Tokens& tokens, Tokens::const_iterator first, Tokens::const_iterator end) {
  const auto count = end - first;
  return static_cast<std::ptrdiff_t>(tokens.size()) >= count && std::equal(first, end, tokens.end() - count);
}

// The tokens that would make the last ones a second copy of `size` earlier ones.
Tokens repeating(const Tokens& tokens, std::int64_t size) {
  Tokens found;
  for (auto at = tokens.begin(); tokens.end() - at >= size; ++at) {
    if (ends_with(tokens, at, at + (size - 1))) found.push_back(*(at + (size - 1)));
  }
  return found;
}

// The last tokens of forbidden sequences whose other tokens the row ends with. A stop token cannot be
// forbidden, as in transformers.
Tokens completing(const Tokens& tokens, const TokenRules& rules, const Tokens& stop_tokens) {
  Tokens found;
  for (const Tokens& sequence : rules.banned) {
    const bool stop =
        sequence.size() == 1 && std::ranges::find(stop_tokens, sequence.front()) != stop_tokens.end();
    if (!stop && ends_with(tokens, sequence.begin(), sequence.end() - 1)) found.push_back(sequence.back());
  }
  return found;
}

bool has_penalty(const SamplingOptions& options) {
  return options.repetition_penalty != 1.0 || options.frequency_penalty != 0.0;
}

at::Tensor penalised(at::Tensor logits, const at::Tensor& occurred, const SamplingOptions& options) {
  if (options.repetition_penalty != 1.0) {
    const double p = options.repetition_penalty;
    logits = at::where(occurred > 0, at::where(logits < 0, logits * p, logits / p), logits);
  }
  if (options.frequency_penalty != 0.0) {
    logits = logits - occurred.to(logits.scalar_type()) * options.frequency_penalty;
  }
  return logits;
}

at::Tensor only_top_k(const at::Tensor& logits, std::int64_t k) {
  const at::Tensor kth = std::get<0>(at::topk(logits, std::min(k, logits.size(-1)))).narrow(-1, -1, 1);
  return logits.masked_fill(logits < kth, kRuledOut);
}

// The `n` likeliest tokens' probabilities and ids, the likeliest first; with all tokens, ties are in order of
// their ids.
std::tuple<at::Tensor, at::Tensor> likeliest(const at::Tensor& probabilities, std::int64_t n) {
  if (n < probabilities.size(-1)) return at::topk(probabilities, n);
  return at::sort(probabilities, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
}

// A few tokens hold nearly all of a distribution, so the likeliest few are looked at first: sorting a whole
// vocabulary is the most expensive step of sampling.
at::Tensor only_top_p(const at::Tensor& logits, double p) {
  constexpr std::int64_t kFirstLook = 256, kWider = 8;
  const at::Tensor probabilities = at::softmax(logits, -1);
  const std::int64_t vocab = logits.size(-1);
  std::int64_t looked_at = std::min(kFirstLook, vocab);
  while (true) {
    const auto [ranked, ids] = likeliest(probabilities, looked_at);
    at::Tensor ruled_out = at::cumsum(ranked, -1) - ranked >= p;  // the earlier ones are enough
    ruled_out.narrow(-1, 0, 1).fill_(false);                      // the likeliest token stays, whatever p is
    if (looked_at < vocab) {
      if (!ruled_out.select(-1, looked_at - 1).all().item<bool>()) {
        looked_at = std::min(kWider * looked_at, vocab);
        continue;
      }
      // If tokens on both sides of the edge are equal, which ones stay must not depend on topk's order.
      const std::int64_t pairs = looked_at - 1;
      const at::Tensor edge = ruled_out.narrow(-1, 1, pairs).logical_xor(ruled_out.narrow(-1, 0, pairs));
      if ((ranked.narrow(-1, 1, pairs) == ranked.narrow(-1, 0, pairs)).logical_and(edge).any().item<bool>()) {
        looked_at = vocab;
        continue;
      }
    }
    return at::full_like(logits, kRuledOut)
        .scatter(-1, ids, logits.gather(-1, ids).masked_fill(ruled_out, kRuledOut));
  }
}

at::Tensor only_min_p(const at::Tensor& logits, double p) {
  const at::Tensor probabilities = at::softmax(logits, -1);
  return logits.masked_fill(probabilities < p * probabilities.amax(-1, /*keepdim=*/true), kRuledOut);
}

// The logits, penalties already applied, after temperature and filters.
at::Tensor filtered(at::Tensor changed, const SamplingOptions& options) {
  if (options.temperature != 1.0) changed = changed / options.temperature;
  if (options.top_k > 0) changed = only_top_k(changed, options.top_k);
  if (options.top_p < 1.0) changed = only_top_p(changed, options.top_p);
  if (options.min_p > 0.0) changed = only_min_p(changed, options.min_p);
  return changed;
}

[[noreturn]] void refuse_row(std::size_t row) {
  throw HookError("logits",
                  fmt::format("the logits of the next token in row {} are not finite numbers; expected "
                              "finite ones; look at the weights, edits and sampling options",
                              row));
}

// Whether the row kernel supports the logits [batch, vocab].
bool can_take_rows(const at::Tensor& logits) {
  return logits.device().is_cpu() && logits.scalar_type() == at::kFloat && logits.stride(1) == 1 &&
         kernels::own_kernels() != nullptr;
}

const float* row_of(const at::Tensor& logits, std::size_t row) {
  return logits.const_data_ptr<float>() + static_cast<std::int64_t>(row) * logits.stride(0);
}

std::vector<kernels::RowPeak> peaks_of(const at::Tensor& logits) {
  std::vector<kernels::RowPeak> peaks(static_cast<std::size_t>(logits.size(0)));
  constexpr std::int64_t kOperationsOfANumber = 16;
  share_operations(
      logits.size(0), kOperationsOfANumber * logits.numel(), [&](std::int64_t first, std::int64_t end) {
        for (auto row = static_cast<std::size_t>(first); row < static_cast<std::size_t>(end); ++row) {
          peaks[row] = kernels::own_kernels()->row_peak(row_of(logits, row), logits.size(1));
        }
      });
  return peaks;
}

[[noreturn]] void refuse(const char* option, double value, const char* expected) {
  throw ConfigError(option, fmt::format("{} is out of range; expected {}", value, expected));
}

}  // namespace

bool reads_logit_sizes(const SamplingOptions& options) { return options.repetition_penalty != 1.0; }

void require_sampling_options(const SamplingOptions& options) {
  // Written so that NaN is refused as well.
  if (!(options.temperature > 0.0) || options.temperature == std::numeric_limits<double>::infinity()) {
    refuse("temperature", options.temperature, "a positive number; `greedy` takes the likeliest token");
  }
  if (options.top_k < 0) refuse("top_k", static_cast<double>(options.top_k), "0 (all tokens) or more");
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) refuse("top_p", options.top_p, "above 0 and at most 1");
  if (!(options.min_p >= 0.0 && options.min_p <= 1.0)) refuse("min_p", options.min_p, "0 to 1");
  if (!(options.repetition_penalty > 0.0) || !std::isfinite(options.repetition_penalty)) {
    refuse("repetition_penalty", options.repetition_penalty, "a positive number");
  }
  if (!(std::abs(options.frequency_penalty) < std::numeric_limits<double>::infinity())) {
    refuse("frequency_penalty", options.frequency_penalty, "a number");
  }
  if (options.greedy &&
      (options.temperature != 1.0 || options.top_k != 0 || options.top_p != 1.0 || options.min_p != 0.0)) {
    throw ConfigError("greedy",
                      "the likeliest token is taken, so nothing is drawn; expected no temperature, top_k, "
                      "top_p or min_p with greedy");
  }
}

at::Tensor sampling_logits(const at::Tensor& logits, const at::Tensor& occurred,
                           const SamplingOptions& options) {
  require_sampling_options(options);
  const at::Tensor precise = logits.to(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return filtered(has_penalty(options) ? penalised(precise, occurred, options) : precise, options);
}

RuledTokens::RuledTokens(const TokenRules& rules, std::vector<Tokens> rows, End end)
    : rules_(rules), end_(std::move(end)), none_(rules == TokenRules()), rows_(std::move(rows)) {}

at::Tensor RuledTokens::allowed(const at::Tensor& logits) const {
  if (none_) return logits;
  const at::Tensor changed = logits.clone(at::MemoryFormat::Contiguous);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    rule_row(changed.select(0, static_cast<std::int64_t>(row)), rows_[row]);
  }
  return changed;
}

void RuledTokens::rule_row(const at::Tensor& logits, const Tokens& tokens) const {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const bool starts_forced = rules_.forced_second && length - made_ == 1;
  if (rules_.no_repeat_ngram_size > 0) set(logits, repeating(tokens, rules_.no_repeat_ngram_size), kRuledOut);
  set(logits, completing(tokens, rules_, end_.stop_tokens), kRuledOut);
  if (length < rules_.min_length || made_ < rules_.min_new_tokens) set(logits, end_.stop_tokens, kRuledOut);
  if (rules_.forced_second && length == 1) force(logits, {*rules_.forced_second});
  if (!rules_.forced_last.empty() && made_ == end_.max_new_tokens - 1) force(logits, rules_.forced_last);
  set(logits, rules_.suppressed, kRuledOut);
  if (made_ == (starts_forced ? 1 : 0)) set(logits, rules_.suppressed_first, kRuledOut);
}

void RuledTokens::add(const Tokens& tokens) {
  if (none_) return;
  for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].push_back(tokens[row]);
  ++made_;
}

Sampler::Sampler(const SamplingOptions& options, const at::Tensor& tokens, const at::Tensor& real,
                 std::int64_t d_vocab)
    : options_(options) {
  for (std::int64_t row = 0; row < tokens.size(0); ++row) {
    streams_.emplace_back(options.seed + static_cast<std::uint64_t>(row));
  }
  if (!has_penalty(options)) return;
  const at::Tensor counted = real.defined() ? real.to(tokens.device(), at::kLong) : at::ones_like(tokens);
  occurred_ = at::zeros({tokens.size(0), d_vocab}, tokens.options()).scatter_add(1, tokens, counted);
}

std::vector<double> Sampler::draws() {
  std::vector<double> draws;
  for (std::mt19937_64& stream : streams_) draws.push_back(static_cast<double>(stream() >> 11) * 0x1.0p-53);
  return draws;
}

at::Tensor Sampler::drawn(const at::Tensor& logits) {
  const at::Tensor sums = at::cumsum(at::softmax(logits.to(at::kDouble), -1), -1);  // [batch, vocab]
  const at::Tensor draw = to_device(at::tensor(draws(), at::kDouble), logits.device()).unsqueeze(1);
  const at::Tensor total = sums.narrow(1, -1, 1);  // 1 up to rounding
  // The first token whose sum exceeds the draw: one that was ruled out adds nothing and is never that one.
  return at::searchsorted(sums.contiguous(), draw * total, /*out_int32=*/false, /*right=*/true).squeeze(1);
}

PickedTokens Sampler::picked_by_rows(const at::Tensor& logits, const at::Tensor& changed) {
  const std::vector<kernels::RowPeak> by = peaks_of(changed);
  for (std::size_t row = 0; row < by.size(); ++row) {
    if (std::isnan(by[row].sum) || std::isinf(by[row].largest)) refuse_row(row);
  }
  PickedTokens picked;
  const std::vector<double> shares = options_.greedy ? std::vector<double>() : draws();
  for (std::size_t row = 0; row < by.size(); ++row) {
    picked.here.push_back(options_.greedy ? by[row].place
                                          : kernels::own_kernels()->place_of_share(
                                                row_of(changed, row), changed.size(1), by[row], shares[row]));
  }
  picked.there = at::tensor(picked.here, at::kLong);
  // The model's own probabilities.
  const std::vector<kernels::RowPeak> own = changed.is_same(logits) ? by : peaks_of(logits);
  std::vector<float> log_probs;
  for (std::size_t row = 0; row < own.size(); ++row) {
    const float logit = row_of(logits, row)[picked.here[row]];
    log_probs.push_back(
        static_cast<float>(static_cast<double>(logit - own[row].largest) - std::log(own[row].sum)));
  }
  picked.log_probs = at::tensor(log_probs, at::kFloat);
  return picked;
}

PickedTokens Sampler::picked_by_operators(const at::Tensor& logits, const at::Tensor& changed) {
  const at::Tensor sound = changed.amax(-1).isfinite();
  const at::Tensor picked = options_.greedy ? at::argmax(changed, -1) : drawn(changed);
  // Everything that the host must know of a step comes in one copy.
  const auto rows = static_cast<std::ptrdiff_t>(picked.size(0));
  std::vector<std::int64_t> here = id_list(at::cat({picked, sound.to(at::kLong)}));
  if (const auto bad = std::find(here.begin() + rows, here.end(), 0); bad != here.end()) {
    refuse_row(static_cast<std::size_t>(bad - here.begin() - rows));
  }
  here.resize(static_cast<std::size_t>(rows));
  return {picked, std::move(here), token_log_probs(logits, picked)};
}

PickedTokens Sampler::pick(const at::Tensor& given, const RuledTokens& rules) {
  const at::Tensor logits = given.to(given.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor changed = filtered(
      rules.allowed(has_penalty(options_) ? penalised(logits, occurred_, options_) : logits), options_);
  PickedTokens picked =
      can_take_rows(logits) ? picked_by_rows(logits, changed) : picked_by_operators(logits, changed);
  if (occurred_.defined()) {
    const at::Tensor columns = picked.there.unsqueeze(1);
    occurred_.scatter_add_(1, columns, at::ones_like(columns));
  }
  return picked;
}

}  // namespace hooked
