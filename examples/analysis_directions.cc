// Directions: a probe at every layer, its interval, steering along it, and its file.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";

  // Can the name that is there twice be read from the stream of the last token?
  const auto john = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto mary = model.to_tokens("When Mary and John went to the shop, Mary gave a bag to");
  const auto rows = at::cat({john, mary}).repeat({20, 1});
  const auto labels = at::arange(rows.size(0), at::kLong) % 2;

  hooked::ProbeOptions options;
  options.at.of = act::resid_pre | act::resid_post;
  options.method = hooked::ProbeMethod::ridge;
  options.classes = {"John", "Mary"};
  const auto report = hooked::fit_probes(model, rows, labels, options);
  std::cout << report.accuracy;  // [point, pos]: the share of held-out rows, with Wilson's interval

  const auto& probe = report.probes.back();
  const auto before = probe.measure().score(model, john);
  const auto after = probe.measure().score(model, john, {.edits = probe.steer(model, 2)});
  std::cout << "steering by 2 moves the measure by " << (after - before).item<double>() << '\n';

  probe.save(folder / "names.safetensors");
  const auto again = hooked::Probe::load(folder / "names.safetensors");
  std::cout << again.facts.method << " at " << again.place.to_string() << ", " << again.position << '\n';
}
