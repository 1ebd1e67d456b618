#include "harvest/unit_runs.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/ahead.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

/// Tokens, documents, offsets, positions and contexts of a row.
constexpr std::uint64_t kTokenColumnsBytes = 4 + 8 + 8 + 4 + 4;

bool counts_keys(Axis axis) { return axis == Axis::key || axis == Axis::source_key; }

// Why an activation has no row for each token of a context; empty if it has.
std::string obstacle(const ActivationName& name, const ContextRules& rules, const ModelConfig& config) {
  const SiteRow& site = row(name.site);
  if (per_expert(site)) return "it has a row for each token that was sent to its expert";
  if (site.axes.size() < 2 || site.axes[0] != Axis::batch) return "it is not computed for each token";
  const Axis sequence = site.axes[static_cast<std::size_t>(sequence_dimension(name.site))];
  if (sequence == Axis::batch || size_of(sequence, config, name.layer) >= 0)
    return "it is not computed for each token";
  if (config.encoder && config.encoder->decoder_start_token && !counts_source(name, sequence))
    return "it is computed of the decoder's tokens, and a corpus is read by the encoder";
  for (const Axis axis : site.axes) {
    if (counts_keys(axis) && !rules.packed)
      return "its keys are as many as the context has tokens, and these differ; packed contexts are all "
             "alike";
  }
  return {};
}

at::Tensor int32_rows(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).to(at::kInt);
}

}  // namespace

std::vector<std::string> HarvestedName::axes() const {
  std::vector<std::string> axes = {"row"};
  const SiteRow& site = row(name.site);
  for (std::size_t i = 1; i < site.axes.size(); ++i) {
    if (static_cast<std::int64_t>(i) != sequence_dimension(name.site))
      axes.emplace_back(axis_name(site.axes[i]));
  }
  return axes;
}

std::uint64_t HarvestedName::row_bytes() const {
  std::uint64_t bytes = c10::elementSize(dtype);
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

UnitRuns::UnitRuns(const HookedTransformer& model, const Corpus& corpus, const HarvestOptions& options)
    : model_(model),
      hooks_(model.hooks()),
      corpus_(corpus),
      options_(options),
      rules_(ContextRules::of(model, corpus, options.contexts)),
      row_rules_(model, options.rows, options.contexts.length) {
  if (options.names.empty())
    throw HookError("names", "no activation is asked for; expected names such as 'resid_post'");
  if (options.batch_tokens < 1)
    throw ConfigError("batch_tokens", fmt::format("{} tokens; expected 1 or more", options.batch_tokens));
  const PointIndex& points = model_.points();
  for (const std::size_t point : options.names.resolve(points, Reach::everything(points))) {
    const ActivationName name = points.name(point);
    const std::string problem = obstacle(name, rules_, model_.config());
    if (!problem.empty())
      throw HookError(name.to_string(),
                      fmt::format("{}; expected an activation with a row for each token", problem));
    names_.push_back({name, {}, at::kFloat});
  }
  if (names_.empty()) throw HookError("names", "no activation of this model is selected");
  measure();
}

std::uint64_t UnitRuns::row_bytes() const {
  std::uint64_t bytes = kTokenColumnsBytes;
  for (const auto& name : names_) bytes += name.row_bytes();
  return bytes;
}

MemoryUse UnitRuns::memory() const {
  return {.where = "harvest",
          .cure = "let a run read fewer tokens (batch_tokens), or keep fewer activations",
          .devices = {model_.device()}};
}

PreparedUnit UnitRuns::prepare(const CorpusUnit& unit) const {
  PreparedUnit prepared{.contexts = contexts_of(corpus_.read(unit), rules_), .kept = {}};
  prepared.kept = row_rules_.kept(prepared.contexts);
  return prepared;
}

std::size_t UnitRuns::run_end(const PreparedUnit& unit, std::size_t first) const {
  std::size_t end = first + 1;
  std::size_t longest = unit.contexts.length(first);
  while (end < unit.contexts.ends.size()) {
    longest = std::max(longest, unit.contexts.length(end));
    if ((end + 1 - first) * longest > static_cast<std::size_t>(options_.batch_tokens)) break;
    ++end;
  }
  return end;
}

ActivationRows UnitRuns::run(const PreparedUnit& unit, std::size_t first, std::size_t end) const {
  const Contexts& contexts = unit.contexts;
  std::size_t width = 0;
  for (std::size_t i = first; i < end; ++i) width = std::max(width, contexts.length(i));
  const auto begin = static_cast<std::int64_t>(contexts.begin(first));
  const auto kept_begin = std::ranges::lower_bound(unit.kept, begin);
  const auto kept_end =
      std::lower_bound(kept_begin, unit.kept.end(), static_cast<std::int64_t>(contexts.ends[end - 1]));
  if (kept_begin == kept_end) return {};

  const auto batch = static_cast<std::int64_t>(end - first);
  const auto columns = static_cast<std::int64_t>(width);
  const at::Tensor tokens = at::zeros({batch, columns}, at::kLong);
  const at::Tensor mask = at::zeros({batch, columns}, at::kLong);
  auto* ids = tokens.mutable_data_ptr<std::int64_t>();
  auto* real = mask.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = first; i < end; ++i) {
    const auto at = static_cast<std::ptrdiff_t>((i - first) * width);
    std::copy(contexts.tokens.begin() + static_cast<std::ptrdiff_t>(contexts.begin(i)),
              contexts.tokens.begin() + static_cast<std::ptrdiff_t>(contexts.ends[i]), ids + at);
    std::fill_n(real + at, contexts.length(i), 1);
  }

  std::vector<std::int64_t> places, kept_tokens, documents, offsets, positions, numbers;
  std::size_t context = first;
  for (auto it = kept_begin; it != kept_end; ++it) {
    const auto index = static_cast<std::size_t>(*it);
    while (index >= contexts.ends[context]) ++context;
    const std::size_t position = index - contexts.begin(context);
    places.push_back(static_cast<std::int64_t>((context - first) * width + position));
    kept_tokens.push_back(contexts.tokens[index]);
    documents.push_back(contexts.documents[index]);
    offsets.push_back(contexts.offsets[index]);
    positions.push_back(static_cast<std::int64_t>(position));
    numbers.push_back(static_cast<std::int64_t>(context));
  }

  const c10::Device device = model_.device();
  InputDetails details{.attention_mask = mask.to(device)};
  Input input(tokens.to(device), std::move(details));
  const RunResult result =
      model_.run(input.with_decoder_start(model_.config()), {.hooks = hooks_,
                                                             .edits = options_.edits,
                                                             .capture = options_.names,
                                                             .keep = {.device = "cpu"},
                                                             .output = Output::none,
                                                             .threads = options_.threads});
  ActivationRows rows;
  const at::Tensor where = at::tensor(places, at::kLong);
  const bool all = places.size() == (end - first) * width;
  for (const HarvestedName& name : names_)
    rows.activations[name.name.to_string()] = rows_of(name, result.cache[name.name], where, all);
  rows.tokens = int32_rows(kept_tokens);
  rows.documents = at::tensor(documents, at::kLong);
  rows.offsets = at::tensor(offsets, at::kLong);
  rows.positions = int32_rows(positions);
  rows.contexts = int32_rows(numbers);
  return rows;
}

at::Tensor UnitRuns::rows_of(const HarvestedName& name, const at::Tensor& value, const at::Tensor& places,
                             bool all) const {
  const at::Tensor rows = value.movedim(sequence_dimension(name.name.site), 1).flatten(0, 1);
  return (all ? rows : rows.index_select(0, places)).to(name.dtype);
}

void UnitRuns::call_between_layers(const std::function<void()>& function) {
  if (!model_.device().is_cpu()) return;  // runs with functions are not replayed there
  const auto precedes = [names = names_](const ActivationName& point) {
    return point.site == Site::resid_pre && std::ranges::any_of(names, [&](const HarvestedName& name) {
             return name.name.scope() == SiteScope::exit ||
                    (name.name.stack == point.stack && point.layer <= name.name.layer);
           });
  };
  hooks_.push_back(Hook(Selection::matching(precedes), [function](const at::Tensor&) { function(); }));
}

// The shape and dtype of a row, which a small run tells: a dictionary's codes, for example, are as many as
// its features.
void UnitRuns::measure() {
  const std::int64_t length = rules_.packed ? rules_.length : 1;
  const at::Tensor tokens = at::zeros({1, length}, at::TensorOptions(at::kLong).device(model_.device()));
  const RunResult result = model_.run(
      Input(tokens).with_decoder_start(model_.config()),
      {.edits = {}, .capture = options_.names, .output = Output::none, .threads = options_.threads});
  for (HarvestedName& name : names_) {
    const at::Tensor& value = result.cache[name.name];
    name.shape = value.movedim(sequence_dimension(name.name.site), 1).sizes().slice(2).vec();
    name.dtype =
        value.is_floating_point() ? options_.dtype.value_or(value.scalar_type()) : value.scalar_type();
  }
}

UnitQueue::UnitQueue(const UnitRuns& runs, std::vector<CorpusUnit> units)
    : runs_(runs), units_(std::move(units)) {
  begin();
}

void UnitQueue::begin() {
  if (begun_ == units_.size()) return;
  ahead_ = std::async(kAhead, [&runs = runs_, unit = units_[begun_]] { return runs.prepare(unit); });
  ++begun_;
}

std::optional<PreparedUnit> UnitQueue::next() {
  if (!ahead_.valid()) return std::nullopt;
  PreparedUnit unit = ahead_.get();
  begin();
  return unit;
}

HarvestClock::HarvestClock(std::vector<CorpusUnit> todo, std::int64_t units_before)
    : todo_(std::move(todo)), units_before_(units_before), began_(std::chrono::steady_clock::now()) {
  for (const CorpusUnit& unit : todo_) total_ += static_cast<double>(unit.end - unit.begin);
}

void HarvestClock::end_unit() {
  done_ += static_cast<double>(todo_[units_].end - todo_[units_].begin);
  within_ = 0;
  ++units_;
}

double HarvestClock::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

HarvestProgress HarvestClock::progress() const {
  const double now = within_ > 0 ? within_ * static_cast<double>(todo_[units_].end - todo_[units_].begin) : 0;
  const double share = total_ > 0 ? (done_ + now) / total_ : 1;
  HarvestProgress progress{.units_done = units_before_ + static_cast<std::int64_t>(units_),
                           .units_total = units_before_ + static_cast<std::int64_t>(todo_.size()),
                           .tokens = tokens_,
                           .seconds = seconds(),
                           .share_done = share};
  if (share > 0) progress.seconds_left = progress.seconds * (1 - share) / share;
  return progress;
}

std::optional<ActivationRows> UnitSteps::next() {
  const Contexts& contexts = unit_.contexts;
  while (next_context_ < contexts.ends.size()) {
    const std::size_t first = next_context_;
    next_context_ = runs_.run_end(unit_, first);
    ActivationRows rows = runs_.run(unit_, first, next_context_);
    clock_.within_unit(static_cast<double>(next_context_) / static_cast<double>(contexts.ends.size()));
    if (rows.rows() == 0) continue;
    clock_.add_tokens(static_cast<std::int64_t>(contexts.ends[next_context_ - 1] - contexts.begin(first)));
    return rows;
  }
  clock_.end_unit();
  return std::nullopt;
}

}  // namespace hooked
