// hooked report: one page about a prompt.
#include "hooked/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "cli/actions.h"
#include "cli/caption.h"
#include "cli/graph_features.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/text_notes.h"
#include "core/shell_word.h"
#include "core/size_text.h"
#include "hooked/core/error.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

/// The prompt as the page says how to give it again: a text, or ids where more than a text was given.
Prompt prompt_of(const ReportCommandOptions& options, const GivenInput& given) {
  if (given.input.batch() != 1)
    throw UsageError(
        fmt::format("a report is about one prompt; expected one row, got {}", given.input.batch()));
  if (given.texts.size() == 1 && !options.input.chat.chat) return given.texts.front();
  const at::Tensor ids = given.input.tokens.to(at::kCPU).flatten().contiguous();
  return std::vector<std::int64_t>(ids.const_data_ptr<std::int64_t>(),
                                   ids.const_data_ptr<std::int64_t>() + ids.numel());
}

// The options that the model was loaded with, for other commands.
std::string shell_options(const ModelOptions& model) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  if (model.device != "cpu") add("--device " + shell_word(model.device));
  if (!model.dtype.empty()) add("--dtype " + shell_word(model.dtype));
  if (!model.process.empty()) add(fmt::format("--process {}", fmt::join(model.process, ",")));
  if (model.no_processing) add("--no-processing");
  if (model.weights == "stored") add("--weights stored");
  return words;
}

std::string shell_dictionaries(const ModelOptions& model) {
  std::string words;
  for (const std::string& dictionary : model.dictionaries)
    words += fmt::format("{}--dictionary {}", words.empty() ? "" : " ", shell_word(dictionary));
  return words + (model.with_error && !words.empty() ? " --with-error" : "");
}

bool are_transcoders(const std::vector<GivenDictionary>& dictionaries) {
  for (const GivenDictionary& given : dictionaries) {
    for (const Dictionary& each : given.members) {
      if (!each.config().transcodes) return false;
    }
  }
  return !dictionaries.empty();
}

}  // namespace

void perform(const ReportCommandOptions& options) {
  const auto reads =
      CommandReads(options.model).add_path(options.input.text_file).add_path(options.input.tokens_file);
  require_can_write(options.out, Page::require_can_save, reads, options.force);
  const auto dictionaries = read_dictionaries(options.model);
  const auto model = load_model(dictionaries, options.model);
  const auto given = read_input(options.input, model);
  ReportOptions how{.title = options.title,
                    .model_name = options.model.model,
                    .answers = tokens_of(options.answers),
                    .against = tokens_of(options.against),
                    .prepend_bos = prepend_bos_of(options.input.prepend_bos),
                    .shell_options = shell_options(options.model),
                    .shell_dictionaries = shell_dictionaries(options.model),
                    .features = options.features,
                    .examples = {options.examples.begin(), options.examples.end()}};
  if (options.corrupted) how.corrupted = *options.corrupted;
  if (!options.corrupted_tokens.empty()) how.corrupted = options.corrupted_tokens;
  if (options.neurons)
    how.graph = GraphFeatures::neurons();
  else if (are_transcoders(dictionaries))
    how.graph = graph_features(dictionaries);
  const Prompt prompt = prompt_of(options, given);
  if (const auto* text = how.corrupted ? std::get_if<std::string>(&*how.corrupted) : nullptr)
    note_blank_at_end(model, {*text});
  const InterruptGuard guard;
  print_notes(answer_notes({&options.answers, &options.against}, model, given.input, Position::last(), {}));
  WatchedWork work("report");
  how.progress = work.progress();
  const Page page = report(model, prompt, how);
  work.end();
  page.save(options.out, overwrite_of(options.force));
  const auto bytes = static_cast<std::uint64_t>(std::filesystem::file_size(options.out));
  if (!options.json) {
    fmt::print("{}: {}\n", options.out, size_text(bytes));
    for (const std::string& section : page.sections()) fmt::print("  {}\n", section);
    if (!work.complete()) print_ended_early(work.done(), work.total(), "sections");
    return;
  }
  Json json = model_json(model);
  json["out"] = options.out;
  json["bytes"] = bytes;
  json["sections"] = page.sections();
  json["complete"] = work.complete();
  add_tokens(given, json);
  print_json(json);
}

}  // namespace hooked::cli
