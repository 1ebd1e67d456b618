// How a model builds its induction head: the parts of the stream that make up its queries and its keys.
#include <hooked/hooked.h>

#include <iostream>
#include <vector>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");

  // The head that looks most at what followed the token's earlier occurrence.
  auto repeated = hooked::repeated_tokens_of(model);
  repeated.rows = 1;
  const auto tokens = hooked::repeated_random_tokens(repeated);
  const auto cache = model.run_with_cache(tokens).cache;
  const auto looks = hooked::head_scores(cache, hooked::HeadScore::induction, {.tokens = tokens});
  const auto best = looks.largest(1).front();
  const auto layer = static_cast<std::int32_t>(best.index[0]);
  std::cout << "head " << best.labels[0] << '.' << best.labels[1] << " gives it " << best.value << '\n';

  // Its last query, and the key that follows the token's first occurrence: by how much each pair of
  // parts raises the score above that of the keys in the mean.
  const auto followed = tokens.size(1) - repeated.half;
  const auto scores = hooked::score_attribution(
      model, cache,
      {.scores = act::attn_scores(layer).head(best.index[1]), .grain = hooked::Grain::head, .queries = {-1}});
  const auto of_query = scores.slice("row", 0).slice("query", 0);  // [query_part, key_part, key]
  const auto above = of_query.slice("key", followed) - of_query.mean("key");
  for (const auto& cell : above.largest(3))
    std::cout << cell.labels[0] << " looks for " << cell.labels[1] << ": " << cell.value << '\n';

  // Which heads it reads with its keys, and with its queries, compared with random weights.
  std::vector<std::vector<std::int64_t>> read;  // by layer and head
  for (const auto input : {hooked::HeadInput::key, hooked::HeadInput::query}) {
    const auto composed = hooked::composition_scores(model, input);
    const auto into = composed.scores.slice("to_layer", best.index[0]).slice("to_head", best.index[1]);
    const auto writer = into.largest(1).front();
    std::cout << composed.scores.title() << ": head " << writer.labels[0] << '.' << writer.labels[1] << ", "
              << (writer.value - composed.random_mean) / composed.random_deviation
              << " deviations above random\n";
    read.push_back(writer.index);
  }

  // Patching: heads read a row whose first half is other words, so that nothing is repeated. The head by
  // itself, all heads that look there, and the one that it reads with its keys.
  auto other_words = repeated;
  other_words.seed = repeated.seed + 1;
  const auto other = hooked::repeated_random_tokens(other_words);
  const auto unrepeated = at::cat({other.slice(1, 0, followed), tokens.slice(1, followed)}, 1);
  const auto head_at = [](const std::vector<std::int64_t>& index) {
    return act::z(static_cast<std::int32_t>(index[0])).head(index[1]);
  };
  std::vector<hooked::Address> all;
  for (const auto& cell : looks.largest(8)) {
    if (cell.value > 0.5) all.push_back(head_at(cell.index));
  }
  const auto metric = hooked::log_probability(tokens[0][followed].item<std::int64_t>());
  const auto without = hooked::ablate(
      model,
      {.sets = {{}, {head_at(best.index)}, all, {head_at(read.front())}},
       .sweep = {.from = model.run_with_cache(unrepeated, act::z).cache, .into = tokens, .metric = metric}});
  std::cout << "log-probability of what followed: " << without.at({0}) << ", without head " << best.labels[0]
            << '.' << best.labels[1] << ' ' << without.at({1}) << ", without " << all.size() << " such heads "
            << without.at({2}) << ", without what its keys read " << without.at({3}) << '\n';
}
