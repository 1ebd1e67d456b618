#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hooked/core/error.h"
#include "tests/combinations/drawing.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

/// Options of the table for the input rather than the model, and models with two stacks.
const std::set<std::string, std::less<>> kNotDrawn{"padding", "stacks", "decoder input"};

bool valid(const Combination& c) {
  try {
    config_of(c).validate();
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

/// Some options of the table leave their defaults, if a valid model has them together.
void draw_model(Dice& dice, Combination& c) {
  const auto& table = reference::option_table();
  for (std::int64_t change = dice.below(5); change > 0; --change) {
    const std::int64_t option = dice.below(static_cast<std::int64_t>(table.size()));
    const reference::Option& row = table[static_cast<std::size_t>(option)];
    const bool of_input = std::ranges::any_of(
        kNotDrawn, [&](const std::string& name) { return row.name.find(name) != std::string::npos; });
    if (of_input || row.values.size() < 2) continue;
    Combination tried = c;
    tried.options[static_cast<std::size_t>(option)] =
        static_cast<std::size_t>(1 + dice.below(static_cast<std::int64_t>(row.values.size()) - 1));
    if (valid(tried) && !config_of(tried).has_encoder()) c = tried;
  }
  c.processed = dice.percent(30);
  c.seed = static_cast<std::uint64_t>(dice.below(1000));
}

void draw_rows(Dice& dice, Combination& c) {
  const std::int64_t longest = 2 + dice.below(5);
  c.lengths.assign(static_cast<std::size_t>(1 + dice.below(3)), longest);
  if (dice.percent(65)) {
    for (std::int64_t& length : c.lengths) length = 1 + dice.below(longest);
    c.lengths[static_cast<std::size_t>(dice.below(c.rows()))] = longest;
  }
  c.side = dice.percent(50) ? reference::Padding::left : reference::Padding::right;
}

Consumer draw_consumer(Dice& dice) {
  using enum Consumer;
  static const std::vector<Consumer> kDrawn{read,      read,        edit,  file,        sweep,     sweep,
                                            estimates, estimates,   edges, circuits,    gradients, generation,
                                            lens,      attribution, edges, head_scores, sweep};
  return dice.one_of(kDrawn);
}

std::vector<Change> draw_changes(Dice& dice, const Combination& c, std::int64_t most) {
  std::vector<Change> changes;
  for (std::int64_t i = dice.below(most + 1); i > 0; --i) changes.push_back(draw_change(dice, c));
  return changes;
}

bool takes_less(Consumer consumer) {
  using enum Consumer;
  return consumer == read || consumer == edit || consumer == file || consumer == attribution ||
         consumer == lens || consumer == head_scores;
}

/// Points that are not between what parts write and what edges carry.
const std::set<std::string, std::less<>> kNotOnTheWay{
    "attn.hook_q",  "attn.hook_k",   "attn.hook_v",  "attn.hook_z",     "attn.hook_pattern",
    "hook_mlp_out", "mlp.hook_post", "mlp.hook_pre", "attn.hook_rot_q", "attn.hook_rot_k"};

/// Norms of queries and keys; there are several kinds. The scales of another kind have other heads, so that
/// it stays what it is if a place in them was drawn.
void draw_norm_of_heads(Dice& dice, Combination& c) {
  const auto in_a_norm = [](const Where& where) { return where.path.find("_norm.") != std::string::npos; };
  if (std::ranges::any_of(c.reads, in_a_norm) || std::ranges::any_of(c.changes, in_a_norm, &Change::where))
    return;
  const auto& table = reference::option_table();
  for (std::size_t option = 0; option < table.size(); ++option) {
    if (table[option].name != "q/k norm") continue;
    Combination tried = c;
    tried.options[option] =
        static_cast<std::size_t>(1 + dice.below(static_cast<std::int64_t>(table[option].values.size()) - 1));
    if (valid(tried)) c = tried;
  }
}

/// Removes what a consumer has no use for, and adds what it needs.
void fit_to_consumer(Dice& dice, Combination& c) {
  using enum Consumer;
  if (c.consumer == attribution || c.consumer == lens || c.consumer == head_scores) {
    c.less.start.reset();
    c.less.stop.reset();
    c.less.asked = {};
    if (c.less.split == Split::first_columns) c.less = {};
    c.reads.resize(1);
    if (dice.percent(20))
      c.reads.front().pos = {.form = Places::Form::named, .numbers = {dice.below(c.columns())}};
  }
  if (c.consumer == estimates && c.sweep.estimate.query_key && dice.percent(50)) draw_norm_of_heads(dice, c);
  if (c.consumer == gradients) {
    std::vector<ActivationName> points = changed_points(config_of(c));
    std::erase_if(points, [](const ActivationName& name) { return row(name.site).asked_rows; });
    c.reads = {draw_where(dice, c, points)};
    c.less.kept_on_device = dice.percent(30);
  }
  if (c.consumer == edges || c.consumer == circuits) {
    if (c.sweep.source.kind == Source::Kind::resampled) c.sweep.source = {};
    if (c.consumer == circuits && c.sweep.score.kind != Score::Kind::loss && dice.percent(20)) {
      c.sweep.resumed_after = 1 + dice.below(4);
    }
    c.sweep.edges = c.consumer == circuits && dice.percent(50);
    if (c.sweep.edges) c.sweep.source = {};
    c.sweep.estimate = {.over_inputs = true, .steps = c.sweep.estimate.steps};
    std::erase_if(c.changes, [&](const Change& change) {
      return !kNotOnTheWay.contains(change.where.path) && dice.percent(85);
    });
    if (c.changes.empty()) {
      std::vector<ActivationName> points = changed_points(config_of(c));
      std::erase_if(points, [](const ActivationName& name) { return !kNotOnTheWay.contains(path_of(name)); });
      if (!points.empty() && dice.percent(70)) c.changes.push_back(draw_change_of(dice, c, points));
    }
    // A stopped judgement does not refuse what it has not reached.
    if (c.sweep.resumed_after)
      std::erase_if(c.changes, [](const Change& change) { return change.where.from_the_end(); });
  }
}

}  // namespace

Places draw_places(Dice& dice, std::int64_t size, bool last) {
  const auto number = [&] { return dice.below(size) - (dice.percent(25) ? size : 0); };
  switch (dice.below(last ? 4 : 3)) {
    case 0:
      return {.form = Places::Form::one, .numbers = {number()}};
    case 1: {
      std::vector<std::int64_t> all, some;
      for (std::int64_t i = 0; i < size; ++i) all.push_back(i);
      for (std::int64_t i = 1 + dice.below(std::min<std::int64_t>(size, 3)); i > 0; --i) {
        const auto at = all.begin() + dice.below(static_cast<std::int64_t>(all.size()));
        some.push_back(*at - (dice.percent(15) ? size : 0));
        all.erase(at);
      }
      return {.form = Places::Form::list, .numbers = some};
    }
    case 2: {
      const std::int64_t first = dice.below(size), end = first + 1 + dice.below(size - first);
      Places range{.form = Places::Form::range};
      if (!dice.percent(25)) range.begin = first - (dice.percent(20) ? size : 0);
      if (!dice.percent(25)) range.end = end - (end < size && dice.percent(30) ? size : 0);
      return range;
    }
    default:
      return {.form = Places::Form::last};
  }
}

Where draw_where(Dice& dice, const Combination& c, const std::vector<ActivationName>& points) {
  const ModelConfig config = config_of(c);
  // Scores and patterns are rare among the points, and treated differently.
  std::vector<ActivationName> drawn = points;
  if (dice.percent(25)) {
    std::erase_if(drawn, [](const ActivationName& name) { return !dimension_of(name.site, Index::key); });
    if (drawn.empty()) drawn = points;
  }
  const ActivationName name = dice.one_of(drawn);
  Where where{.path = path_of(name), .in_block = row(name.site).scope == SiteScope::block};
  if (where.in_block && dice.percent(65)) {
    where.layer = name.layer - (dice.percent(20) ? config.n_layers : 0);
  }
  const auto index = [&](Index of, Places& places, int chance, bool last) {
    const auto dimension = dimension_of(name.site, of);
    if (!dimension || !dice.percent(chance)) return;
    std::int64_t size = std::numeric_limits<std::int64_t>::max(),
                 most = 0;  // of the smallest layer, the largest
    for (const std::int64_t layer : layers_of(where, config)) {
      const std::int64_t of_layer = size_of(row(name.site).axes[*dimension], config, layer);
      size = std::min(size, of_layer);
      most = std::max(most, of_layer);
    }
    const bool one_size = size == most;
    if (size < 0) size = of == Index::row ? c.rows() : c.columns();
    places = draw_places(dice, size, last);
    // A range that ends elsewhere in every layer may be empty in some.
    if (!one_size && places.form == Places::Form::range && places.from_the_end()) places = {};
  };
  index(Index::row, where.row, 20, false);
  index(Index::pos, where.pos, 60, true);
  index(Index::head, where.head, 35, false);
  index(Index::key, where.key, 25, false);
  return where;
}

Change draw_change(Dice& dice, const Combination& c) {
  return draw_change_of(dice, c, changed_points(config_of(c)));
}

Change draw_change_of(Dice& dice, const Combination& c, const std::vector<ActivationName>& points) {
  Change change{.where = draw_where(dice, c, points)};
  change.number = std::vector<double>{-1.5, -0.5, 0.5, 2.0}[static_cast<std::size_t>(dice.below(4))];
  change.made = static_cast<Made>(dice.below(6));
  if (dice.percent(30)) {
    change.said = dice.percent(50) ? Said::hook : Said::attached_hook;
    change.made = static_cast<Made>(dice.below(4));
    change.where.row = change.where.pos = change.where.head = change.where.key = {};
  }
  // A norm must not divide by zero, and a score of -inf must not become +inf.
  const bool scores = change.where.path == "attn.hook_attn_scores";
  if (change.where.path.ends_with("hook_scale") || scores) change.number = std::abs(change.number);
  if (change.where.path.ends_with("hook_scale") && change.made == Made::zero) change.made = Made::scale;
  if (scores && change.said == Said::edit && dice.percent(40)) {
    change.made = Made::set;
    change.number = -std::numeric_limits<double>::infinity();
  }
  const bool of_keys = dimension_of(name_in(change.where, 0).site, Index::key).has_value();
  const bool of_one_width = (!config_of(c).full_heads && !config_of(c).shared_keys) || change.where.layer;
  const auto heads = dimension_of(name_in(change.where, 0).site, Index::head);
  const bool along_heads =
      heads && *heads + 1 == row(name_in(change.where, 0).site).axes.size() && change.where.head.given();
  if (change.made == Made::project_out &&
      (of_keys || along_heads || change.where.path.ends_with("scale") || !of_one_width)) {
    change.made = Made::scale;
  }
  if (change.made == Made::replace) {
    if (change.where.in_block && !change.where.layer) {
      change.where.layer = layers_of(change.where, config_of(c)).front();
    }
    // For points that cover only the requested logits, an index means columns that a cache has.
    const bool asked_rows = row(name_in(change.where, 0).site).asked_rows;
    if (!asked_rows && dice.percent(50)) change.kept = draw_places(dice, c.columns(), true);
  }
  return change;
}

Less draw_less(Dice& dice, const Combination& c) {
  Less less;
  const ModelConfig config = config_of(c);
  const std::int64_t columns = c.columns();
  const bool causal = config.direction == AttentionDirection::causal;
  if (columns > 1 && (causal || dice.percent(5)) && dice.percent(45)) {
    const std::int64_t kind = dice.below(3);
    less.split = kind == 0 ? Split::prefix : kind == 1 ? Split::joined : Split::first_columns;
    less.at = 1 + dice.below(columns - 1);
    if (less.split == Split::first_columns) {
      for (std::int64_t row = 0; row < c.rows(); ++row) less.first_columns.push_back(dice.below(less.at + 1));
    }
  }
  if (less.split == Split::none && dice.percent(12)) less.start = dice.below(config.n_layers + 1);
  if (less.split != Split::joined && dice.percent(12)) {
    less.stop = std::max(less.start.value_or(0), dice.below(config.n_layers + 1));
  }
  if (dice.percent(35)) less.kept = draw_places(dice, columns, true);
  less.kept_on_device = dice.percent(8);
  if (!less.stop && dice.percent(20)) less.asked = draw_places(dice, columns, false);
  if (less.asked.form == Places::Form::range) less.asked = {};
  return less;
}

Combination draw(std::uint64_t seed) {
  Dice dice(seed);
  Combination c;
  draw_model(dice, c);
  draw_rows(dice, c);
  c.consumer = draw_consumer(dice);
  if (takes_less(c.consumer) && dice.percent(75)) c.less = draw_less(dice, c);
  if (c.less.split == Split::first_columns) std::ranges::fill(c.lengths, c.columns());
  c.changes = draw_changes(dice, c, c.consumer == Consumer::edit ? 3 : 2);
  if (c.consumer == Consumer::edit && c.changes.empty()) c.changes.push_back(draw_change(dice, c));
  if (c.less.split == Split::joined) {
    for (Change& change : c.changes) change.where.pos = change.where.key = {};
    c.less.kept = {};
  }
  c.sweep = draw_sweep(dice, c);
  Combination grown = c;
  if (c.consumer == Consumer::generation) {
    c.generation.tokens = 1 + dice.below(3);
    *std::ranges::max_element(grown.lengths) += c.generation.tokens;
    c.generation.prompt_changes = draw_changes(dice, c, 1);
    c.generation.new_token_changes = draw_changes(dice, c, 1);
    if (dice.percent(40)) c.less.kept = draw_places(dice, c.columns() + c.generation.tokens, false);
    if (c.less.kept.from_the_end()) c.less.kept = {};
    for (auto* changes : {&c.changes, &c.generation.prompt_changes, &c.generation.new_token_changes}) {
      for (Change& change : *changes) {
        if (change.made == Made::replace) change.made = Made::scale;  // a cache has no future columns
        change.kept = {};
        // The end from which a range is counted changes with each step.
        for (Places* places : {&change.where.pos, &change.where.key}) {
          if (places->form == Places::Form::range && places->from_the_end()) *places = {};
        }
      }
    }
    for (auto* changes : {&c.generation.prompt_changes, &c.generation.new_token_changes}) {
      for (Change& change : *changes) {
        change.said = Said::edit;
        if (change.made == Made::set && !std::isfinite(change.number)) change.number = 1.0;
      }
    }
  }
  for (std::int64_t reads = 1 + dice.below(3); reads > 0; --reads) {
    c.reads.push_back(draw_where(dice, grown, read_points(config_of(c))));
  }
  fit_to_consumer(dice, c);
  c.same_clean = dice.percent(c.consumer == Consumer::circuits ? 25 : 8);
  return c;
}

}  // namespace hooked::combinations
