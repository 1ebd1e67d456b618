// The options of the commands about a model as a whole, its files and its weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hooked/io/hub_cache.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

// Possible values of MODEL, one on each line.
std::string cached_names() {
  std::string lines;
  for (const auto& model : cached_models()) {
    if (model.problem.empty()) lines += model.id + "\n";
  }
  return lines;
}

// Some options are about some of the results only.
void require_result(const CLI::App& app) {
  static const std::vector<std::pair<std::string, OneOf>> kOfSome{{"--layer", {"--singular"}},
                                                                  {"--index", {"--singular"}},
                                                                  {"--directions", {"--singular"}},
                                                                  {"--top-k", {"--copying", "--singular"}},
                                                                  {"--sample", {"--copying"}},
                                                                  {"--draws", {"--composition"}},
                                                                  {"--seed", {"--composition", "--copying"}},
                                                                  {"--largest", {"--composition"}},
                                                                  {"--encoder", {"--composition"}}};
  const auto given = [&](const std::string& name) { return app.count(name) > 0; };
  for (const auto& [name, of] : kOfSome) {
    require(!given(name) || std::ranges::any_of(of, given),
            fmt::format("{} says nothing here; expected it with {}", name, fmt::join(of, " or ")));
  }
}

}  // namespace

Reader define_list(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  auto quiet = std::make_shared<bool>(false);
  add_options(app, {{"--quiet", *quiet, "only the names, one a line, without a look into the files"},
                    {"--json", options->json, "one JSON object on stdout", excludes({"--quiet"})}});
  return [options, quiet]() -> Request {
    if (*quiet) return cached_names();
    return *options;
  };
}

Reader define_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  add_model_options(app, options->model);
  add_options(app, {{"--check-processing", options->check_processing,
                     "load the model with and without its weight processing, run both on a few random tokens "
                     "and say by how much their log-probabilities differ"},
                    json_row(options->json)});
  return [options] { return *options; };
}

Reader define_names(CLI::App& app) {
  auto options = std::make_shared<NamesOptions>();
  add_options(app,
              {model_row(options->model),
               {"--names GLOB", options->names, "names or globs, separated by commas (default: every point)"},
               {"--tokens-length N", options->tokens_length,
                "tokens in a row, for the shapes (default: left open)", at_least_one},
               json_row(options->json)});
  return [options] { return *options; };
}

Reader define_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  add_options(app,
              {{kModelWord, options->model,
                "a model as for other commands, a folder with a tokenizer, or a tokenizer.json", required}});
  add_options(app, kInputHeading,
              {{"--text T", options->text, "text to turn into ids; - reads standard input"},
               {"--texts-file F", options->texts_file, "JSON file with an array of texts"},
               {"--decode IDS", options->decode, "ids such as 1,2,3 to turn into text"}});
  add_options(app, {{"--add-special-tokens", options->add_special_tokens,
                     "put only the tokens around the text that the tokenizer's file asks for, not those that "
                     "a run of the model puts there"}});
  add_chat_options(app, options->chat, {"--decode", "--add-special-tokens"});
  add_options(app, {json_row(options->json)});
  return [&app, options] {
    require_one(app, {"--text", "--texts-file", "--decode"});
    return *options;
  };
}

Reader define_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  add_options(app,
              {{kFileArgument, options->file, "a safetensors file, of activations or any other", required},
               list_row(options->list),
               json_row(options->json)});
  return [options] { return *options; };
}

Reader define_save(CLI::App& app) {
  auto options = std::make_shared<SaveOptions>();
  add_model_options(app, options->model);
  add_options(app, {{"--out DIR", options->out,
                     "the folder to write: new, empty, or with nothing but a model that hooked saved, which "
                     "goes",
                     required},
                    {"--packed", options->packed,
                     "matrices as this processor multiplies them: mapped at load, shared by processes"},
                    json_row(options->json)});
  return [options] { return *options; };
}

Reader define_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  add_model_options(app, options->model);
  add_dictionary_options(app, options->model);
  add_options(app,
              {{"--batch B", options->batch, "rows (default: 1)", at_least_one},
               {"--length T", options->length,
                "tokens in a row (default: 128, or what the context has room for)", at_least_one},
               {"--iterations N", options->iterations, "timed runs of each kind (default: 20)", at_least_one},
               {"--seed S", options->seed, "seed of the random tokens (default: 0)"},
               json_row(options->json)});
  return [options] { return *options; };
}

Reader define_weights(CLI::App& app) {
  auto options = std::make_shared<WeightsOptions>();
  const std::vector<std::string> matrices{"ov_written", "ov_read",  "qk_query", "qk_key",
                                          "mlp_in",     "mlp_gate", "mlp_out"};
  add_model_options(app, options->model);
  add_options(app, "What is shown, one of",
              {{"--composition LIST", options->composition,
                "how much of what each head writes later heads read by queries (q), keys (k) and values (v), "
                "compared with random heads",
                listed, one_of({"q", "k", "v"})},
               {"--copying", options->copying,
                "whether heads copy: eigenvalues of W_E W_V W_O W_U, and tokens that raise themselves most"},
               {"--singular MATRIX", options->singular,
                "the singular directions of a matrix, read through the unembedding", one_of(matrices)}});
  add_options(
      app,
      {{"--layer L", options->layer, "the layer; negative from the end (default: 0)"},
       {"--index I", options->index, "the head, or the expert of a mixture (default: 0)"},
       {"--directions N", options->directions,
        "how many of the largest singular values are shown (default: 10)", at_least_one},
       {"--top-k K", options->top_k,
        "tokens of each side of a direction; for copying, how high a token must rank among those that it "
        "raises (default: 5)",
        at_least_one},
       {"--sample N", options->sample, "tokens that are asked whether they are copied (default: 500)",
        at_least_one},
       {"--draws N", options->draws, "pairs of random heads (default: 64)", at_least_one},
       {"--seed X", options->seed, "of random heads, and of tokens (default: 0)"},
       {"--largest N", options->largest, "how many pairs of heads are shown (default: 20)", at_least_one},
       {"--encoder", options->encoder, "of an encoder-decoder: the encoder's heads"},
       {"--bare", options->bare,
        "the matrices without weights and centring of the norms between, as TransformerLens has them"},
       {"--out F", options->out,
        "writes the numbers: .csv, .json, .svg or .safetensors; where there are several grids each has a "
        "file, F with its name before the ending"},
       force_row(options->force, {"--out"}),
       json_row(options->json)});
  return [&app, options] {
    require_one(app, {"--composition", "--copying", "--singular"});
    require_grid_file(options->out);
    require_each_once(options->composition, "--composition", "input");
    require_result(app);
    return *options;
  };
}

}  // namespace hooked::cli
