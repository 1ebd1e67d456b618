// Which heads carry the indirect object? Activation patching over a file of prompt pairs, read from top to
// bottom: how much of the answer comes back with one head's output from the clean run, where it counts, and
// through which heads it goes.

//     activation_patching [MODEL] [PAIRS] [--device cpu|cuda]
#include <hooked/hooked.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace act = hooked::act;
using hooked::Axis;

namespace {

constexpr auto kShare = "share of the answer that comes back";

// Prints the places that bring back most, such as `attn_head_out_all_pos  layer 1, head 3  0.81`.
void print_largest(const std::string& what, const hooked::Grid& shares) {
  for (const auto& cell : shares.largest(3)) {
    std::cout << what << "  ";
    for (std::size_t i = 0; i < cell.labels.size(); ++i)
      std::cout << (i > 0 ? ", " : "") << shares.axes()[i].name << ' ' << cell.labels[i];
    std::cout << "  " << cell.value << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device = "cpu";
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else {
      files.push_back(word);
    }
  }
  const auto model =
      hooked::HookedTransformer::load(!files.empty() ? files[0] : "examples/toy_model", {.device = device});
  const auto pairs = hooked::PromptPairs::load(model, files.size() > 1 ? files[1] : "examples/pairs.jsonl");

  // The clean prompts ask for " Mary", the corrupted ones, where another person gives, for " John".
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  const auto right = hooked::scores(model, pairs.clean(), metric);      // [row]
  const auto wrong = hooked::scores(model, pairs.corrupted(), metric);  // [row]
  std::cout << pairs.size() << " pairs: logit difference " << right.mean("row").at({}) << " clean, "
            << wrong.mean("row").at({}) << " corrupted\n";

  // Everything below patches the clean runs' values into the corrupted ones.
  hooked::SweepOptions options{.from = model.run_with_cache(pairs.clean(), act::z | act::resid_pre).cache,
                               .into = pairs.corrupted(),
                               .metric = metric};
  const auto share = [&](const hooked::Grid& grid) {
    return grid.rescaled(wrong, right, kShare).mean("row");  // each pair on its own scale
  };

  // 1. Each head at all positions at once: [layer, head].
  const auto heads = share(hooked::sweep(model, hooked::patching_preset("attn_head_out_all_pos"), options));
  std::cout << heads;
  print_largest("heads", heads);

  // 2. Where the answer is in the stream: prompts differ in length, so places are named.
  const auto place = [&](const char* name) {
    return hooked::SweptPlace(pairs.corrupted_place(name), pairs.clean_place(name));
  };
  options.over = {hooked::SweptAxis(
      Axis::pos, {place("first"), place("second"), place("giver"), hooked::Position::last()})};
  const auto stream = share(hooked::sweep(model, hooked::patching_preset("resid_pre"), options));
  std::cout << stream;

  // 3. Which later heads listen to the strongest one, and with what: queries, keys or values.
  options.over = {};
  const auto best = heads.largest(1).front();
  const hooked::HeadPlace source{best.index[0], best.index[1]};
  for (const auto& [input, name] : {std::pair{hooked::HeadInput::query, "queries"},
                                    {hooked::HeadInput::key, "keys"},
                                    {hooked::HeadInput::value, "values"}}) {
    const auto paths =
        share(hooked::direct_path(model, {.input = input, .source = source, .sweep = options}));
    print_largest(std::string("from it into ") + name, paths);  // [layer, head]
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "activation_patching: " << error.what() << '\n';
  return 1;
}
