// A tour of the engine on the shipped toy model: predict, look inside, intervene, explain.
//
//   demo [MODEL FOLDER] [OUTPUT FOLDER]     without an output folder its pictures go to a new temporary one

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/repetition.h"
#include "hooked/analysis/sweep.h"
#include "hooked/hooked.h"

namespace act = hooked::act;

namespace {

constexpr std::string_view kClean = "When John and Mary went to the shop, John gave a bag to";
constexpr std::string_view kCorrupted = "When John and Mary went to the shop, Mary gave a bag to";

struct Head {
  std::int32_t layer;
  std::int64_t head;
  std::string name() const { return fmt::format("{}.{}", layer, head); }
};

void chapter(int number, std::string_view title) { std::cout << fmt::format("\n{}. {}\n\n", number, title); }

void say(std::string_view text) { std::cout << text << '\n'; }

std::string bar(double share) {
  std::string blocks;
  for (int i = 0; i < static_cast<int>(share * 30 + 0.5); ++i) blocks += "█";
  return blocks;
}

/// Probability of one token after the last position, 0 to 1; `logits` [1, pos, vocab].
double probability(const at::Tensor& logits, std::int64_t token) {
  return at::softmax(logits[0][-1], -1)[token].item<double>();
}

void print_top(const hooked::HookedTransformer& model, const at::Tensor& logits) {
  const auto [values, ids] = at::topk(at::softmax(logits[0][-1], -1), 5);
  const auto pieces = model.to_str_tokens(ids);
  for (std::int64_t i = 0; i < 5; ++i) {
    const double share = values[i].item<double>();
    std::cout << fmt::format("   {:<10} {:6.2f} %  {}\n", pieces[static_cast<std::size_t>(i)], 100 * share,
                             bar(share));
  }
}

/// An attention pattern [query, key] in shades, one row per attending word from `first_query` on.
void print_map(const at::Tensor& pattern, const std::vector<std::string>& words, std::int64_t first_query) {
  static constexpr std::array<std::string_view, 5> kShades = {"· ", "░░", "▒▒", "▓▓", "██"};
  std::cout << fmt::format("   {:>12}   ", "attends to:");
  for (std::size_t key = 0; key < words.size(); ++key) std::cout << fmt::format("{:<3}", key);
  std::cout << '\n';
  for (auto query = first_query; query < pattern.size(0); ++query) {
    std::cout << fmt::format("   {:>9} {:>2}   ", words[static_cast<std::size_t>(query)], query);
    for (std::int64_t key = 0; key <= query; ++key) {
      const auto shade = static_cast<std::size_t>(pattern[query][key].item<double>() * 4.999);
      std::cout << kShades[std::min<std::size_t>(shade, 4)] << ' ';
    }
    std::cout << '\n';
  }
}

void predict(const hooked::HookedTransformer& model, const hooked::RunResult& clean) {
  chapter(1, "What comes next?");
  say(fmt::format("   \"{} ...\"\n", kClean));
  print_top(model, clean.logits());
  say("\n   The model names the person who does not have the bag. How does it know? The run kept everything "
      "it computed:");
  say(fmt::format("   {} activations, each under its name, for example", clean.cache.size()));
  const std::array<std::pair<const char*, std::string_view>, 3> examples = {{
      {"blocks.0.hook_resid_pre", "the stream of vectors that enters the first block"},
      {"blocks.1.attn.hook_pattern", "how much each head attends from each word to each earlier one"},
      {"blocks.1.attn.hook_z", "what each head read there"},
  }};
  for (const auto& [name, what] : examples) {
    std::string shape;
    for (const auto size : clean.cache[name].sizes())
      shape += fmt::format("{}{}", shape.empty() ? "" : " x ", size);
    say(fmt::format("      {:<28} {:<16} {}", name, shape, what));
  }
  say("\n   Reading the stream after each block as if it were the last (the logit lens) shows where the "
      "answer appears:");
  for (const auto& row : hooked::logit_lens(model, clean.cache).top) std::cout << "      " << row << '\n';
}

Head find_induction_head(const hooked::HookedTransformer& model) {
  chapter(2, "Find the induction heads");
  say("   An induction head looks for an earlier occurrence of the present word and attends to what followed "
      "it: that is");
  say("   how a model repeats. Random words, repeated once, make such heads visible. Their attention to that "
      "place:\n");
  const auto tokens = hooked::repeated_random_tokens(
      {.rows = 20, .half = 20, .vocab_begin = 1, .vocab_end = model.config().d_vocab, .bos = 0, .seed = 3});
  const auto run = model.run_with_cache(tokens, act::pattern);
  const auto scores = hooked::head_scores(run.cache, hooked::HeadScore::induction, {.tokens = tokens});
  std::cout << scores;
  const auto best = scores.largest(1).at(0);
  const Head head{static_cast<std::int32_t>(best.index[0]), best.index[1]};
  const auto repeated = run.logits().argmax(-1).narrow(1, 21, 19).eq(tokens.narrow(1, 22, 19));
  say(
      fmt::format("\n   Head {} (layer {}, head {}) puts {:.0f} % of its attention there. In the second half "
                  "the model predicts\n"
                  "   {:.1f} % of the words right.",
                  head.name(), head.layer, head.head, 100 * best.value,
                  100 * repeated.to(at::kDouble).mean().item<double>()));
  return head;
}

void show_attention(const hooked::HookedTransformer& model, const Head& head) {
  chapter(3, fmt::format("Look at head {}", head.name()));
  const auto tokens = hooked::repeated_random_tokens(
      {.rows = 1, .half = 6, .vocab_begin = 1, .vocab_end = model.config().d_vocab, .bos = 0, .seed = 8});
  const auto run = model.run_with_cache(tokens, act::pattern(head.layer));
  const auto words = model.to_str_tokens(tokens);
  print_map(run.cache[act::pattern(head.layer).row(0).head(head.head)], words, 7);
  say("\n   · below 20 %   ░░ 20 to 40 %   ▒▒ 40 to 60 %   ▓▓ 60 to 80 %   ██ above 80 % of the row's "
      "attention");
  say(
      fmt::format("   Each row is a word of the second half: \"{}\" at 7 occurred at 1, and the head looks "
                  "at 2, the word that came next.",
                  words[7]));
}

/// The head whose output an address is; nothing for other activations.
std::optional<Head> head_at(const std::optional<hooked::Address>& place) {
  const auto* head = place ? place->indices().find(hooked::Axis::head) : nullptr;
  if (head == nullptr) return std::nullopt;
  return Head{place->name().layer, std::get<std::int64_t>(head->value)};
}

/// The head that writes most of the answer's lead straight into the logits.
Head find_naming_head(const hooked::HookedTransformer& model, const hooked::RunResult& clean) {
  chapter(4, "Who writes the answer?");
  say("   The logits are a sum of what the parts wrote. The largest parts of logit(Mary) - logit(John):\n");
  const auto parts = hooked::direct_logit_attribution(model, clean.cache,
                                                      {.answer = model.to_token(" Mary"),
                                                       .against = model.to_token(" John"),
                                                       .grain = hooked::Grain::head})
                         .slice("row", 0)
                         .slice("pos", "last");
  for (const auto& cell : parts.largest(6, hooked::LargestBy::size))
    std::cout << fmt::format("   {:<16} {:+7.2f} logits\n", cell.labels[0], cell.value);
  const double in_run =
      (clean.logits()[0][-1][model.to_token(" Mary")] - clean.logits()[0][-1][model.to_token(" John")])
          .item<double>();
  say(fmt::format("\n   All {} parts add up to {:.4f}; the run said {:.4f}.", parts.values().numel(),
                  parts.values().sum().item<double>(), in_run));
  for (const auto& cell : parts.largest(static_cast<std::size_t>(parts.values().numel()))) {
    if (const auto head = head_at(cell.place)) return *head;
  }
  throw std::logic_error("no part is a head");
}

void ablate(const hooked::HookedTransformer& model, const hooked::RunResult& clean, const Head& head) {
  chapter(5, fmt::format("Switch head {} off", head.name()));
  const auto tokens = model.to_tokens(kClean);
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto metric = hooked::logit_difference(mary, john);
  const auto without = model.run(tokens, {.edits = {hooked::zero(act::z(head.layer).head(head.head))}});
  const auto report = [&](const char* what, const at::Tensor& logits) {
    std::cout << fmt::format("   {:<18} Mary {:6.2f} %   John {:6.2f} %   logit difference {:+6.2f}\n", what,
                             100 * probability(logits, mary), 100 * probability(logits, john),
                             metric(logits.slice(1, -1))[0].item<double>());
  };
  report("as it is", clean.logits());
  report(fmt::format("without head {}", head.name()).c_str(), without.logits());
  say("\n   The edit is data: hooked::zero(act::z(layer).head(h)). It held for that one run; the model never "
      "changes.");
}

/// A patching grid on the scale where 0 is the corrupted run's score and 1 the clean one's.
hooked::Grid share_restored(const hooked::HookedTransformer& model, const hooked::RunResult& clean,
                            const std::pair<act::BlockSite, std::vector<hooked::SweptAxis>>& what) {
  const auto corrupted = model.to_tokens(kCorrupted);
  const auto metric = hooked::logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  return hooked::sweep(model, {.site = what.first,
                               .over = what.second,
                               .from = clean.cache,
                               .into = corrupted,
                               .metric = metric})
      .rescaled(hooked::scores(model, corrupted, metric), hooked::scores(model, kClean, metric),
                "share of the clean answer restored");
}

/// A grid [layer, place] with one line per place and a bar per layer; ten blocks are a whole answer.
void print_bars(const hooked::Grid& grid, std::string_view when) {
  const auto& layers = grid.axes()[0].labels;
  const auto& places = grid.axes()[1].labels;
  std::string header = fmt::format("   {:<12}", grid.axes()[1].name);
  for (const auto& layer : layers) header += fmt::format("{:<24}", fmt::format("{} {}", when, layer));
  say(header.substr(0, header.find_last_not_of(' ') + 1));
  for (std::size_t place = 0; place < places.size(); ++place) {
    std::string line = fmt::format("   {:<12}", places[place]);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      // Rounded first, so that nothing is written as -0.00.
      const double value = grid.at({static_cast<std::int64_t>(layer), static_cast<std::int64_t>(place)});
      const double share = std::round(100 * value) / 100 + 0.0;
      line += fmt::format("{:6.2f}  {:<16}", share, bar(std::clamp(share, 0.0, 1.2) / 3));
    }
    say(line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

void patch(const hooked::HookedTransformer& model, const hooked::RunResult& clean,
           const std::filesystem::path& folder) {
  chapter(6, "Where does the decision travel?");
  say(fmt::format("   clean       \"{} ...\"  Mary\n   corrupted   \"{} ...\"  John\n", kClean, kCorrupted));
  say("   Run the corrupted sentence, but put one vector of the clean run's stream in its place, for every "
      "layer and word.");
  say("   0 means that the model still says John, 1 that it says Mary as surely as in the clean run:\n");
  const auto by_word =
      share_restored(model, clean, {act::resid_pre, {hooked::Axis::layer, hooked::Axis::pos}});
  print_bars(by_word, "before block");
  say("");
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    const auto column = by_word.values()[layer];
    const auto place = column.argmax().item<std::int64_t>();
    say(fmt::format("   Before block {} the decision is at \"{}\" ({:.2f}).", layer,
                    by_word.axes()[1].labels[static_cast<std::size_t>(place)], column[place].item<double>()));
  }
  say("\n   Which heads take it from one word to another? The same with what each head read, at all words at "
      "once:\n");
  const auto by_head = share_restored(model, clean, {act::z, {hooked::Axis::layer, hooked::Axis::head}});
  print_bars(by_head, "layer");

  std::filesystem::create_directories(folder);
  by_word.save(folder / "resid_pre.svg");
  by_head.save(folder / "z.svg");
  say(fmt::format("\n   Both as pictures: {} and {}", (folder / "resid_pre.svg").string(),
                  (folder / "z.svg").string()));
}

/// A fresh folder that stays, for pictures without a given place.
std::filesystem::path new_temporary_folder() {
  auto name = (std::filesystem::temp_directory_path() / "hooked_demo_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make a folder such as " + name);
  return name;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : "examples/toy_model";
  const auto model = hooked::HookedTransformer::load(folder);
  const auto& config = model.config();
  say(fmt::format(
      "hooked runs a transformer and lets you read and change everything it computes, by name. This is a\n"
      "transformer of {} layers with {} heads each, {} parameters, trained with the same engine\n"
      "(examples/train_toy_model.cc). The steps below are the beginning of most studies of such a model.",
      config.n_layers, config.n_heads, hooked::describe(folder).parameters));
  const auto clean = model.run_with_cache(model.to_tokens(kClean));
  predict(model, clean);
  show_attention(model, find_induction_head(model));
  ablate(model, clean, find_naming_head(model, clean));
  patch(model, clean, argc > 2 ? argv[2] : new_temporary_folder());
  say("\nThe same in your own program: examples/first_steps.cc. On the command line: hooked --help.");
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
