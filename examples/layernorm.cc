#include <hooked/hooked.h>

#include <iostream>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to");
  const hooked::AttributionOptions options{.answer = model.to_token(" Mary"),
                                           .against = model.to_token(" John")};

  // The logit difference as lengths and a cosine: logit = probe length * normed length * cosine + bias.
  std::cout << hooked::normed_logit(model, run.cache, options).terms.slice("row", 0);

  // How much of the stream's length, and of that cosine, each part is.
  const auto shares = hooked::norm_shares(model, run.cache, options);
  std::cout << shares.length.slice("row", 0) << shares.cosine.slice("row", 0);

  // What the logit difference would be without a part, and what attribution with a held scale says.
  const auto effects = hooked::leave_one_out(model, run.cache, options);
  for (const auto& cell : effects.exact.largest(3, hooked::LargestBy::size))
    std::cout << "without " << cell.labels[1] << ": " << cell.value << ", with the scale held "
              << effects.frozen.at(cell.index) << '\n';

  // What an MLP would read without its norm.
  std::cout << hooked::unnormed_reading(model, run.cache).slice("row", 0).slice("pos", 0);
}
