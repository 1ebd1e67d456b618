#include "hooked/analysis/path_expansion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/reading/frozen_run.h"
#include "analysis/stream/logit_reading.h"
#include "analysis/stream/stream_path.h"
#include "analysis/work/obstacles.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

constexpr const char* kPaths = "path_expansion";
constexpr double kMostPaths = 1e6;

/// An event on the stream: a norm of it, a source that enters, or attention.
struct StreamEvent {
  std::optional<FrozenNorm> norm = std::nullopt;
  std::optional<std::int64_t> source = std::nullopt;
  at::Tensor entering = {};                              ///< [row, pos, d_model] of the source
  std::optional<std::int64_t> attention = std::nullopt;  ///< its layer
};

/// A run as events on its stream, at all columns.
class ExpandedRun {
 public:
  ExpandedRun(const HookedTransformer& model, const ActivationCache& cache)
      : end_(end_of_stream(model.config())), run_(reading_of(model, cache, {end_, {}})) {
    const auto& config = model.config();
    require_free_of(config, kPaths, obstacles::kPaths);
    if (!cache.tokens() || cache.tokens()->first != 0) {
      throw HookError(
          kPaths,
          "the cache does not say which tokens come before its own; expected that of a run without a prefix");
    }
    for (const auto& step : path_to(end_, {}, run_)) {
      if (step.norm) events_.push_back({.norm = step.norm});
      for (const auto& writing : step.written) add(writing);
    }
  }

  const std::vector<StreamEvent>& events() const { return events_; }
  const FrozenAttention& attention(std::int64_t layer) const {
    return attentions_[static_cast<std::size_t>(layer)];
  }
  const std::vector<std::string>& sources() const { return sources_; }
  std::int64_t bias() const { return bias_; }
  const ActivationName& end() const { return end_; }
  const RunReading& run() const { return run_; }

  /// A stream that nothing has entered, [source, row, pos, d_model].
  at::Tensor empty() const {
    return at::zeros({static_cast<std::int64_t>(sources_.size()), run_.columns.rows(),
                      run_.columns.positions(), run_.model.config().d_model},
                     at::kDouble);
  }

  /// The stream from paths of every order together, [source, row, pos, d_model].
  at::Tensor everything() const {
    auto stream = empty();
    for (const auto& event : events_) {
      auto next = after(event, stream, true);
      if (event.attention) {
        const auto& made = attention(*event.attention);
        for (std::int64_t head = 0; head < made.W_O.size(0); ++head)
          next = next + made.of(stream, head, bias_);
      }
      stream = next;
    }
    return stream;
  }

  /// The stream of one path after an event, heads aside. Sources enter only on the direct path.
  at::Tensor after(const StreamEvent& event, const at::Tensor& stream, bool direct) const {
    if (event.norm) return event.norm->of(stream);
    if (!direct) return stream;
    auto sum = stream.clone();
    if (event.source) sum[*event.source] += event.entering;
    if (event.attention) sum[bias()] += attention(*event.attention).always();
    return sum;
  }

 private:
  std::int64_t add_source(std::string name) {
    const auto found = std::ranges::find(sources_, name);
    if (found != sources_.end()) return found - sources_.begin();
    sources_.push_back(std::move(name));
    return static_cast<std::int64_t>(sources_.size()) - 1;
  }

  void add(const Writing& writing) {
    const auto& place = writing.places.front();
    if (place && place->name().site == Site::attn_out) {
      const auto layer = place->name().layer;
      if (!run_.model.config().attends(layer)) {
        attentions_.emplace_back();  // a source like an MLP
        events_.push_back({.source = add_source(writing.labels.front()), .entering = writing.vectors()[0]});
        return;
      }
      bias_ = add_source("bias");
      attentions_.push_back(frozen_attention(run_, layer, kPaths));
      events_.push_back({.attention = layer});
      return;
    }
    const auto source = add_source(place ? writing.labels.front() : "bias");
    events_.push_back({.source = source, .entering = writing.vectors()[0]});
  }

  ActivationName end_;
  RunReading run_;
  std::vector<StreamEvent> events_;
  std::vector<FrozenAttention> attentions_;  // by layer; empty for a layer without attention
  std::vector<std::string> sources_;
  std::int64_t bias_ = -1;
};

/// `streams` [.., row, pos of all columns, d_model] at some columns, [.., row, pos, d_model].
at::Tensor at_columns(const at::Tensor& streams, const RowColumns& columns) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(streams.dim()) - 3, 1);
  sizes.insert(sizes.end(), {columns.rows(), columns.positions(), 1});
  auto wanted = streams.sizes().vec();
  wanted[wanted.size() - 2] = columns.positions();
  return streams.gather(-2, columns.columns.view(sizes).expand(wanted));
}

/// A path and what it adds.
struct PathTerm {
  std::vector<HeadPlace> heads;
  at::Tensor values;  ///< [source, row, pos]
};

std::string name_of(const std::vector<HeadPlace>& heads) {
  if (heads.empty()) return "direct";
  std::vector<std::string> names;
  for (const auto& place : heads) names.push_back(fmt::format("{}.{}", place.layer, place.head));
  return fmt::format("{}", fmt::join(names, " > "));
}

/// Follows every chain of heads up to an order, and reads what each adds along directions.
class PathWalk {
 public:
  /// `directions` [row, pos, 1, d_model] at the end of the stream, at the columns of `asked`.
  PathWalk(const ExpandedRun& expanded, const RunReading& asked, const at::Tensor& directions,
           std::int64_t order)
      : expanded_(expanded), asked_(asked), order_(order) {
    // The directions after each attention, and the columns' rows of its pattern.
    const auto& config = asked.model.config();
    seen_.resize(static_cast<std::size_t>(config.n_layers));
    walk_back(path_to(expanded.end(), {}, asked), directions,
              [&](const Writing& writing, const at::Tensor& seen) {
                const auto& place = writing.places.front();
                if (place && place->name().site == Site::attn_out)
                  seen_[static_cast<std::size_t>(place->name().layer)] = seen.squeeze(2);
              });
    at_end_ = directions.squeeze(2);
  }

  std::vector<PathTerm> terms() && {
    terms_.push_back({{}, read(direct())});
    follow(0, expanded_.empty(), {});
    std::ranges::stable_sort(terms_, {}, [](const PathTerm& term) { return term.heads.size(); });
    return std::move(terms_);
  }

  /// What all paths of any order add, [source, row, pos].
  at::Tensor total() const { return read(expanded_.everything()); }

 private:
  at::Tensor direct() const {
    auto stream = expanded_.empty();
    for (const auto& event : expanded_.events()) stream = expanded_.after(event, stream, true);
    return stream;
  }

  at::Tensor read(const at::Tensor& streams) const {
    return (at_columns(streams, asked_.columns) * at_end_).sum(-1);
  }

  /// Paths that continue from `heads`, with `stream` before event `next`.
  void follow(std::size_t next, at::Tensor stream, const std::vector<HeadPlace>& heads) {
    if (static_cast<std::int64_t>(heads.size()) == order_) return;
    const bool direct = heads.empty();
    const auto& events = expanded_.events();
    for (; next < events.size(); ++next) {
      if (events[next].attention) branch(next, stream, heads);
      stream = expanded_.after(events[next], stream, direct);
    }
  }

  void branch(std::size_t event, const at::Tensor& stream, const std::vector<HeadPlace>& heads) {
    const auto layer = *expanded_.events()[event].attention;
    const auto& attention = expanded_.attention(layer);
    const auto added = last_heads(attention, layer, stream, heads.empty());  // [head, source, row, pos]
    for (std::int64_t head = 0; head < added.size(0); ++head) {
      auto longer = heads;
      longer.push_back({layer, head});
      terms_.push_back({longer, added[head]});
      if (static_cast<std::int64_t>(longer.size()) == order_) continue;
      follow(event + 1, attention.of(stream, head, heads.empty() ? expanded_.bias() : -1), longer);
    }
  }

  /// What is added by paths whose last head is in a layer: read along the directions, without any vectors.
  at::Tensor last_heads(const FrozenAttention& attention, std::int64_t layer, const at::Tensor& stream,
                        bool first) const {
    auto seen = seen_[static_cast<std::size_t>(layer)];  // [row, pos, d_model]
    if (attention.behind) {
      FrozenNorm behind = *attention.behind;
      behind.scale = at_columns(behind.scale, asked_.columns);
      seen = behind.before(seen.unsqueeze(2)).squeeze(2);
    }
    const auto pattern = attention.pattern.transpose(1, 2).gather(  // [row, pos, head, key]
        1, asked_.columns.columns.view({asked_.columns.rows(), -1, 1, 1})
               .expand({-1, -1, attention.pattern.size(1), attention.pattern.size(3)}));
    auto of_values = at::einsum("hwm,rpm->hrpw", {attention.W_O, seen});
    if (attention.gate.defined()) {
      const auto gate = at_columns(attention.gate.permute({2, 0, 1, 3}), asked_.columns);
      of_values = of_values * gate;  // [head, row, pos, d_value]
    }
    const auto of_stream = at::einsum("hmw,hrpw->hrpm", {attention.W_V, of_values});
    const auto x = attention.before ? attention.before->of(stream) : stream;  // [source, row, key, d_model]
    auto added = at::einsum("hrpm,srkm,rphk->hsrp", {of_stream, x, pattern});
    if (first) {
      added.select(1, expanded_.bias()) +=
          at::einsum("hrpw,hw->hrp", {of_values, attention.constant}) * pattern.sum(-1).permute({2, 0, 1});
    }
    return added;
  }

  const ExpandedRun& expanded_;
  const RunReading& asked_;
  std::int64_t order_;
  std::vector<at::Tensor> seen_;  // by layer: [row, pos, d_model] after the attention
  at::Tensor at_end_;             // [row, pos, d_model]
  std::vector<PathTerm> terms_;
};

/// The number of chains of up to `order` heads.
double number_of_paths(const ModelConfig& config, std::int64_t order) {
  double chains = 1, all = 1;  // of one length; n_layers choose length times n_heads to that power
  for (std::int64_t length = 1; length <= std::min(order, config.n_layers); ++length) {
    chains *=
        static_cast<double>((config.n_layers - length + 1) * config.n_heads) / static_cast<double>(length);
    all += chains;
  }
  return all;
}

void require_order(const ModelConfig& config, std::int64_t order) {
  if (order >= 0 && number_of_paths(config, order) <= kMostPaths) return;
  throw ShapeError(kPaths, order < 0
                               ? fmt::format("there is no order {}; expected 0 or more", order)
                               : fmt::format("paths through up to {} heads are {:.0f}; expected at most "
                                             "{:.0f}; ask for a smaller order",
                                             order, number_of_paths(config, order), kMostPaths));
}

void require_chain(const ModelConfig& config, const std::vector<HeadPlace>& path) {
  std::int64_t before = -1;
  for (const auto& [layer, head] : path) {
    const bool there = layer > before && layer < config.n_layers && head >= 0 && head < config.n_heads;
    if (there && config.attends(layer)) {
      before = layer;
      continue;
    }
    throw ShapeError("path_logits", fmt::format("{} is not a path of this model; expected heads 0 to {} in "
                                                "increasing layers with attention, 0 to {}",
                                                name_of(path), config.n_heads - 1, config.n_layers - 1));
  }
}

GridAxis axis_of(const char* name, std::vector<std::string> labels) {
  return {.name = name, .labels = std::move(labels)};
}

/// The run's logits minus those of all paths, [row, pos, vocab].
at::Tensor besides_all_paths(const ExpandedRun& expanded, const RunReading& asked, const AllLogits& logits) {
  const auto known = logits.of(at_columns(expanded.everything().sum(0, true), asked.columns)).squeeze(0);
  auto shown = logits.shown();
  if (!shown.defined()) shown = logits.of(asked(expanded.end())) + logits.of_biases();
  return shown - known - logits.of_biases();
}

}  // namespace

Grid path_expansion(const HookedTransformer& model, const ActivationCache& cache,
                    const PathExpansionOptions& options) {
  require_order(model.config(), options.order);
  const ExpandedRun expanded(model, cache);
  const RunReading asked = reading_of(model, cache, {expanded.end(), options.positions});
  const ReadLogit logit{kPaths, options.answer, options.against};
  const auto reading = logit_reading(logit, asked);
  PathWalk walk(expanded, asked, reading.directions, options.order);
  const auto total = walk.total();  // [source, row, pos]
  const auto known = total.sum(0);
  auto terms = std::move(walk).terms();
  auto rest = total;
  std::vector<std::string> paths;
  std::vector<at::Tensor> values;  // [source, row, pos] of each path
  for (auto& term : terms) {
    paths.push_back(name_of(term.heads));
    rest = rest - term.values;
    values.push_back(std::move(term.values));
  }
  paths.emplace_back("remainder");
  values.push_back(rest);
  values.front()[expanded.bias()] += reading.norm_bias + reading.unembed_bias;
  auto numbers = at::stack(values, 1);  // [source, path, row, pos]
  auto besides = at::zeros_like(numbers[0]).unsqueeze(0);
  besides.select(1, besides.size(1) - 1)
      .copy_((asked(expanded.end()) * reading.directions.squeeze(2)).sum(-1) - known +
             behind_stream(logit, reading, asked));
  numbers = at::cat({numbers, besides}).permute({2, 0, 1, 3});
  auto sources = expanded.sources();
  sources.emplace_back("remainder");
  return Grid(without_padding(numbers, asked.columns),
              {numbered_axis("row", asked.columns.rows()), axis_of("source", std::move(sources)),
               axis_of("path", std::move(paths)), asked.columns.axis},
              {.title = "Logits by path", .unit = reading.unit});
}

Grid path_logits(const HookedTransformer& model, const ActivationCache& cache,
                 const std::vector<HeadPlace>& path, const PathLogitsOptions& options) {
  require_chain(model.config(), path);
  const ExpandedRun expanded(model, cache);
  const RunReading asked = reading_of(model, cache, {expanded.end(), options.positions});
  // Asks for no particular token, but refuses models in which parts do not add up.
  const Answers any = 0;
  const std::optional<Answers> none;
  logit_reading({"path_logits", any, none}, asked);
  auto stream = expanded.empty();
  std::size_t next = 0;  // head of the path
  for (const auto& event : expanded.events()) {
    if (event.attention && next < path.size() && path[next].layer == *event.attention) {
      stream =
          expanded.attention(*event.attention).of(stream, path[next].head, next == 0 ? expanded.bias() : -1);
      ++next;
      continue;
    }
    stream = expanded.after(event, stream, next == 0);
  }
  const AllLogits all(asked);
  auto logits = all.of(at_columns(stream, asked.columns));  // [source, row, pos, vocab]
  auto sources = expanded.sources();
  if (path.empty()) {
    logits[expanded.bias()] += all.of_biases();
    logits = at::cat({logits, besides_all_paths(expanded, asked, all).unsqueeze(0)});
    sources.emplace_back("remainder");
  }
  auto by_row = without_padding(logits.permute({1, 0, 3, 2}), asked.columns).transpose(2, 3);
  return Grid(
      by_row,
      {numbered_axis("row", asked.columns.rows()), axis_of("source", std::move(sources)), asked.columns.axis,
       numbered_axis("vocab", by_row.size(3))},
      {.title = fmt::format("Logits by the path {}", name_of(path)), .unit = unit_of_logits(model.config())});
}

}  // namespace hooked
