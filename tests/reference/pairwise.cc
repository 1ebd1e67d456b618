#include "pairwise.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "hooked/core/error.h"

namespace hooked::reference {
namespace {

/// A value as (option, value) in one number.
struct Value {
  std::size_t option;
  std::size_t value;
  auto operator<=>(const Value&) const = default;
};
using Pair = std::pair<Value, Value>;

std::optional<std::string> refusal(const Choice& choice) {
  try {
    make_case(choice).config.validate();
    return std::nullopt;
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::vector<Value> values_of(const Choice& choice) {
  const Case made = make_case(choice);
  std::vector<Value> held;
  for (std::size_t o = 0; o < option_table().size(); ++o) {
    const auto& values = option_table()[o].values;
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (values[v].holds(made)) held.push_back({o, v});
    }
  }
  return held;
}

class Search {
 public:
  PairwiseCover run() {
    for (const Pair& pair : all_pairs()) uncovered_.insert(pair);
    PairwiseCover cover;
    while (!uncovered_.empty()) {
      const Pair target = *uncovered_.begin();
      const std::optional<Choice> start = start_from(target);
      if (!start) {
        cover.refused.push_back({text(target.first), text(target.second), why_refused(target)});
        uncovered_.erase(target);
        continue;
      }
      const Choice choice = complete(*start, target);
      for (const Pair& pair : pairs_of(choice)) uncovered_.erase(pair);
      cover.cases.push_back(make_case(choice));
    }
    return cover;
  }

 private:
  static constexpr int kRandomStarts = 400;

  static std::vector<Pair> all_pairs() {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < option_table().size(); ++a) {
      for (std::size_t b = a + 1; b < option_table().size(); ++b) {
        for (std::size_t i = 0; i < option_table()[a].values.size(); ++i) {
          for (std::size_t j = 0; j < option_table()[b].values.size(); ++j) pairs.push_back({{a, i}, {b, j}});
        }
      }
    }
    return pairs;
  }

  static std::vector<Pair> pairs_of(const Choice& choice) {
    const std::vector<Value> held = values_of(choice);
    std::vector<Pair> pairs;
    for (const Value& a : held) {
      for (const Value& b : held) {
        if (a.option < b.option) pairs.push_back({a, b});
      }
    }
    return pairs;
  }

  static std::string text(const Value& value) {
    const Option& option = option_table()[value.option];
    return option.name + ": " + option.values[value.value].name;
  }

  static bool has(const Choice& choice, const Pair& pair) {
    const Case made = make_case(choice);
    const auto holds = [&](const Value& v) { return option_table()[v.option].values[v.value].holds(made); };
    return holds(pair.first) && holds(pair.second);
  }

  static Choice with(Choice choice, const Pair& pair) {
    choice[pair.first.option] = pair.first.value;
    choice[pair.second.option] = pair.second.value;
    return choice;
  }

  static std::string why_refused(const Pair& pair) {
    return refusal(with(Choice(option_table().size(), 0), pair)).value_or("one of them excludes the other");
  }

  /// A valid choice that has the pair: the defaults elsewhere, or else whatever works.
  std::optional<Choice> start_from(const Pair& pair) {
    Choice choice = with(Choice(option_table().size(), 0), pair);
    for (int attempt = 0; attempt < kRandomStarts; ++attempt) {
      if (has(choice, pair) && !refusal(choice)) return choice;
      // Only a few options leave their default at a time: far from the defaults little is valid.
      choice = with(Choice(option_table().size(), 0), pair);
      for (int change = 0; change <= attempt % 4; ++change) {
        const std::size_t option = generator_() % choice.size();
        if (option == pair.first.option || option == pair.second.option) continue;
        choice[option] = generator_() % option_table()[option].values.size();
      }
    }
    return std::nullopt;
  }

  std::size_t gain(const Choice& choice) const {
    std::size_t count = 0;
    for (const Pair& pair : pairs_of(choice)) count += uncovered_.count(pair);
    return count;
  }

  Choice complete(Choice choice, const Pair& target) {
    std::vector<std::size_t> order(choice.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // std::shuffle differs between standard libraries; the covering set must not.
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator_() % i]);
    for (const std::size_t option : order) {
      if (option == target.first.option || option == target.second.option) continue;
      Choice best = choice;
      std::size_t best_gain = gain(choice);
      for (std::size_t value = 0; value < option_table()[option].values.size(); ++value) {
        Choice candidate = choice;
        candidate[option] = value;
        const std::size_t candidate_gain = gain(candidate);
        if (candidate_gain <= best_gain || !has(candidate, target) || refusal(candidate)) continue;
        best = candidate;
        best_gain = candidate_gain;
      }
      choice = best;
    }
    return choice;
  }

  std::set<Pair> uncovered_;
  std::mt19937_64 generator_{20240917};
};

}  // namespace

const PairwiseCover& pairwise_cover() {
  static const PairwiseCover cover = Search().run();
  return cover;
}

}  // namespace hooked::reference
