// The options of `hooked weights`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

/// An option that applies to some of the results only, and whether it was given.
struct OfSome {
  CLI::Option* option;
  std::vector<CLI::Option*> of;
};

void require_fit(const WeightsOptions& options, const std::vector<OfSome>& some) {
  require_grid_file(options.out);
  for (const std::string& input : options.composition) {
    if (std::count(options.composition.begin(), options.composition.end(), input) > 1)
      throw UsageError("--composition: " + input + " occurs twice; expected each input once");
  }
  for (const auto& [option, of] : some) {
    if (option->count() == 0) continue;
    const bool fits = std::any_of(of.begin(), of.end(), [](const auto* shown) { return shown->count() > 0; });
    if (fits) continue;
    std::string names;
    for (const auto* shown : of) names += (names.empty() ? "" : " or ") + shown->get_name();
    throw UsageError(option->get_name() + " says nothing here; expected it with " + names);
  }
}

}  // namespace

Reader define_weights(CLI::App& app) {
  static constexpr auto* kShown = "What is shown, one of";
  auto options = std::make_shared<WeightsOptions>();
  add_model_options(app, options->model);
  auto* composition = app.add_option("--composition", options->composition,
                                     "how much of what each head writes later heads read by queries (q), "
                                     "keys (k) and values (v), compared with random heads")
                          ->option_text("LIST")
                          ->delimiter(',')
                          ->allow_extra_args(false)
                          ->check(CLI::IsMember({"q", "k", "v"}))
                          ->group(kShown);
  auto* copying = app.add_flag("--copying", options->copying,
                               "whether heads copy: eigenvalues of W_E W_V W_O W_U, and tokens that raise "
                               "themselves most")
                      ->group(kShown);
  const std::vector<std::string> matrices{"ov_written", "ov_read",  "qk_query", "qk_key",
                                          "mlp_in",     "mlp_gate", "mlp_out"};
  auto* singular =
      app.add_option("--singular", options->singular,
                     fmt::format("the singular directions of a matrix, read through the unembedding: {}",
                                 fmt::join(matrices, ", ")))
          ->option_text("MATRIX")
          ->check(CLI::IsMember(matrices))
          ->group(kShown);
  std::vector<OfSome> some;
  some.push_back({app.add_option("--layer", options->layer, "the layer; negative from the end (default: 0)")
                      ->option_text("L"),
                  {singular}});
  some.push_back(
      {app.add_option("--index", options->index, "the head, or the expert of a mixture (default: 0)")
           ->option_text("I"),
       {singular}});
  some.push_back({app.add_option("--directions", options->directions,
                                 "how many of the largest singular values are shown (default: 10)")
                      ->option_text("N")
                      ->check(at_least_one()),
                  {singular}});
  some.push_back({app.add_option("--top-k", options->top_k,
                                 "tokens of each side of a direction; for copying, how high a token must "
                                 "rank among those that it raises (default: 5)")
                      ->option_text("K")
                      ->check(at_least_one()),
                  {copying, singular}});
  some.push_back({app.add_option("--sample", options->sample,
                                 "tokens that are asked whether they are copied (default: 500)")
                      ->option_text("N")
                      ->check(at_least_one()),
                  {copying}});
  some.push_back({app.add_option("--draws", options->draws, "pairs of random heads (default: 64)")
                      ->option_text("N")
                      ->check(at_least_one()),
                  {composition}});
  some.push_back({app.add_option("--seed", options->seed, "of random heads, and of tokens (default: 0)")
                      ->option_text("X"),
                  {composition, copying}});
  some.push_back(
      {app.add_option("--largest", options->largest, "how many pairs of heads are shown (default: 20)")
           ->option_text("N")
           ->check(at_least_one()),
       {composition}});
  some.push_back({app.add_flag("--encoder", options->encoder, "of an encoder-decoder: the encoder's heads"),
                  {composition}});
  app.add_flag("--bare", options->bare,
               "the matrices without weights and centring of the norms between, as TransformerLens has them");
  auto* out = app.add_option(
      "--out", options->out,
      "writes the numbers: .csv, .json, .svg or .safetensors; where there are several grids each has "
      "a file, F with its name before the ending");
  out->option_text(kFileWord);
  add_force_option(app, options->force, {out});
  add_json_option(app, options->json);
  const OneOf shown{composition, copying, singular};
  return [options, shown, some] {
    require_one(shown);
    require_fit(*options, some);
    return *options;
  };
}

}  // namespace hooked::cli
