// The options of hooked harvest.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

constexpr const char* kPackings[] = {"default", "packed", "documents"};
constexpr const char* kByLauncher = "auto";

void read_share(const std::string& text, HarvestCommandOptions& options) {
  if (text.empty()) return;
  options.by_launcher = text == kByLauncher;
  if (options.by_launcher) return;
  const auto slash = std::min(text.find('/'), text.size());
  const std::string_view parts(text);
  const std::int64_t index = parse_integer(parts.substr(0, slash)).value_or(-1);
  const std::int64_t of = parse_integer(parts.substr(std::min(slash + 1, text.size()))).value_or(0);
  require(
      index >= 0 && index < of,
      fmt::format("--units: '{}' is not a share; expected K/N such as 3/16, with K from 0 to N - 1, or {}",
                  printable(text), kByLauncher));
  options.share_index = index;
  options.shares = of;
}

// `none`, or an id.
std::optional<std::int64_t> read_token(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "none") return -1;
  const auto id = parse_integer(text);
  require(id && *id >= 0,
          fmt::format("{}: '{}' is not a token; expected an id, or none", option, printable(text)));
  return *id;
}

}  // namespace

Reader define_harvest(CLI::App& app) {
  struct Texts {
    std::string share, begin_context, begin_document, separator;
  };
  auto options = std::make_shared<HarvestCommandOptions>();
  const auto texts = std::make_shared<Texts>();
  add_model_options(app, options->model);
  app.get_option(kModelWord)->required(false);
  add_options(
      app, "Corpus",
      {{"--corpus F", options->corpus,
        "a document on each line of .txt, an object of .jsonl, a row of ids of .safetensors; or a folder of "
        "such files"},
       {"--field NAME", options->field, "which field, or tensor, holds the documents (default: text)"},
       {"--whole-files", options->whole_files, "a text file is one document"},
       {"--max-documents N", options->max_documents, "only the first N", at_least_one},
       prepend_bos_row(options->prepend_bos)});
  add_options(
      app, "Contexts",
      {{"--context N", options->context, "tokens that the model reads together (default: 128)", at_least_one},
       {"--packing P", options->packing,
        "packed: documents follow each other, as in SAELens; documents: each begins anew (default: text is "
        "packed, ids are not)",
        one_of({kPackings[0], kPackings[1], kPackings[2]})},
       {"--begin-context ID", texts->begin_context,
        "opens each context; none for none (default: the BOS token, as --prepend-bos says)"},
       {"--begin-document ID", texts->begin_document, "opens each document (default: none)"},
       {"--separator ID", texts->separator,
        "between two documents of a context (default: as --begin-context)"}});
  add_options(
      app, "What is kept",
      {{"--names GLOB", options->names,
        "names or globs of activations with a row for each token, separated by commas"},
       {"--store-dtype T", options->stored_dtype,
        "float32, float16, bfloat16 or float64 (default: as computed)"},
       {"--exclude-special", options->exclude_special_tokens, "leave out BOS, EOS, PAD and SEP"},
       {"--exclude-tokens IDS", options->exclude_tokens, "leave out these tokens"},
       {"--skip-first N", options->skip_first, "leave out the first N tokens of each context"},
       {"--share X", options->share, "keep this share of the rest, drawn at random (default: 1)"},
       {"--seed N", options->seed, "of the draw (default: 0)"},
       {"--moments", options->moments,
        "no activations, but their sums: for means, whitening, principal components"},
       {"--examples K", options->examples,
        "no activations, but the K largest tokens of each feature of --dictionary", at_least_one},
       {"--example-before N", options->example_before, "tokens shown before each (default: 10)",
        needs({"--examples"})},
       {"--example-after N", options->example_after, "and after it (default: 5)", needs({"--examples"})}});
  add_options(
      app, "The store",
      {{"--out DIR", options->out, "a new folder, or that of a stopped harvest, which continues"},
       {"--units K/N", texts->share,
        "this process does share K, from 0, of N; auto: as torchrun, Slurm or Kubernetes say"},
       {"--unit-tokens N", options->unit_tokens,
        "tokens of a unit, which is kept as a whole (default: 65536)", at_least_one},
       {"--shard-mib N", options->shard_mib, "largest file (default: 512)", at_least_one},
       {"--batch-tokens N", options->batch_tokens, "tokens of a run (default: 1024)", at_least_one},
       {"--mixed", options->mixed, "continue with other threads or kernels, which may change last bits"},
       {"--dry-run", options->dry_run, "only say what it would take and write"}});
  add_options(app, "Instead of a harvest",
              {{"--status DIR", options->status, "what a store holds, and what is missing",
                excludes({"--corpus", "--out"})},
               {"--join DIR", options->join, "make one manifest, when all shares are there",
                excludes({"--corpus", "--out", "--status"})},
               {"--verify DIR", options->verify, "compare every checksum",
                excludes({"--corpus", "--out", "--status", "--join"})}});
  add_edit_options(app, options->edits);
  add_dictionary_options(app, options->model);
  add_options(app, {json_row(options->json)});
  return [&app, options, texts] {
    const bool looks = !options->status.empty() || !options->join.empty() || !options->verify.empty();
    require(looks == options->model.model.empty(),
            looks ? "--status, --join and --verify read a store; expected no MODEL"
                  : "no model is given; expected MODEL, or --status, --join or --verify with a store");
    if (!looks) {
      require(!options->corpus.empty(), "no corpus is given; expected --corpus");
      require(!options->names.empty(), "no activations are named; expected --names");
      require(options->dry_run || !options->out.empty(), "no folder is given; expected --out, or --dry-run");
    }
    require(options->share > 0 && options->share <= 1, "--share: expected a number above 0 and at most 1");
    require(app.count("--seed") == 0 || app.count("--share") > 0,
            "--seed is of a random share; expected --share with it");
    options->begin_context = read_token("--begin-context", texts->begin_context);
    options->begin_document = read_token("--begin-document", texts->begin_document);
    options->separator = read_token("--separator", texts->separator);
    read_share(texts->share, *options);
    return *options;
  };
}

}  // namespace hooked::cli
