// Features of dictionaries: which fire, what they do to the logits, and how well a dictionary does.
#include "hooked/analysis/features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/runs/row_runs.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"

namespace hooked {
namespace {

constexpr std::string_view kQuality = "dictionary_quality";

ActivationName feature_point(const Address& features) {
  if (features.name().site == Site::sae_acts_post && features.indices().empty()) return features.name();
  throw HookError(
      features.to_string(),
      "this is not a dictionary's features; expected the hook_sae_acts_post of the activation that it stands "
      "at, as in 'blocks.1.hook_resid_post.hook_sae_acts_post'");
}

// The dictionary whose features a point shows.
StandingDictionary dictionary_at(const HookedTransformer& model, const Address& features) {
  const ActivationName point = model.points().resolve(feature_point(features));
  for (StandingDictionary& each : model.dictionaries()) {
    if (each.output == point.place()) return std::move(each);
  }
  model.points().require(point);  // which throws
  throw HookError(point.to_string(), "no dictionary stands there");
}

// [row, column] bool: the tokens that count, of those that the cache holds.
at::Tensor counted(const ActivationCache& cache, const ActivationCache::Entry& entry,
                   const std::vector<Position>& positions) {
  const at::Tensor value = entry.value();
  const auto rows = value.size(0), columns = value.size(1);
  at::Tensor counts = at::ones({rows, columns}, at::kBool);
  if (!cache.tokens()) return counts;
  const TokenColumns& tokens = *cache.tokens();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t place = 0; place < columns; ++place) {
      const std::int64_t column =
          entry.positions.empty() ? tokens.first + place : entry.positions[static_cast<std::size_t>(place)];
      const bool asked = positions.empty() || std::ranges::any_of(positions, [&](const Position& position) {
                           return position.column_in(row, rows, tokens) == column;
                         });
      if (!asked || tokens.is_padding(row, column)) counts[row][place] = false;
    }
  }
  return counts;
}

void require_next_tokens(const ModelConfig& config) {
  if (config.unembedding && !config.has_encoder() && !config.bidirectional(config.main_stack())) return;
  throw HookError(kQuality,
                  "the losses are of next tokens; expected a model of one stack that predicts them");
}

}  // namespace

std::vector<FiringFeature> firing_features(const ActivationCache& cache, const Address& features,
                                           const FiringOptions& options) {
  const ActivationCache::Entry& entry = cache.entry(feature_point(features));
  const at::Tensor counts = counted(cache, entry, options.positions);
  const at::Tensor codes =
      entry.value().to(at::kCPU, at::kDouble).masked_fill(counts.logical_not().unsqueeze(-1), 0.0);
  const at::Tensor flat = codes.flatten(0, 1);  // [token, feature]
  const at::Tensor fires = flat.ne(0);
  const auto [largest, at] = flat.max(0);
  const at::Tensor tokens = fires.sum(0), sums = flat.sum(0);
  const at::Tensor order = at::argsort(largest.masked_fill(tokens.eq(0), -INFINITY), 0, /*descending=*/true);
  const std::int64_t columns = codes.size(1);
  std::vector<FiringFeature> found;
  for (std::int64_t i = 0; i < order.size(0); ++i) {
    const auto feature = order[i].item<std::int64_t>();
    const auto times = tokens[feature].item<std::int64_t>();
    if (times == 0 || (options.count > 0 && std::ssize(found) == options.count)) break;
    const auto token = at[feature].item<std::int64_t>();
    const auto place = token % columns;
    const std::int64_t first = cache.tokens() ? cache.tokens()->first : 0;
    found.push_back(
        {.feature = feature,
         .largest = largest[feature].item<double>(),
         .row = token / columns,
         .column = entry.positions.empty() ? first + place : entry.positions[static_cast<std::size_t>(place)],
         .mean = sums[feature].item<double>() / static_cast<double>(times),
         .tokens = times});
  }
  return found;
}

at::Tensor feature_logits(const HookedTransformer& model, const Address& features,
                          const std::vector<std::int64_t>& which) {
  const StandingDictionary standing = dictionary_at(model, features);
  const ModelConfig& config = model.config();
  const SiteRow& site = row(standing.output.site);
  const bool heads = site.site == Site::z;
  const bool stream = site.axes[site.axes.size() - 1] == Axis::d_model && site.changed_by.centred;
  if ((!heads && !stream) || standing.dictionary.config().crosses_layers || !config.unembedding ||
      config.has_mlm_head() || config.norms_stream()) {
    throw HookError(
        features.to_string(),
        "what these features write does not reach the logits along one direction; expected a dictionary "
        "that writes to the residual stream or to heads, in a model with an unembedding and no head "
        "before it");
  }
  const std::int64_t count = standing.dictionary.config().features;
  for (const std::int64_t feature : which) {
    if (feature >= 0 && feature < count) continue;
    throw ShapeError("feature_logits",
                     fmt::format("feature {} does not exist; expected 0 to {}", feature, count - 1));
  }
  const at::Tensor W_dec = standing.dictionary.weights().W_dec;
  at::Tensor written = W_dec.index_select(0, to_device(which, W_dec.device())).to(at::kDouble);
  const WeightView weights = model.weights();
  // Layers, and what comes after them, may be on devices of their own.
  const auto through = [&written](const at::Tensor& matrix) {
    written = written.to(matrix.device()).matmul(matrix.to(at::kDouble));
  };
  if (heads) through(weights.W_O(standing.output.layer).flatten(0, 1));
  if (config.final_norm == NormKind::layer_norm) written = written - written.mean(-1, true);
  if (!config.norm_folded && config.final_norm != NormKind::none) {
    const at::Tensor w = weights.ln_final().w.to(at::kDouble);
    written = written.to(w.device()) * w;
  }
  through(weights.W_U());
  return written.to(at::kCPU);
}

DictionaryQuality dictionary_quality(const HookedTransformer& model, const Address& features,
                                     const Input& input,
                                     const std::function<bool(const SweepProgress&)>& progress) {
  require_next_tokens(model.config());
  const StandingDictionary standing = dictionary_at(model, features);
  const ActivationName place = standing.output;
  const ActivationName codes = feature_point(features);
  ActivationName gone_on = codes;
  gone_on.site = Site::sae_output;
  const HookedTransformer bare = model.without_dictionary(place);
  const HookedTransformer spliced =
      bare.with_dictionary(standing.dictionary, {.input = standing.input, .output = standing.output});

  DictionaryQuality quality;
  quality.fired = at::zeros({standing.dictionary.config().features}, at::kLong);
  double losses[3] = {}, firing = 0, errors = 0, squares = 0;
  std::int64_t predictions = 0;
  at::Tensor sum;  // [width] float64
  const auto use = [&](const Input& some, const RunResult& plain) {
    const at::Tensor real = some.main_mask();
    const auto loss_of = [&](const RunResult& run) {
      return next_token_loss(run.logits(), some.tokens.to(run.logits().device()), real,
                             LossReduction::per_token)
          .sum(at::kDouble)
          .item<double>();
    };
    const RunResult with = spliced.run(some, {.capture = Selection(codes) | Selection(gone_on)});
    const RunResult without = bare.run(some, {.edits = zero(Address(place))});
    const at::Tensor counts =
        (real.defined() ? real.ne(0) : at::ones_like(some.tokens).to(at::kBool)).to(at::kCPU);
    const auto of_tokens = [&](const at::Tensor& value) {
      return value.flatten(2).to(at::kCPU, at::kDouble).flatten(0, 1).index({counts.flatten()});
    };
    const at::Tensor fires = of_tokens(with.cache[Address(codes)].ne(0));
    const at::Tensor x = of_tokens(plain.cache[Address(place)]);
    const at::Tensor error = x - of_tokens(with.cache[Address(gone_on)]);
    losses[0] += loss_of(plain);
    losses[1] += loss_of(with);
    losses[2] += loss_of(without);
    predictions += (counts.slice(1, 1).logical_and(counts.slice(1, 0, -1))).sum().item<std::int64_t>();
    quality.tokens += x.size(0);
    quality.fired += fires.sum(0).to(at::kLong);
    firing += fires.sum().item<double>();
    errors += error.square().sum().item<double>();
    squares += x.square().sum().item<double>();
    sum = sum.defined() ? sum + x.sum(0) : x.sum(0);
  };
  const RowRuns runs =
      run_rows(bare, input, {.capture = Selection(place)}, kQuality, progress, use, Asked::between_layers);
  quality.complete = runs.complete;
  const auto tokens = static_cast<double>(quality.tokens), predicted = static_cast<double>(predictions);
  quality.l0 = firing / tokens;
  const double variance = sum.defined() ? squares - sum.square().sum().item<double>() / tokens : NAN;
  quality.explained_variance = variance > 0 ? 1 - errors / variance : NAN;
  quality.loss = losses[0] / predicted;
  quality.spliced_loss = losses[1] / predicted;
  quality.zero_loss = losses[2] / predicted;
  quality.recovered = (quality.zero_loss - quality.spliced_loss) / (quality.zero_loss - quality.loss);
  quality.dead = quality.fired.eq(0).sum().item<std::int64_t>();
  return quality;
}

}  // namespace hooked
