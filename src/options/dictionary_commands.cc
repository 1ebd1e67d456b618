// The options of the commands that are about dictionaries.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

FeatureValue read_clamp(const std::string& text) {
  const auto equals = text.find('=');
  const auto feature = parse_integer(std::string_view(text).substr(0, equals));
  double value = 0;
  if (feature && equals != std::string::npos && CLI::detail::lexical_cast(text.substr(equals + 1), value))
    return {*feature, value};
  throw UsageError(fmt::format(
      "--clamp: '{}' is no feature with a value; expected FEATURE=VALUE such as 182=2.5", printable(text)));
}

// From 0 to 1.
void a_share(CLI::App&, CLI::Option& option) { option.check(CLI::Range(0.0, 1.0)); }

// Above 0.
void positive(CLI::App&, CLI::Option& option) { option.check(CLI::PositiveNumber); }

}  // namespace

Reader define_sae(CLI::App& app) {
  auto options = std::make_shared<SaeOptions>();
  const auto ablated = std::make_shared<IntegerList>();
  const auto clamped = std::make_shared<std::vector<std::string>>();
  add_run_options(app, *options);
  add_options(
      app,
      {{"--positions,--position P", options->positions,
        "the tokens that are looked at: columns and ranges such as 0,5,-1 or 2:5 (its end is left out), last "
        "or all (default: all)"},
       {"--features IDS", options->features, "these features (default: those that fire most)"},
       {"--largest,--count N", options->count, "how many features are shown (default: 20)", at_least_one},
       {"--top-k K", options->top_k,
        "how many tokens each feature raises and lowers, and how many next tokens are shown (default: 5)",
        at_least_one},
       {"--ablate IDS", *ablated, "these features are 0 while the model runs; shows what that changes"},
       {"--clamp F=V", *clamped, "feature F has the value V at every token; repeatable"}});
  add_token_choice(app, "answer", options->answers, "a token whose logit is shown with and without changes");
  add_options(app, {{"--quality", options->quality,
                     "also measure the dictionary on the input: features per token, explained variance, the "
                     "loss that it recovers, features that never fire"},
                    json_row(options->json)});
  return [&app, options, ablated, clamped] {
    require_one(app, input_names());
    require(!options->model.dictionaries.empty(),
            "no dictionary is given; expected --dictionary FOLDER[@ACTIVATION]");
    for (const std::int64_t feature : *ablated) options->changes.push_back({feature, 0});
    for (const std::string& text : *clamped) options->changes.push_back(read_clamp(text));
    std::set<std::int64_t> changed;
    for (const auto& [feature, value] : options->changes) {
      require(feature >= 0,
              fmt::format("--ablate and --clamp: feature {} is none; expected 0 or more", feature));
      require(changed.insert(feature).second,
              fmt::format("--ablate and --clamp: feature {} is there twice; expected each once", feature));
    }
    require(options->answers.empty() || !options->changes.empty(),
            "--answer shows what changes of features do; expected --ablate or --clamp");
    return *options;
  };
}

Reader define_graph(CLI::App& app) {
  auto options = std::make_shared<GraphOptions>();
  const auto neurons = std::make_shared<bool>(false);
  add_model_options(app, options->model);
  add_input_options(app, options->input);
  add_options(app, "What stands in the place of MLPs",
              {{"--dictionary D", options->model.dictionaries,
                "transcoders: a folder with one for each layer, or repeatable, FOLDER[@ACTIVATION]; "
                "processing steps that would change what they were fitted to are left out"},
               {"--neurons", *neurons, "the neurons of plain MLPs, which makes the graph exact",
                excludes({"--dictionary"})}});
  add_token_choice(app, "answer", options->answers,
                   "a token whose logit is a target (default: the most probable ones)");
  add_options(
      app,
      {{"--probability X", options->probability,
        "as many of the most probable tokens as reach it together (default: 0.95)", a_share},
       {"--max-logits N", options->max_logits, "but at most so many (default: 10)", at_least_one},
       {"--max-features N", options->max_features,
        "at most so many features, the strongest (default: all that are active)", at_least_one},
       {"--skip-first N", options->skip_first,
        "MLPs at the first N positions are constants, without nodes (default: 1)"},
       {"--batch N", options->batch, "features whose edges are computed at a time (default: 256)",
        at_least_one},
       {"--memory GIB", options->memory, "what the graph may need (default: 16)", positive},
       {"--node-share X", options->node_share,
        "pruning: the nodes of the largest influence that have this share of all (default: 0.8; 1 keeps all)",
        a_share},
       {"--edge-share X", options->edge_share, "the same for edges (default: 0.98)", a_share},
       {"--paths N", options->paths, "how many of the strongest paths are shown (default: 10)", at_least_one},
       {"--out F", options->out,
        "writes the pruned graph as circuit-tracer's page and Neuronpedia read it: .json"},
       {"--scan TEXT", options->scan,
        "the name under which such pages know the features; for Neuronpedia its id of the model",
        needs({"--out"})},
       force_row(options->force, {"--out"}),
       json_row(options->json)});
  return [&app, options, neurons] {
    require_one(app, input_names());
    require(*neurons || !options->model.dictionaries.empty(),
            "nothing stands in the place of the MLPs; expected --dictionary with transcoders, or --neurons");
    require(options->skip_first >= 0, "--skip-first: expected 0 or more");
    require(options->answers.empty() || app.count("--probability") + app.count("--max-logits") == 0,
            "--probability and --max-logits choose tokens, and --answer names them; expected one of the two");
    require_ending("--out", options->out, ".json");
    return *options;
  };
}

}  // namespace hooked::cli
