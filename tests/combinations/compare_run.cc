// A run's result and the contents of its cache: consumers read, edit and file.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/combinations/comparison.h"
#include "tests/combinations/points.h"
#include "tests/support/temp_folder.h"

namespace hooked::combinations {
namespace {

/// What the engine computed of a combination.
struct EngineRun {
  RunResult result;
  ActivationCache cache;
  std::int64_t first = 0;  ///< the first column that was run
};

Selection captured(const Subject& subject) {
  Selection all;
  for (const Where& read : subject.combination().reads) all = all | target_of(read).where;
  return all;
}

RunOptions options_of(const Subject& subject, const Selection& capture) {
  const Combination& c = subject.combination();
  RunOptions options{
      .hooks = subject.hooks(c.changes, Said::hook), .edits = subject.edits(c.changes), .capture = capture};
  if (c.less.kept.given()) options.keep.positions = index_of(c.less.kept);
  if (c.less.kept_on_device) options.keep.device = "cpu";
  if (!subject.config().has_unembedding() || c.less.stop) options.output = Output::residual;
  if (c.less.asked.given()) options.logit_positions = c.less.asked.numbers;
  options.stop_at_layer = c.less.stop;
  return options;
}

/// The input of the last run, with what it continues from.
Input last_input(const Subject& subject) {
  const Combination& c = subject.combination();
  const std::vector<Row>& rows = subject.rows();
  const std::int64_t width = c.columns();
  if (c.less.start) {
    const Input whole = subject.whole(rows);
    const at::Tensor residual =
        subject.model().run(whole, {.output = Output::residual, .stop_at_layer = c.less.start}).residual();
    Input input = Input::start_at_layer(*c.less.start, residual, {.attention_mask = whole.attention_mask});
    if (subject.config().layer_input) input.start->tokens = whole.tokens;
    return input;
  }
  if (c.less.split != Split::first_columns) return subject.whole(rows);
  const std::int64_t first = std::ranges::min(c.less.first_columns);
  const Batch rest = subject.batch(rows, first, width);
  // The prefix is the beginning of the row that leaves it last; all rows share its tokens.
  const auto longest = std::ranges::max_element(c.less.first_columns) - c.less.first_columns.begin();
  const Batch head = subject.batch({rows[static_cast<std::size_t>(longest)]}, 0, c.less.at);
  const auto prefix = subject.model().run(head.tokens, {.output = Output::none, .keep_prefix = true}).prefix;
  return {rest.tokens, {.prefix = prefix, .first_columns = c.less.first_columns}};
}

EngineRun run_engine(const Subject& subject, const Selection& capture) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  if (c.less.split == Split::prefix || c.less.split == Split::joined) {
    const Batch head = subject.batch(subject.rows(), 0, c.less.at),
                rest = subject.batch(subject.rows(), c.less.at, c.columns());
    const bool joined = c.less.split == Split::joined;
    RunOptions first = joined ? options_of(subject, capture) : RunOptions{};
    first.output = Output::none;
    first.logit_positions = std::nullopt;
    first.keep_prefix = true;
    const auto& model = joined ? handle.model : subject.model();
    RunResult head_run = model.run({head.tokens, {.attention_mask = head.mask}}, first);
    RunResult run = handle.model.run({rest.tokens, {.attention_mask = rest.mask, .prefix = head_run.prefix}},
                                     options_of(subject, capture));
    ActivationCache cache = joined ? ActivationCache::join({head_run.cache, run.cache}) : run.cache;
    return {std::move(run), std::move(cache), c.less.at};
  }
  RunResult run = handle.model.run(last_input(subject), options_of(subject, capture));
  const bool shared = c.less.split == Split::first_columns;
  ActivationCache cache = run.cache;
  return {std::move(run), std::move(cache), shared ? std::ranges::min(c.less.first_columns) : 0};
}

/// The stream before a block, or after the last one.
const Array& stream_before(const reference::PlainRun& run, const ModelConfig& config, std::int64_t layer) {
  const auto at = [&](const std::string& name) { return run.activations.find(name); };
  if (layer < config.n_layers) return at(fmt::format("blocks.{}.hook_resid_pre", layer))->second;
  const auto normed = at(fmt::format("blocks.{}.hook_normalized_resid_post", layer - 1));
  if (normed != run.activations.end()) return normed->second;
  return at(fmt::format("blocks.{}.hook_resid_post", layer - 1))->second;
}

void expect_output(const Subject& subject, const EngineRun& engine, Comparison& comparison) {
  const Combination& c = subject.combination();
  std::vector<Array> expected;
  for (const reference::PlainRun& run : subject.runs()) {
    if (c.less.stop || (run.logits.values.empty() && run.residual.values.empty())) {
      expected.push_back(
          stream_before(run, subject.config(), c.less.stop.value_or(subject.config().n_layers)));
    } else {
      expected.push_back(run.logits.values.empty() ? run.residual : run.logits);
    }
  }
  std::vector<std::int64_t> columns;
  for (std::int64_t column = engine.first; column < c.columns(); ++column) columns.push_back(column);
  if (engine.result.output() == Output::logits && c.less.asked.given()) {
    columns = resolved(c.less.asked, c.columns());
  }
  Array numbers = by_columns(subject.rows(), expected, columns);
  // Nothing is computed for a row before its own first column.
  for_each(numbers, [&](const std::vector<std::int64_t>& index, double& element) {
    const Row& row = subject.rows()[static_cast<std::size_t>(index[0])];
    if (columns[static_cast<std::size_t>(index[1])] < row.first_changed) element = std::nan("");
  });
  const bool logits = engine.result.output() == Output::logits;
  comparison.expect(logits ? "logits" : "residual",
                    logits ? engine.result.logits() : engine.result.residual(), numbers);
}

}  // namespace

Held held_columns(const Combination& c, const std::vector<Row>& rows) {
  const std::int64_t first = c.less.split == Split::prefix          ? c.less.at
                             : c.less.split == Split::first_columns ? std::ranges::min(c.less.first_columns)
                                                                    : 0;
  Held held = all_columns(rows, first);
  if (!c.less.kept.given()) return held;
  for (const Row& row : rows) {
    auto& columns = held[static_cast<std::size_t>(row.index)];
    columns = resolved(c.less.kept, row.width, row.last());
    if (c.less.kept.form == Places::Form::range && !c.less.kept.begin) {
      std::erase_if(columns, [first](std::int64_t column) { return column < first; });
    }
  }
  return held;
}

ActivationCache cache_of_run(const Subject& subject, const Selection& capture) {
  return run_engine(subject, capture).cache;
}

void compare_run(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  EngineRun engine = run_engine(subject, captured(subject));
  expect_output(subject, engine, comparison);
  if (c.consumer == Consumer::file) {
    const TempFolder folder;
    const auto file = folder.path() / "run.safetensors";
    engine.cache.save(file);
    engine.cache = ActivationCache::load(file);
  }
  const Held held = held_columns(c, subject.rows());
  for (const Where& read : c.reads) {
    for (const std::int64_t layer : layers_of(read, subject.config())) {
      const ActivationName name = name_in(read, layer);
      if (!reached(subject.rows().front(), name) || (c.less.asked.given() && row(name.site).asked_rows))
        continue;
      const at::Tensor got = engine.cache[address_of(read, layer)];
      Where one = read;
      one.layer = layer;
      comparison.expect(one.to_string(), got, block_of(read, name, subject.rows(), subject.runs(), held));
    }
  }
}

}  // namespace hooked::combinations
