// hooked generate: continues a prompt, streaming, with captures and edits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/edit_options.h"
#include "cli/input_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {
namespace {

struct GenerateCommandOptions {
  ModelOptions model;
  InputOptions input;
  GenerateOptions generate;
  std::vector<std::string> edits, prompt_edits, new_token_edits;
  std::string stop_tokens;
  bool ignores_stop_tokens = false;  ///< those that the model names
  std::string capture;
  std::string out;
  bool json = false;
};

/// How long the prompt took, and all steps after it.
struct Seconds {
  double prefill = 0.0;
  double decode = 0.0;
};

// Takes the time at every step of a generation, besides what its callback does.
class StepTimer {
 public:
  void start(GenerateOptions& options) {
    begin_ = std::chrono::steady_clock::now();
    options.on_tokens = [this, callback = options.on_tokens](const at::Tensor& tokens) {
      if (steps_++ == 0) prompt_done_ = std::chrono::steady_clock::now();
      return callback ? callback(tokens) : true;
    };
  }
  Seconds seconds() const {
    const auto now = std::chrono::steady_clock::now();
    return {std::chrono::duration<double>(prompt_done_ - begin_).count(),
            std::chrono::duration<double>(now - prompt_done_).count()};
  }

 private:
  std::chrono::steady_clock::time_point begin_, prompt_done_;
  int steps_ = 0;
};

std::string_view reason_text(StopReason reason) {
  switch (reason) {
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::callback:
      return "callback";
    case StopReason::length:
      break;
  }
  return "length";
}

// The new tokens of a row, without the padding after its end.
std::vector<std::int64_t> new_tokens(const GenerateResult& result, std::int64_t row, std::int64_t prompt) {
  const auto tokens = result.tokens[row].to(at::kCPU), real = result.attention_mask[row].to(at::kCPU);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = prompt; i < tokens.size(0); ++i) {
    if (real[i].item<bool>()) ids.push_back(tokens[i].item<std::int64_t>());
  }
  return ids;
}

// One object per row; a single row is not in a list.
Json result_json(const GenerateResult& result, const Input& input, const Seconds& seconds) {
  auto rows = Json::array();
  const auto prompts = rows_json(input.tokens);
  for (std::int64_t row = 0; row < input.batch(); ++row) {
    const auto ids = new_tokens(result, row, input.length());
    std::vector<double> log_probs;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      log_probs.push_back(result.log_probs[row][static_cast<std::int64_t>(i)].item<double>());
    }
    const auto r = static_cast<std::size_t>(row);
    rows.push_back({{"prompt_ids", prompts[r]},
                    {"ids", ids},
                    {"text", result.texts.empty() ? Json(nullptr) : Json(result.texts[r])},
                    {"log_probs", log_probs},
                    {"stopped", reason_text(result.stopped[r])},
                    {"seconds", {{"prefill", seconds.prefill}, {"decode", seconds.decode}}}});
  }
  return input.batch() == 1 ? rows[0] : rows;
}

// Before anything is computed, so that nothing is lost.
void require_folder_of(const std::string& out) {
  const auto folder = std::filesystem::absolute(out.empty() ? "." : out).parent_path();
  if (std::filesystem::is_directory(folder)) return;
  throw IoError(out, "the folder of the file is not there; expected an existing one; make it first");
}

void save_captured(const GenerateResult& result, const std::string& out) {
  std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"tokens", result.tokens.contiguous()},
      {"attention_mask", result.attention_mask.to(at::kLong).contiguous()}};
  for (const auto& entry : result.cache) {
    tensors.emplace_back(entry.name.to_string(), entry.value.contiguous());
  }
  save_safetensors(out, tensors);
}

void flush(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// One row appears as it is made; several are shown when all are there.
class Stream {
 public:
  Stream(GenerateCommandOptions& options, const Input& input, const HookedTransformer& model) {
    if (options.json || input.batch() > 1) return;
    if (model.has_tokenizer()) {
      start_ = options.input.text.value_or("");
      options.generate.on_text = [this](std::string_view text) {
        begin();
        flush(text);
        return true;
      };
    } else {
      options.generate.on_tokens = [first = true](const at::Tensor& tokens) mutable {
        flush(fmt::format("{}{}", first ? "" : ",", tokens.item<std::int64_t>()));
        first = false;
        return true;
      };
    }
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The prompt's text, once: what is refused before the first token leaves no output.
  void begin() { flush(std::exchange(start_, std::string())); }

 private:
  std::string start_;
};

void print_rows(const GenerateResult& result, const Input& input) {
  if (input.batch() == 1) return fmt::print("\n");
  for (std::int64_t row = 0; row < input.batch(); ++row) {
    const auto r = static_cast<std::size_t>(row);
    const auto text = result.texts.empty()
                          ? fmt::format("{}", fmt::join(new_tokens(result, row, input.length()), ","))
                          : result.texts[r];
    fmt::print("row {} ({}): {}\n", row, reason_text(result.stopped[r]), text);
  }
}

void generate(GenerateCommandOptions options) {
  const auto model = options.model.load();
  const auto input = read_input(options.input, model);
  require_folder_of(options.out);
  auto& generate = options.generate;
  generate.edits = read_edits(options.edits, model, input);
  generate.prompt_edits = read_edits(options.prompt_edits, model, input);
  generate.new_token_edits = read_edits(options.new_token_edits, model, input);
  if (!options.capture.empty()) generate.capture = Selection(options.capture);
  if (options.ignores_stop_tokens) generate.stop.tokens.emplace();
  if (!options.stop_tokens.empty())
    generate.stop.tokens = parse_integers(options.stop_tokens, "--stop-tokens");
  Stream stream(options, input, model);
  StepTimer timer;
  timer.start(generate);
  const auto result = model.generate(input, generate);
  const auto seconds = timer.seconds();
  // Shown first: what was generated is not lost with a disk that is full.
  if (options.json) {
    print_json(result_json(result, input, seconds));
  } else {
    stream.begin();
    print_rows(result, input);
  }
  std::fflush(stdout);
  if (options.out.empty()) return;
  save_captured(result, options.out);
  if (!options.json) {
    fmt::print("{}: {} activations over {} positions\n", options.out, result.cache.size(),
               result.tokens.size(1));
  }
}

}  // namespace

Action define_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommandOptions>();
  auto& generate_options = options->generate;
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  app.add_option("--max-new-tokens", generate_options.max_new_tokens, "how many tokens at most (default: 16)")
      ->option_text("N")
      ->check(at_least_one());

  static constexpr auto* kSampling = "Sampling";
  auto* greedy = app.add_flag("--greedy", generate_options.sampling.greedy,
                              "take the likeliest token instead of drawing one");
  greedy->group(kSampling);
  const auto number = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->option_text("X")->group(kSampling);
  };
  for (auto* drawing : {number("--temperature", generate_options.sampling.temperature,
                               "logits are divided by it (default: 1)"),
                        number("--top-k", generate_options.sampling.top_k, "only the X likeliest tokens"),
                        number("--top-p", generate_options.sampling.top_p,
                               "only the likeliest tokens that reach this probability together"),
                        number("--min-p", generate_options.sampling.min_p,
                               "only tokens of at least X times the likeliest one's probability"),
                        number("--seed", generate_options.sampling.seed, "of the draws (default: 0)")}) {
    drawing->excludes(greedy);
  }
  number("--repetition-penalty", generate_options.sampling.repetition_penalty,
         "divides positive logits of tokens that occurred, multiplies negative ones");
  number("--frequency-penalty", generate_options.sampling.frequency_penalty,
         "taken off a token's logit for each time it occurred");

  static constexpr auto* kStopping = "Stopping";
  app.add_option("--stop", generate_options.stop.strings, "a text to stop before; repeatable")
      ->option_text("TEXT")
      ->allow_extra_args(false)
      ->group(kStopping);
  auto* stop_tokens = app.add_option("--stop-tokens", options->stop_tokens,
                                     "token ids to stop after (default: those that the model names)")
                          ->option_text("IDS")
                          ->group(kStopping);
  app.add_flag("--no-stop-tokens", options->ignores_stop_tokens, "go on past the tokens that the model names")
      ->excludes(stop_tokens)
      ->group(kStopping);

  add_edit_option(app, options->edits);
  const auto edits_at = [&](const char* name, std::vector<std::string>& edits, const char* text) {
    app.add_option(name, edits, text)->option_text("E")->allow_extra_args(false);
  };
  edits_at("--prompt-edit", options->prompt_edits, "as --edit, only while the prompt is run");
  edits_at("--new-token-edit", options->new_token_edits, "as --edit, only in the columns of new tokens");
  auto* capture =
      app.add_option("--capture", options->capture,
                     "names or globs of activations to keep, separated by commas, over prompt and "
                     "continuation")
          ->option_text("GLOB");
  auto* out = app.add_option("--out", options->out, "the safetensors file for them")->option_text("F");
  capture->needs(out);
  out->needs(capture);
  app.add_flag("--json", options->json, "one JSON object on stdout when all is there");
  return [options, inputs] {
    require_one(inputs);
    generate(*options);
  };
}

}  // namespace hooked::cli
