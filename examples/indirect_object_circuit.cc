// Which heads know who receives something ("When Mary and John went to the park, John gave a book to")? They
// are found by attribution, patching and path patching on some prompts, and held against every other set of
// heads on others.
//
//   indirect_object_circuit [MODEL]
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <hooked/hooked.h>

#include <bit>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "examples/indirect_object/indirect_object.h"

namespace act = hooked::act;

namespace {

hooked::Metric difference(const hooked::PromptPairs& pairs) {
  return hooked::logit_difference(pairs.answers(), pairs.against());
}

using Heads = std::vector<hooked::Address>;

/// [set]: the score of the clean prompts while the heads of each set are ablated, summed over the prompts.
at::Tensor scores_without(const std::vector<Heads>& sets, const hooked::HookedTransformer& model,
                          const hooked::PromptPairs& pairs, const hooked::PatchSource& from) {
  const auto scores = hooked::ablate(
      model, {.sets = sets, .sweep = {.from = from, .into = pairs.clean(), .metric = difference(pairs)}});
  return scores.values().sum(0);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  Heads heads;
  std::vector<std::string> names;
  for (std::int32_t layer = 0; layer < model.config().n_layers; ++layer) {
    for (std::int64_t head = 0; head < model.config().n_heads; ++head) {
      heads.push_back(act::z(layer).head(head));
      names.push_back(fmt::format("{}.{}", layer, head));
    }
  }

  // 1. What is to be explained: the lead of the right name, which changes sign if the other person gives.
  const auto pairs = ioi::indirect_object_pairs(model, {.count = 32, .seed = 0});
  const auto metric = difference(pairs);
  const auto clean = hooked::scores(model, pairs.clean(), metric).mean("row").at({});
  const auto corrupted = hooked::scores(model, pairs.corrupted(), metric).mean("row").at({});
  std::cout << fmt::format("right name ahead by {:.2f} logits; other giver: {:.2f}\n", clean, corrupted);

  // 2. Attribution: who writes it into the logits.
  const auto cache = model.run_with_cache(pairs.clean()).cache;
  const auto written = hooked::direct_logit_attribution(
      model, cache, {.answer = pairs.answers(), .against = pairs.against(), .grain = hooked::Grain::head});
  for (const auto& cell : written.mean("row").slice("pos", 0).largest(4, hooked::LargestBy::size))
    std::cout << fmt::format("{} writes {:.2f}\n", cell.labels[0], cell.value);

  // 3. Patching: which heads know it. The found ones cost a fifth of the whole change or more if they alone
  // read the other prompt.
  const auto other_run = model.run_with_cache(pairs.corrupted()).cache;
  const auto patched = hooked::sweep(model, {.site = act::z,
                                             .over = {hooked::Axis::layer, hooked::Axis::head},
                                             .from = other_run,
                                             .into = pairs.clean(),
                                             .metric = metric});
  const auto carried = (clean - patched.mean("row").values().flatten()) / (clean - corrupted);  // [head]
  Heads found;
  unsigned found_bits = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto share = carried[static_cast<std::int64_t>(i)].item<double>();
    if (share < 0.2) continue;
    found.push_back(heads[i]);
    found_bits |= 1U << i;
    const auto pattern =
        act::pattern(heads[i].name().layer).head(static_cast<std::int64_t>(i) % model.config().n_heads);
    const auto to_giver = hooked::attention(pattern, hooked::Position::last(), pairs.clean_place("giver"));
    std::cout << fmt::format("head {} carries {}; at the end it attends to the giver with {}\n", names[i],
                             percent(share),
                             percent(hooked::scores(model, pairs.clean(), to_giver).mean("row").at({})));
  }

  // 4. Path patching: how it gets from them to the logits.
  for (const auto through : {hooked::PathThrough::nothing, hooked::PathThrough::mlps}) {
    const auto left =
        hooked::path_patching(model, {.senders = found,
                                      .through = through,
                                      .sweep = {.from = other_run, .into = pairs.clean(), .metric = metric}});
    std::cout << fmt::format(
        "{} goes {}\n", percent((clean - left.mean("row").at({})) / (clean - corrupted)),
        through == hooked::PathThrough::nothing ? "straight to the logits" : "there or through MLPs");
  }

  // 5. Held against every other set of as many heads, on pairs that did not choose it.
  std::vector<unsigned> bits;  // of each set
  std::vector<Heads> sets, others;
  for (unsigned set = 0; set < 1U << heads.size(); ++set) {
    if (std::popcount(set) != std::popcount(found_bits)) continue;
    bits.push_back(set);
    sets.emplace_back();
    others.emplace_back();
    for (std::size_t i = 0; i < heads.size(); ++i)
      ((set >> i & 1U) != 0 ? sets : others).back().push_back(heads[i]);
  }
  std::vector<Heads> ablated = {{}};  // nothing, each set, all but each set, each head
  ablated.insert(ablated.end(), sets.begin(), sets.end());
  ablated.insert(ablated.end(), others.begin(), others.end());
  for (const auto& head : heads) ablated.push_back({head});

  // What ablated heads read is the same prompt with the other giver, or any prompt of the same sentence.
  const auto fresh = ioi::indirect_object_pairs(model, {.count = 32, .seed = 1});
  const auto by_giver = scores_without(ablated, model, fresh, model.run_with_cache(fresh.corrupted()).cache);
  std::map<std::string, std::vector<hooked::PromptPair>> sentences;  // by their first word
  for (const auto& pair : fresh.pairs()) {
    const auto& text = std::get<std::string>(pair.clean);
    sentences[text.substr(0, text.find(' '))].push_back(pair);
  }
  auto by_any = at::zeros_like(by_giver);
  for (const auto& [word, list] : sentences) {
    const hooked::PromptPairs same(model, list);
    const auto drawn = hooked::PatchSource::resampled(model.run_with_cache(same.corrupted()).cache, 0);
    by_any += scores_without(ablated, model, same, drawn);
  }
  for (const auto& [what, sums] :
       {std::pair{"with the other giver", by_giver}, {"drawn at random", by_any}}) {
    const auto scores = sums / static_cast<double>(fresh.size());
    const auto n = static_cast<std::int64_t>(bits.size());
    const double whole = scores[0].item<double>();
    const auto lost = whole - scores.slice(0, 1, 1 + n), kept = scores.slice(0, 1 + n, 1 + 2 * n) / whole;
    std::int64_t chosen = 0;
    std::vector<std::int64_t> rest, disjoint;
    for (std::int64_t i = 0; i < n; ++i) {
      const unsigned set = bits[static_cast<std::size_t>(i)];
      if (set == found_bits) chosen = i;
      if (set != found_bits) rest.push_back(i);
      if ((set & found_bits) == 0) disjoint.push_back(i);
    }
    const auto largest = [&](const at::Tensor& of_set) {
      return of_set.index({at::tensor(rest)}).max().item<double>();
    };
    std::cout << fmt::format("ablated heads read a prompt {}; the whole model is ahead by {:.2f}\n", what,
                             whole);
    std::cout << fmt::format(
        "  the found set loses {:.2f}, {} sets disjoint from it {:.2f} in the median, any of {} other sets "
        "at most {:.2f}\n",
        lost[chosen].item<double>(), disjoint.size(),
        lost.index({at::tensor(disjoint)}).median().item<double>(), rest.size(), largest(lost));
    std::cout << fmt::format("  alone it keeps {}, any other set at most {}\n",
                             percent(kept[chosen].item<double>()), percent(largest(kept)));
    std::string costly;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const auto cost = (whole - scores[1 + 2 * n + static_cast<std::int64_t>(i)].item<double>()) / whole;
      if ((found_bits >> i & 1U) == 0 && cost >= 0.05)
        costly += fmt::format(" {} {}", names[i], percent(cost));
    }
    std::cout << "  of the other heads these cost a twentieth or more, each by itself:" << costly << '\n';
  }
}
