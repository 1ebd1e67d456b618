#include "tests/combinations/refusals.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/combinations/comparison.h"
#include "tests/combinations/conditions.h"
#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {
namespace {

/// Whether a Where names a point of the columns whose logits are asked for.
bool of_asked_rows(const Where& where) { return row(site_of(where)).asked_rows; }

bool names_positions(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& change) { return change.where.pos.given(); });
}

/// The columns that these places count from the end.
std::vector<std::int64_t> from_the_end(const Places& places, std::int64_t size) {
  std::vector<std::int64_t> columns;
  for (const std::int64_t number : places.numbers) {
    if (number < 0) columns.push_back(number + size);
  }
  if (places.form != Places::Form::range) return columns;
  if (places.begin.value_or(0) < 0) {  // all of the range
    const std::int64_t end = places.end.value_or(size);
    for (std::int64_t column = *places.begin + size; column < (end < 0 ? end + size : end); ++column)
      columns.push_back(column);
  } else if (places.end.value_or(0) < 0) {
    columns.push_back(*places.end - 1 + size);
  }
  return columns;
}

bool ends_in_padding(C c, const Places& places, const Places& rows = {}) {
  return std::ranges::any_of(from_the_end(places, c.columns()),
                             [&](std::int64_t column) { return padding_at(c, column, rows); });
}

/// The run that a replacement's values come from is one of whole rows.
bool source_ends_in_padding(C c, const Change& change) {
  Combination whole = c;
  whole.less = {};
  return ends_in_padding(whole, change.kept);
}

bool position_from_the_end_is_padding(C c, M) {
  if (c.consumer == Consumer::generation) return false;  // each step says where it ends
  if (ends_in_padding(c, c.less.kept) && runs(c)) return true;
  if (ends_in_padding(c, c.less.asked) && runs(c)) return true;
  if (std::ranges::any_of(c.reads,
                          [&](const Where& read) {
                            if (c.less.asked.given() && of_asked_rows(read)) return false;  // is not read
                            return ends_in_padding(c, read.pos, read.row) ||
                                   ends_in_padding(c, read.key, read.row);
                          }) &&
      reads_addresses(c)) {
    return true;
  }
  return std::ranges::any_of(c.changes, [&](const Change& change) {
    return ends_in_padding(c, change.where.pos, change.where.row) ||
           ends_in_padding(c, change.where.key, change.where.row) || source_ends_in_padding(c, change);
  });
}

bool reads_a_column_that_is_not_held(C c, M config) {
  if (!reads_addresses(c)) return false;
  std::vector<Row> rows = make_rows(config, c, 0);
  const Held held = held_columns(c, rows);
  return std::ranges::any_of(c.reads, [&](const Where& read) {
    if (c.less.asked.given() && of_asked_rows(read)) return false;  // is not read
    const auto not_held = [&](std::int64_t r) {
      const Row& row = rows.at(static_cast<std::size_t>(r));
      const auto& columns = held.at(static_cast<std::size_t>(r));
      return std::ranges::any_of(resolved(read.pos, c.columns(), row.last()), [&](std::int64_t column) {
        return std::ranges::find(columns, column) == columns.end();
      });
    };
    return read.pos.given() && std::ranges::any_of(resolved(read.row, c.rows()), not_held);
  });
}

bool replaces_by_a_column_that_is_not_held(C c, M) {
  return std::ranges::any_of(c.changes, [&](const Change& change) {
    return change.made == Made::replace && (change.kept.given() || c.less.split != Split::none);
  });
}

/// The first column that a run computes.
std::int64_t first_column(C c) {
  if (c.less.split == Split::prefix) return c.less.at;
  return c.less.split == Split::first_columns ? std::ranges::min(c.less.first_columns) : 0;
}

/// Whether a row has no token in one of the parts.
bool stretch_without_tokens(C c, M) {
  if (!runs(c) || (c.less.split != Split::prefix && c.less.split != Split::joined)) return false;
  return std::ranges::any_of(c.lengths, [&](std::int64_t length) {
    return c.side == reference::Padding::right ? length <= c.less.at : c.columns() - length >= c.less.at;
  });
}

/// Whether a Where names one point that the run does not reach.
bool names_what_is_not_reached(C c, M config, const Where& where) {
  const Row row = make_rows(config, c, 0).front();
  const auto layers = layers_of(where, config);
  const bool one = !where.in_block || where.layer;
  return one ? std::ranges::none_of(layers, [&](std::int64_t l) { return reached(row, name_in(where, l)); })
             : false;
}

bool asks_for_what_is_not_reached(C c, M config) {
  if (!runs(c)) return false;
  const auto not_reached = [&](const Where& where) { return names_what_is_not_reached(c, config, where); };
  return (reads_addresses(c) && std::ranges::any_of(c.reads, not_reached)) ||
         std::ranges::any_of(c.changes, [&](const Change& change) { return not_reached(change.where); });
}

bool reaches_nothing_by_a_glob(C c, M config) {
  if (!runs(c)) return false;
  const Row row = make_rows(config, c, 0).front();
  const auto nothing = [&](const Where& where) {
    return std::ranges::none_of(layers_of(where, config),
                                [&](std::int64_t l) { return reached(row, name_in(where, l)); });
  };
  return (reads_addresses(c) && std::ranges::any_of(c.reads, nothing)) ||
         std::ranges::any_of(c.changes, [&](const Change& change) { return nothing(change.where); });
}

bool asks_for_logits_before_the_run(C c, M) {
  const auto asked = resolved(c.less.asked, c.columns());
  return runs(c) && c.less.asked.given() && std::ranges::any_of(asked, [&](std::int64_t column) {
           return column < (c.less.split == Split::joined ? c.less.at : first_column(c));
         });
}

bool asks_for_logits_of_some_rows(C c, M) {
  const auto asked = resolved(c.less.asked, c.columns());
  return c.less.split == Split::first_columns && c.less.asked.given() &&
         std::ranges::any_of(
             asked, [&](std::int64_t column) { return column < std::ranges::max(c.less.first_columns); });
}

bool keeps_columns_before_the_run(C c, M) {
  const auto kept = resolved(c.less.kept, c.columns(), c.columns());
  return runs(c) && c.less.kept.given() &&
         std::ranges::any_of(kept, [&](std::int64_t column) { return column < first_column(c); });
}

bool changes_columns_before_the_run(C c, M) {
  return runs(c) && any_change(c, [&](const Change& change) {
           const auto columns = resolved(change.where.pos, c.columns(), c.columns());
           return change.where.pos.given() &&
                  std::ranges::any_of(columns, [&](std::int64_t column) { return column < first_column(c); });
         });
}

bool scores_padding(C c, M config) {
  if (!scores_runs(c) || c.sweep.score.kind == Score::Kind::loss) return false;
  const auto rows = make_rows(config, c, 0);
  return std::ranges::any_of(rows, [&](const Row& row) { return score_column(c.sweep.score, row) < 0; });
}

bool sweeps_padding(C c, M) {
  const Source::Kind kind = c.sweep.source.kind;
  const bool of_a_run = kind == Source::Kind::run;  // rows that are drawn have no padding
  return sweeps(c) && std::ranges::any_of(c.sweep.over, [&](const SweptPlaces& places) {
           const auto padding = [&](std::int64_t place) {
             return padding_at(c, place < 0 ? place + c.columns() : place);
           };
           return (places.axis == "pos" || places.axis == "key") &&
                  (std::ranges::any_of(places.into, padding) ||
                   (of_a_run && std::ranges::any_of(places.from, padding)));
         });
}

bool makes_infinite(const Change& change) {
  return !std::isfinite(change.number) ||
         (change.where.path.ends_with("hook_scale") && change.made != Made::scale);
}

}  // namespace

std::vector<Refusal> refusals_of_runs() {
  return {
      {"keys of different queries have no mean", "a mean of scores or patterns over positions",
       [](C c, M) {
         return sweeps(c) && c.sweep.source.kind == Source::Kind::mean_positions &&
                dimension_of(site_of({.path = c.sweep.path}), Index::key);
       },
       true},
      {"is not among those that this run computes here",
       "an edit where the logits that are asked for are not",
       [](C c, M) {
         return any_change(c, [](const Change& change) { return of_asked_rows(change.where); });
       }},
      {"is not among those that this run computes here", "kept last columns whose logits are not asked for",
       [](C c, M) {
         return c.less.kept.form == Places::Form::last && std::ranges::any_of(c.reads, of_asked_rows);
       }},
      {"are not finite numbers", "a generation by numbers that are not finite",
       [](C c, M) { return c.consumer == Consumer::generation && any_change(c, makes_infinite); }},
      {"not held", "a column that the cache does not hold", reads_a_column_that_is_not_held, true},
      {"not held", "a replacement by a column that its cache does not hold",
       replaces_by_a_column_that_is_not_held},
      {"holds some of them", "a replacement of all columns by a cache of some",
       replaces_by_a_column_that_is_not_held},
      {"does not reach this activation", "a point that the run does not reach", asks_for_what_is_not_reached,
       true},
      {"does not reach", "points that the run does not reach", reaches_nothing_by_a_glob},
      {"a row is all padding", "a stretch in which a row has no token", stretch_without_tokens, true},
      {"is out of range", "logits of columns before the run's", asks_for_logits_before_the_run, true},
      {"is padding in row", "a score where a row has padding", scores_padding, true},
      {"is padding in row", "a swept position that is padding in a row", sweeps_padding, true},
      {"does not fit `into`", "rows that are drawn for rows with other padding",
       [](C c, M) { return sweeps(c) && c.padded() && c.sweep.source.kind == Source::Kind::resampled; }},
      {"expected one for each of the run's", "a named place in drawn rows of another number",
       [](C c, M) {
         return sweeps(c) && c.sweep.source.kind == Source::Kind::resampled &&
                std::ssize(c.sweep.source.data_lengths) != c.rows() &&
                std::ranges::any_of(c.sweep.over,
                                    [](const SweptPlaces& places) { return places.named.has_value(); });
       }},
      {"this replaces all columns", "a replacement of all columns by a cache of a whole run",
       replaces_by_a_column_that_is_not_held},
      {"rows begin at columns of their own",
       "scores and patterns of rows that leave a prefix at their own columns",
       [](C c, M) {
         const auto of_keys = [](const Where& where) {
           return dimension_of(site_of(where), Index::key).has_value();
         };
         return c.less.split == Split::first_columns &&
                ((reads_addresses(c) && std::ranges::any_of(c.reads, of_keys)) ||
                 any_change(c, [&](const Change& change) { return of_keys(change.where); }));
       },
       true},
      {"not held", "a column that a generation did not keep",
       [](C c, M) { return c.consumer == Consumer::generation && c.less.kept.given(); }},
      {"is the partial file of another sweep", "a partial file of another source",
       [](C c, M) { return sweeps(c) && c.sweep.resumed_after && c.sweep.other_source; }, true},
      {"`new_token_edits`", "an edit of new tokens at a column of the prompt",
       [](C c, M) { return names_positions(c.generation.new_token_changes); }},
      {"`prompt_edits`", "an edit of the prompt at a later column",
       [](C c, M) { return names_positions(c.generation.prompt_changes); }},
      {"the model has no unembedding", "a metric of logits that a model has not",
       [](C c, M config) { return scores_runs(c) && !config.has_unembedding(); }, true},
      {"recurrent layers know one state", "rows that leave the prefix of a delta net at their own columns",
       [](C c, M config) { return c.less.split == Split::first_columns && config.delta_net; }, true},
      {"does not continue text", "a generation by a bidirectional model",
       [](C c, M config) {
         return c.consumer == Consumer::generation && config.direction == AttentionDirection::bidirectional;
       },
       true},
      {"is to be kept and is not among those", "kept columns before the run's", keeps_columns_before_the_run,
       true},
      {"is not among those that this run computes", "changed columns before the run's",
       changes_columns_before_the_run, true},
      {"does not fit the addressed block", "a replacement where the logits that are asked for are not",
       [](C c, M) {
         return any_change(c, [](const Change& change) {
           return change.made == Made::replace && of_asked_rows(change.where);
         });
       }},
      {"a run from layer", "a start after the layers that make shared keys",
       [](C c, M config) { return c.less.start.value_or(0) > 0 && config.shared_keys; }},
      {"has no unembedding", "logit_positions of a model without logits",
       [](C c, M config) { return runs(c) && c.less.asked.given() && !config.has_unembedding(); }, true},
      {"none of the layers in `over`", "a sweep of layers without the point",
       [](C c, M config) {
         return sweeps(c) && std::ssize(layers_of({.path = c.sweep.path}, config)) < config.n_layers;
       }},
      {"the model predicts another vocabulary", "a generation by a model that predicts other tokens",
       [](C c, M config) {
         return c.consumer == Consumer::generation && config.d_vocab_out() != config.d_vocab;
       }},
      {"does not fit the addressed block", "a replacement of all columns in stretches",
       [](C c, M) {
         return c.less.split == Split::joined &&
                any_change(c, [](const Change& change) { return change.made == Made::replace; });
       }},
      {"[prefix] beyond", "a prefix whose keys turn with the length of the whole",
       [](C c, M config) {
         const RotaryPositions* rotary = config.rotary();
         return c.less.split != Split::none && rotary != nullptr &&
                (std::holds_alternative<LongropeScaling>(rotary->scaling) ||
                 std::holds_alternative<DynamicScaling>(rotary->scaling));
       }},
      {"with a bidirectional model", "a prefix of a bidirectional model",
       [](C c, M config) {
         return c.less.split != Split::none && config.direction == AttentionDirection::bidirectional;
       },
       true},
      {"positions that every row has", "logits of columns that a row does not run",
       asks_for_logits_of_some_rows},
      {"this replaces all columns", "a replacement where the logits that are asked for are not",
       [](C c, M) {
         return any_change(c, [](const Change& change) { return of_asked_rows(change.where); });
       }},
      {"is not among the tokens that the model predicts", "a loss of tokens that the model does not predict",
       [](C c, M config) {
         return scores_runs(c) && c.sweep.score.kind == Score::Kind::loss &&
                config.d_vocab_out() < config.d_vocab;
       }},
      {"is padding in row", "a column from the end of a generation that is padding in a row",
       [](C c, M) {
         return c.consumer == Consumer::generation && c.padded() &&
                (std::ranges::any_of(c.reads, &Where::from_the_end) ||
                 any_change(c, [](const Change& change) { return change.where.from_the_end(); }));
       }},
      {"ask for it in logit_positions", "kept positions where the logits that are asked for are not",
       [](C c, M) { return c.less.kept.given() && std::ranges::any_of(c.reads, of_asked_rows); }},
      {"is padding in row", "a position from the end that is padding in a row",
       position_from_the_end_is_padding, true},
  };
}

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> rows = [] {
    std::vector<Refusal> all = refusals_of_runs();
    for (Refusal& row : refusals_of_analyses()) all.push_back(row);
    return all;
  }();
  return rows;
}

}  // namespace hooked::combinations
