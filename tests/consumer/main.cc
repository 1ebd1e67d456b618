// A newcomer's first program, against an installed hooked: argument 1 is a model folder.
#include <hooked/hooked.h>

#include <cstdlib>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  std::cout << "hooked " << hooked::version() << ", LibTorch " << hooked::libtorch_version() << '\n';
  if (argc < 2) return EXIT_SUCCESS;
  const auto model = hooked::HookedTransformer::load(argv[1]);
  const auto tokens = model.to_tokens("Mary gave a drink to");
  const auto run = model.run_with_cache(tokens);
  const auto pattern = run.cache[act::pattern(0)];  // [batch, head, query, key]
  std::cout << "pattern of layer 0: " << pattern.sizes() << '\n';
  return pattern.dim() == 4 && run.logits().size(2) == model.config().d_vocab_out() ? EXIT_SUCCESS
                                                                                    : EXIT_FAILURE;
}
