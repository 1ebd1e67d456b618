// Steering: the difference of two means of the stream, added to each new token of a generation.
#include <hooked/hooked.h>

#include <iostream>
#include <string>
#include <vector>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");

  // The mean of the stream after layer 0 at each text's last token; texts may have different lengths.
  const auto mean_of = [&](const std::vector<std::string>& texts) {
    const auto run = model.run_with_cache(model.to_token_batch(texts), "resid_post0");
    return run.cache["resid_post0[pos=last]"].mean(0);  // [d_model]
  };
  const auto direction = mean_of({"Then John and Mary met at the shop and Mary gave a bag to",
                                  "When John and Mary went to the shop, Mary gave a bag to"}) -
                         mean_of({"Then John and Mary met at the shop and John gave a bag to",
                                  "When John and Mary went to the shop, John gave a bag to"});

  const auto prompt = "When John and Mary went to the shop, John gave a bag to";
  for (const double strength : {0.0, 4.0}) {
    const auto made =
        model.generate(prompt, {.max_new_tokens = 8,
                                .sampling = {.greedy = true},
                                .edits = {hooked::add("resid_post0[pos=-1]", direction * strength)}});
    std::cout << strength << ": " << made.texts.front() << '\n';
  }

  // The stream without this direction at every position; and the direction added from the first new token on,
  // so that the prompt still decides what that token is.
  const auto without = model.generate(prompt, {.max_new_tokens = 8,
                                               .sampling = {.greedy = true},
                                               .edits = hooked::project_out("resid_post0", direction)});
  const auto later = model.generate(prompt, {.max_new_tokens = 8,
                                             .sampling = {.greedy = true},
                                             .new_token_edits = hooked::add("resid_post0", direction * 4.0)});
  std::cout << "without: " << without.texts.front() << "\nlater: " << later.texts.front() << '\n';
}
