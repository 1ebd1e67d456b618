// Two routes to an induction head, in two models that differ in their positions: learned ones are added to
// the stream, shortformer's only to what queries and keys read. Everything that is printed is found in the
// models.
//
//   induction_positions [FOLDER]
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <hooked/hooked.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "examples/induction_heads";
  for (const std::string positions : {"learned", "shortformer"}) {
    const auto model = hooked::HookedTransformer::load(
        folder + "/" + positions, {.dtype = at::kFloat, .processing = hooked::WeightProcessing()});
    const auto words = model.config().d_vocab - 1;  // one more token begins each row
    hooked::RepeatedTokensOptions repeated{
        .rows = 64, .half = 20, .vocab_end = words, .bos = words, .seed = 1};

    // 1. Both repeat.
    const auto right = hooked::repetition_scores(model, repeated).accuracy.mean("row");
    std::cout << fmt::format("{} positions: {:.1f} % of the repeated words right, {:.1f} % of the others\n",
                             positions, 100 * right.at({1}), 100 * right.at({0}));

    // 2. What the second layer reads: the words of the rows are random, so that what the stream has at a
    // place in all of them is about the place.
    const auto tokens = hooked::repeated_random_tokens(repeated);
    const auto cache = model.run_with_cache(tokens).cache;
    const auto stream = cache[act::resid_pre(1)].slice(1, 1).to(at::kDouble);  // [row, pos, d_model]
    const auto of_places = stream.mean(0).var(0, /*unbiased=*/false).sum();
    const auto of_all = stream.flatten(0, 1).var(0, /*unbiased=*/false).sum();
    std::cout << fmt::format("  places explain {:.1f} % of the variance of the stream before layer 1\n",
                             100 * (of_places / of_all).item<double>());

    // 3. Where the heads of the second layer look.
    const auto looks = hooked::head_scores(cache, hooked::HeadScore::induction, {.tokens = tokens});
    for (const auto& cell : looks.slice("layer", 1).largest(model.config().n_heads))
      std::cout << fmt::format("  head 1.{} gives {:.2f} of its attention to what followed\n", cell.labels[0],
                               cell.value);

    // 4. Path patching: the first layer writes what it writes if nothing is repeated, and only the queries,
    // only the keys, or only the values of the second layer see it.
    auto other_words = repeated;
    other_words.seed = 2;
    const auto first = 1 + repeated.half;
    const auto into = tokens.slice(1, 0, -1);
    const auto unrepeated =
        at::cat({hooked::repeated_random_tokens(other_words).slice(1, 0, first), into.slice(1, first)}, 1);
    const auto last = tokens.select(1, -1).contiguous();
    const auto answers = hooked::Answers::by_row(
        {last.const_data_ptr<std::int64_t>(), last.const_data_ptr<std::int64_t>() + last.numel()});
    const hooked::SweepOptions sweep{.from = model.run_with_cache(unrepeated).cache,
                                     .into = into,
                                     .metric = hooked::log_probability(answers)};
    std::cout << fmt::format("  log-probability of what followed: {:.3f}",
                             hooked::scores(model, into, sweep.metric).mean("row").at({}));
    for (const auto& [name, site] :
         {std::pair{"queries", act::q}, std::pair{"keys", act::k}, std::pair{"values", act::v}}) {
      std::vector<hooked::Address> receivers;
      for (std::int64_t head = 0; head < model.config().n_heads; ++head)
        receivers.push_back(site(1).head(head));
      const auto without =
          hooked::path_patching(model, {.senders = {act::z(0)}, .receivers = receivers, .sweep = sweep});
      std::cout << fmt::format(", without the first layer in {} {:.3f}", name, without.mean("row").at({}));
    }
    std::cout << '\n';
  }
}
