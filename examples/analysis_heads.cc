// What heads attend to, how well the model repeats, and prompts that ask for an indirect object:
// docs/analysis/heads.md.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

#include "examples/indirect_object/indirect_object.h"

namespace act = hooked::act;
using hooked::HeadScore;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";

  // Random tokens, repeated once, show induction heads: [layer, head].
  auto repeated = hooked::repeated_tokens_of(model);
  repeated.seed = 3;
  const auto tokens = hooked::repeated_random_tokens(repeated);
  const auto cache = model.run_with_cache(tokens, act::pattern).cache;
  const auto induction = hooked::head_scores(cache, HeadScore::induction, {.tokens = tokens});
  const auto best = induction.largest(1).front();
  std::cout << induction << "head " << best.labels[0] << '.' << best.labels[1] << " looks there\n";
  induction.save(folder / "induction.svg");

  // Where it looks otherwise: without the first token, where heads rest, and how far away.
  std::cout << hooked::head_scores(cache, HeadScore::previous_token, {.exclude_bos = true})
            << hooked::head_scores(cache, HeadScore::distance, {.exclude_bos = true});

  // A pattern of your own: the last two tokens, and TransformerLens's measure.
  const auto size = tokens.size(1);
  const auto two_back = at::ones({size, size}).tril(-1).triu(-2);  // [query, key]
  std::cout << hooked::head_scores(cache, two_back, {.measure = hooked::HeadMeasure::mul});

  // What those heads are good for: loss and accuracy of the first half and of the second.
  const auto said_twice = hooked::repetition_scores(model, repeated);
  std::cout << said_twice.loss.mean("row") << said_twice.accuracy.mean("row");

  // Prompts that ask who gets something, with names that this model's tokenizer has as one token.
  const auto pairs = ioi::indirect_object_pairs(model, {.count = 16, .seed = 1});
  std::cout << std::get<std::string>(pairs.pairs().front().clean) << " ...\n";
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  std::cout << hooked::scores(model, pairs.clean(), metric).mean("row");
  const auto run = model.run_with_cache(pairs.clean(), act::pattern);
  const auto& clean = pairs.clean().tokens;
  const auto again = hooked::head_scores(run.cache, HeadScore::duplicate_token, {.tokens = clean});
  hooked::write_prompt_pairs(folder / "indirect_object.jsonl", pairs.pairs());
  std::cout << again;
}
