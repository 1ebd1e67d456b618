// Several threads of a program on one model, each with one of LibTorch's.
#include <hooked/hooked.h>

#include <iostream>
#include <string>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::vector<std::string> prompts = {"When John and Mary went to the shop,", "Then Mary gave a bag to",
                                            "Once upon a time"};

  std::vector<hooked::ActivationCache> caches(prompts.size());
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    callers.emplace_back(
        [&, i] { caches[i] = model.run(prompts[i], {.capture = "resid_post", .threads = 1}).cache; });
  }
  for (std::thread& caller : callers) caller.join();

  for (std::size_t i = 0; i < prompts.size(); ++i)
    std::cout << prompts[i] << ' ' << caches[i]["resid_post0"].sizes() << '\n';
}
