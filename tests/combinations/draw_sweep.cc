#include <algorithm>

#include "tests/combinations/drawing.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

Source draw_source(Dice& dice, const Combination& c) {
  Source source{.kind = static_cast<Source::Kind>(dice.below(6))};
  if (source.kind == Source::Kind::value) source.number = dice.percent(50) ? -0.7 : 1.3;
  if (source.kind >= Source::Kind::mean_rows) {
    for (std::int64_t rows = 2 + dice.below(2); rows > 0; --rows) {
      source.data_lengths.push_back(source.kind == Source::Kind::resampled ? c.columns()
                                                                           : 1 + dice.below(c.columns()));
    }
    source.data_lengths[static_cast<std::size_t>(dice.below(2))] = c.columns();
  }
  if (dice.percent(15)) source.share_of_zero = 0.25;
  return source;
}

}  // namespace

Score draw_score(Dice& dice, const Combination& c) {
  const ModelConfig config = config_of(c);
  const std::int64_t vocab = std::max<std::int64_t>(config.d_vocab_out(), 2);
  Score score{.kind = static_cast<Score::Kind>(dice.below(8))};
  const auto tokens = [&] {
    std::vector<std::int64_t> set{dice.below(vocab)};
    while (dice.percent(35)) set.push_back(dice.percent(40) ? set.front() : dice.below(vocab));
    return set;
  };
  score.answers = tokens();
  score.against = tokens();
  score.by_row = dice.percent(30);
  if (dice.percent(20)) {
    score.column = dice.below(c.columns()) - (dice.percent(30) ? c.columns() : 0);
  } else if (dice.percent(20)) {
    score.named = dice.below(c.columns());
  }
  return score;
}

Sweep draw_sweep(Dice& dice, const Combination& c) {
  const ModelConfig config = config_of(c);
  Sweep sweep;
  std::vector<ActivationName> points = changed_points(config);
  std::erase_if(points, [](const ActivationName& name) { return row(name.site).scope != SiteScope::block; });
  if (dice.percent(30)) {
    std::vector<ActivationName> of_keys = points;
    std::erase_if(of_keys, [](const ActivationName& name) { return !dimension_of(name.site, Index::key); });
    if (!of_keys.empty()) points = of_keys;
  }
  const ActivationName name = dice.one_of(points);
  sweep.path = path_of(name);
  const auto add = [&](const std::string& axis, std::int64_t size, int chance_of_some) {
    SweptPlaces places{.axis = axis};
    if (dice.percent(chance_of_some)) {
      const Places some = draw_places(dice, size, false);
      if (some.form != Places::Form::range) places.into = some.numbers;
      if (axis == "pos" && dice.percent(25)) {
        for (std::size_t i = 0; i < places.into.size(); ++i) places.from.push_back(dice.below(size));
      }
    }
    if (axis == "pos" && places.into.empty()) {
      if (dice.percent(25)) {
        places.last = true;
      } else if (dice.percent(20)) {
        places.named = dice.below(size);
        if (dice.percent(40)) places.named_from = dice.below(size);
      }
    }
    sweep.over.push_back(places);
  };
  add("layer", config.n_layers, 30);
  if (dice.percent(60)) add("pos", c.columns(), 35);
  if (const auto head = dimension_of(name.site, Index::head); head && dice.percent(50)) {
    add("head", size_of(row(name.site).axes[*head], config, name.layer), 30);
  }
  if (dimension_of(name.site, Index::key) && dice.percent(25)) add("key", c.columns(), 30);
  if (dice.percent(25)) std::swap(sweep.over.front(), sweep.over.back());
  sweep.source = draw_source(dice, c);
  if (sweep.path.ends_with("hook_scale") && sweep.source.kind == Source::Kind::zero) {
    sweep.source = {.kind = Source::Kind::value, .number = 1.3};  // zero is not divided by zero
  }
  sweep.score = draw_score(dice, c);
  if (dice.percent(30)) sweep.tokens_per_run = c.columns() * (1 + dice.below(3));
  if (c.consumer == Consumer::sweep && dice.percent(15)) {
    sweep.resumed_after = 1;
    sweep.other_source = dice.percent(50);
  }
  switch (dice.below(5)) {
    case 0:
      sweep.estimate.drop_layers = true;
      break;
    case 1:
      if (c.consumer != Consumer::estimates || !config.attends(0)) break;
      sweep.estimate.query_key = true;
      sweep.path = dice.percent(50) ? "attn.hook_q" : "attn.hook_k";
      std::erase_if(sweep.over,
                    [](const SweptPlaces& places) { return places.axis == "key" || places.axis == "head"; });
      if (dice.percent(70)) sweep.over.push_back({.axis = "head"});
      break;
    case 2:
      sweep.estimate.steps = 2 + dice.below(2);
      sweep.estimate.over_inputs = dice.percent(60);
      break;
    default:
      break;
  }
  return sweep;
}

}  // namespace hooked::combinations
