// Readings of caches: attribution of logits, the lens, scores of heads.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "tests/combinations/comparison.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

using reference::PlainRun;

std::vector<Position> positions_of(const Places& places, const std::vector<Row>& rows) {
  if (places.form == Places::Form::named) return {named_place(places.numbers.front(), rows)};
  std::vector<Position> positions;
  if (places.form == Places::Form::last) positions.push_back(Position::last());
  for (const std::int64_t column : places.numbers) positions.emplace_back(column);
  return positions;
}

/// A row's place in the list of positions, -1 for padding; of all columns if none are named.
std::vector<std::int64_t> places_in(const Row& row, const Places& positions, std::int64_t first) {
  Places asked = positions;
  if (asked.form == Places::Form::range) asked = {};
  const bool named = asked.form == Places::Form::named;
  std::vector<std::int64_t> places;
  for (const std::int64_t column :
       resolved(asked, row.width, named ? row.named(asked.numbers.front()) : row.last())) {
    if (asked.given() || column >= first) places.push_back(column < first ? -1 : row.place_of(column));
  }
  return places;
}

std::string last_stream(const ModelConfig& config) {
  return fmt::format("blocks.{}.hook_resid_post", config.n_layers - 1);
}

reference::Change putting(const std::string& name, const Array& value) {
  return [=](const std::string& at, Array& there) {
    if (at == name) there = value;
  };
}

double mean_of_answers(const Array& logits, std::int64_t place, std::vector<std::int64_t> tokens) {
  std::ranges::sort(tokens);
  const auto end = std::ranges::unique(tokens).begin();
  double sum = 0.0;
  for (auto token = tokens.begin(); token != end; ++token) sum += logits.row(place)[*token];
  return sum / static_cast<double>(end - tokens.begin());
}

class Readings {
 public:
  Readings(const Subject& subject, Comparison& comparison, const ActivationCache& cache)
      : subject_(subject),
        config_(subject.config()),
        comparison_(comparison),
        cache_(cache),
        asked_(subject.combination().reads.front().pos),
        answers_(subject.combination().sweep.score.answers),
        first_(subject.combination().less.split == Split::prefix ? subject.combination().less.at : 0) {}

  void attribution() {
    const Grain grain = subject_.combination().seed % 2 == 0 ? Grain::layer : Grain::head;
    const Grid grid = direct_logit_attribution(subject_.model(), cache_,
                                               {.answer = Answers::any_of(answers_),
                                                .grain = grain,
                                                .positions = positions_of(asked_, subject_.rows())});
    const auto& labels = grid.axis("part").labels;
    for (const Row& row : subject_.rows()) {
      const auto places = places_in(row, asked_, first_);
      const auto p = static_cast<std::int64_t>(places.size());
      for (std::int64_t i = 0; i < p; ++i) {
        const std::int64_t place = places[static_cast<std::size_t>(i)];
        const auto number = [&](std::size_t part) {
          return grid.at({row.index, static_cast<std::int64_t>(part), i});
        };
        double sum = 0.0;
        for (std::size_t part = 0; part < labels.size(); ++part) sum += number(part);
        const auto what = [&](const std::string& part) {
          return fmt::format("{} of row {} at place {}", part, row.index, i);
        };
        if (place < 0) {
          comparison_.expect_number(what("padding"), sum, NAN);
          continue;
        }
        const PlainRun& run = subject_.runs()[static_cast<std::size_t>(row.index)];
        const Array& logits = run.activations.at("unembed.hook_out");
        comparison_.expect_number(what("sum of parts"), sum, mean_of_answers(logits, place, answers_));
        if (grain != Grain::layer || config_.changes_stream() || config_.norm_place == NormPlace::post)
          continue;
        for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
          const auto found = std::ranges::find(labels, fmt::format("attn {}", layer));
          if (found == labels.end()) continue;
          comparison_.expect_number(what(*found), number(static_cast<std::size_t>(found - labels.begin())),
                                    written(row, run, fmt::format("blocks.{}.hook_attn_out", layer), place));
        }
      }
    }
  }

  void lens() {
    const LogitLens lens =
        logit_lens(subject_.model(), cache_,
                   {.positions = positions_of(asked_, subject_.rows()), .tokens = {answers_.front()}});
    const GridAxis& points = lens.logits.axis("point");
    for (const Row& row : subject_.rows()) {
      const auto places = places_in(row, asked_, first_);
      const PlainRun& run = subject_.runs()[static_cast<std::size_t>(row.index)];
      for (std::size_t point = 0; point < points.places.size(); ++point) {
        const std::string name = points.places[point]->name().to_string();
        const PlainRun read =
            subject_.oracle().run(row, {putting(last_stream(config_), run.activations.at(name))});
        for (std::size_t i = 0; i < places.size(); ++i) {
          const double got =
              lens.logits.at({row.index, 0, static_cast<std::int64_t>(point), static_cast<std::int64_t>(i)});
          const double expected = places[i] < 0 ? NAN : read.logits.row(places[i])[answers_.front()];
          comparison_.expect_number(fmt::format("{} of row {} at place {}", name, row.index, i), got,
                                    expected);
        }
      }
    }
  }

  void head_scores() {
    const std::vector<std::pair<HeadScore, std::int64_t>> kinds{
        {HeadScore::previous_token, 1}, {HeadScore::current_token, 0}, {HeadScore::first_token, -1}};
    const auto [score, back] = kinds[subject_.combination().seed % 3];
    const Grid grid = hooked::head_scores(cache_, score, {.rows = HeadRows::each});
    for (const Row& row : subject_.rows()) {
      const PlainRun& run = subject_.runs()[static_cast<std::size_t>(row.index)];
      for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
        const auto pattern = run.activations.find(fmt::format("blocks.{}.attn.hook_pattern", layer));
        for (std::int64_t head = 0; head < config_.n_heads; ++head) {
          double sum = 0.0, count = 0.0;
          const auto length = static_cast<std::int64_t>(row.tokens.size());
          for (std::int64_t query = std::max<std::int64_t>(back, 0); query < length; ++query) {
            if (pattern == run.activations.end()) break;
            sum += pattern->second(0, head, query, back < 0 ? 0 : query - back);
            count += 1.0;
          }
          comparison_.expect_number(fmt::format("score of head {}.{} in row {}", layer, head, row.index),
                                    grid.at({row.index, layer, head}), count > 0.0 ? sum / count : NAN);
        }
      }
    }
  }

 private:
  /// The contribution of a vector of the stream to the answer's logit, with the run's final norm scale.
  double written(const Row& row, const PlainRun& run, const std::string& name, std::int64_t place) const {
    const Array& stream = run.activations.at(last_stream(config_));
    Array more = stream;
    for (std::size_t i = 0; i < more.values.size(); ++i) more.values[i] += run.activations.at(name).values[i];
    const auto scale = run.activations.find("ln_final.hook_scale");
    const auto logit = [&](const Array& put) {
      std::vector<reference::Change> changes{putting(last_stream(config_), put)};
      if (scale != run.activations.end()) changes.push_back(putting(scale->first, scale->second));
      const PlainRun read = subject_.oracle().run(row, changes);
      return mean_of_answers(read.activations.at("unembed.hook_out"), place, answers_);
    };
    return logit(more) - logit(stream);
  }

  const Subject& subject_;
  const ModelConfig& config_;
  Comparison& comparison_;
  const ActivationCache& cache_;
  Places asked_;
  std::vector<std::int64_t> answers_;
  std::int64_t first_;  // column that the run computed
};

}  // namespace

void compare_readings(const Subject& subject, Comparison& comparison) {
  const ActivationCache cache = cache_of_run(subject, act::defaults);
  Readings readings(subject, comparison, cache);
  switch (subject.combination().consumer) {
    case Consumer::attribution:
      return readings.attribution();
    case Consumer::lens:
      return readings.lens();
    default:
      return readings.head_scores();
  }
}

}  // namespace hooked::combinations
