// How a model builds its induction head: the parts of the stream that make up its queries and its keys.
#include <hooked/hooked.h>

#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");

  // The head that looks most at what followed the token's earlier occurrence.
  auto repeated = hooked::repeated_tokens_of(model);
  repeated.rows = 1;
  const auto tokens = hooked::repeated_random_tokens(repeated);
  const auto cache = model.run_with_cache(tokens).cache;
  const auto best =
      hooked::head_scores(cache, hooked::HeadScore::induction, {.tokens = tokens}).largest(1).front();
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
  for (const auto input : {hooked::HeadInput::key, hooked::HeadInput::query}) {
    const auto composed = hooked::composition_scores(model, input);
    const auto into = composed.scores.slice("to_layer", best.index[0]).slice("to_head", best.index[1]);
    const auto writer = into.largest(1).front();
    std::cout << composed.scores.title() << ": head " << writer.labels[0] << '.' << writer.labels[1] << ", "
              << (writer.value - composed.random_mean) / composed.random_deviation
              << " deviations above random\n";
  }
}
