// hooked generate: continues a prompt, streaming, with captures and edits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/generation_notes.h"
#include "core/json.h"

namespace hooked::cli {
namespace {

/// How long the prompt took, and all steps after it.
struct Seconds {
  double prefill = 0.0;
  double decode = 0.0;
};

// Measures every step of a generation, without the time of its callback, and ends it on Ctrl-C once there is
// something to keep: the prompt is one step, which may take long.
class StepTimer {
 public:
  /// `shows` them on a bar: where no text appears meanwhile.
  void start(GenerateOptions& options, bool shows) {
    if (shows) bar_.emplace("generating", ProgressUnit::steps);
    begin_ = std::chrono::steady_clock::now();
    options.on_tokens = [this, callback = options.on_tokens,
                         most = options.max_new_tokens](const at::Tensor& tokens) {
      if (steps_++ == 0) {
        prompt_done_ = std::chrono::steady_clock::now();
        guard_.emplace();
      }
      if (bar_) bar_->show(static_cast<std::uint64_t>(steps_), static_cast<std::uint64_t>(most));
      const bool wanted = callback ? callback(tokens) : true;
      return wanted && !interrupted();
    };
  }
  Seconds end() {
    bar_.reset();
    const auto now = std::chrono::steady_clock::now();
    return {std::chrono::duration<double>(prompt_done_ - begin_).count(),
            std::chrono::duration<double>(now - prompt_done_).count()};
  }

 private:
  std::chrono::steady_clock::time_point begin_, prompt_done_;
  int steps_ = 0;
  std::optional<InterruptGuard> guard_;
  std::optional<ProgressBar> bar_;
};

std::string_view reason_text(StopReason reason) {
  switch (reason) {
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::callback:
      return "interrupt";  // nothing else ends this program's generations from outside
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

// Why each row ended.
Json reasons_json(const GenerateResult& result) {
  auto reasons = Json::array();
  for (const auto reason : result.stopped) reasons.push_back(reason_text(reason));
  return reasons;
}

Json result_json(const GenerateResult& result, const HookedTransformer& model, const GivenInput& given,
                 const Seconds& seconds) {
  const Input& input = given.input;
  auto rows = Json::array();
  Json json = model_json(model), prompts;
  add_tokens(input, prompts);
  for (std::int64_t row = 0; row < input.batch(); ++row) {
    const auto ids = new_tokens(result, row, input.length());
    const auto made = static_cast<std::int64_t>(ids.size());
    const auto r = static_cast<std::size_t>(row);
    rows.push_back({{"prompt_ids", prompts["tokens"][r]},
                    {"ids", ids},
                    {"text", result.texts.empty() ? Json(nullptr) : Json(result.texts[r])},
                    {"log_probs", numbers_json(result.log_probs[row].narrow(0, 0, made))},
                    {"stopped", reason_text(result.stopped[r])}});
    if (prompts.contains("decoder_tokens")) rows.back()["decoder_prompt_ids"] = prompts["decoder_tokens"][r];
  }
  json["rows"] = std::move(rows);
  json["around"] = given.around;
  json["seconds"] = {{"prefill", seconds.prefill}, {"decode", seconds.decode}};
  json["not_finite"] = not_finite_json(result.notes);
  return json;
}

// The file can also be an input (--tokens-file): an encoder's input is `tokens`, and the decoder's tokens
// after it are `decoder_tokens`.
void save_captured(const GenerateCommandOptions& options, const HookedTransformer& model,
                   const GivenInput& given, const GenerateResult& result) {
  const Input& input = given.input;
  SaveCacheOptions save{.provenance = provenance_of(model, given), .overwrite = overwrite_of(options.force)};
  Provenance& from = save.provenance;
  from.edits = options.edits.texts;
  from.more["stopped"] = json_text(reasons_json(result));
  if (!options.prompt_edits.empty()) from.more["prompt_edits"] = json_text(options.prompt_edits);
  if (!options.new_token_edits.empty()) from.more["new_token_edits"] = json_text(options.new_token_edits);
  const auto add = [&](std::string name, const at::Tensor& rows) {
    save.beside.push_back({std::move(name), rows, {Axis::batch, Axis::pos}});
  };
  if (input.feeds_encoder()) add("tokens", input.tokens);
  const std::string prefix = input.feeds_encoder() ? "decoder_" : "";
  add(prefix + "tokens", result.tokens);
  add(prefix + "attention_mask", result.attention_mask.to(at::kLong));
  ProgressBar bar("saving");
  save.progress = bar.progress();
  result.cache.save(options.out, save);
}

void flush(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// A single row appears as it is generated; several rows are shown at the end.
class Stream {
 public:
  Stream(const GenerateCommandOptions& options, const Input& input, const HookedTransformer& model,
         GenerateOptions& generate) {
    if (options.json || input.batch() > 1) return;
    if (model.has_tokenizer()) {
      // An answer is not a continuation of the question.
      if (options.input.texts.size() == 1 && options.input.texts.front() != "-" && !options.input.chat.chat)
        start_ = options.input.texts.front();
      generate.on_text = [this](std::string_view text) {
        begin();
        flush(text);
        streamed_ += text.size();
        return true;
      };
    } else {
      generate.on_tokens = [first = true](const at::Tensor& tokens) mutable {
        flush(fmt::format("{}{}", first ? "" : ",", tokens.item<std::int64_t>()));
        first = false;
        return true;
      };
    }
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The prompt's text, once: a refusal before the first token then leaves no output.
  void begin() { flush(std::exchange(start_, std::string())); }

  /// The rest of the text: an interrupt leaves characters that later tokens could have changed.
  void finish(const GenerateResult& result) {
    begin();
    if (result.texts.size() == 1) flush(std::string_view(result.texts.front()).substr(streamed_));
  }

 private:
  std::string start_;
  std::size_t streamed_ = 0;  // bytes
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

// What the model's files ask for about sampling, unless the command line says how tokens are picked.
std::vector<std::string> sampling_notes(const GenerateCommandOptions& options,
                                        const std::vector<std::string>& of_model) {
  std::vector<std::string> notes;
  if (options.greedy || options.temperature || options.top_k || options.top_p || options.min_p) return notes;
  std::ranges::copy_if(of_model, std::back_inserter(notes),
                       [](const std::string& note) { return note.ends_with(kPickedByOptions); });
  return notes;
}

template <typename Value>
void take(const std::optional<Value>& given, Value& option) {
  if (given) option = *given;
}

GenerateOptions generate_options(const GenerateCommandOptions& options, const HookedTransformer& model,
                                 const Input& input) {
  GenerateOptions generate;
  take(options.max_new_tokens, generate.max_new_tokens);
  auto& sampling = generate.sampling;
  sampling.greedy = options.greedy;
  take(options.temperature, sampling.temperature);
  take(options.top_k, sampling.top_k);
  take(options.top_p, sampling.top_p);
  take(options.min_p, sampling.min_p);
  take(options.repetition_penalty, sampling.repetition_penalty);
  take(options.frequency_penalty, sampling.frequency_penalty);
  take(options.seed, sampling.seed);
  generate.stop.strings = options.stop_strings;
  if (options.ignores_stop_tokens) generate.stop.tokens.emplace();
  if (!options.stop_tokens.empty()) generate.stop.tokens = options.stop_tokens;
  generate.edits = read_edits(options.edits, model, input);
  generate.prompt_edits = read_edits({options.prompt_edits, options.edits.from_model}, model, input);
  generate.new_token_edits = read_edits({options.new_token_edits, options.edits.from_model}, model, input);
  if (!options.capture.empty()) generate.capture = Selection(options.capture);
  return generate;
}

}  // namespace

void perform(const GenerateCommandOptions& options) {
  require_can_write(options.out, ActivationCache::require_can_save,
                    CommandReads(options).add(options.prompt_edits).add(options.new_token_edits),
                    options.force);
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const Input& input = given.input;
  auto generate = generate_options(options, model, input);
  Stream stream(options, input, model, generate);
  StepTimer timer;
  timer.start(generate, options.json || input.batch() > 1);
  const auto result = model.generate(input, generate);
  const auto seconds = timer.end();
  // Shown first, so that a full disk does not lose what was generated.
  if (options.json) {
    print_json(result_json(result, model, given, seconds));
  } else {
    stream.finish(result);
    print_rows(result, input);
  }
  std::fflush(stdout);
  print_notes(result.notes);
  print_notes(sampling_notes(options, model.notes()));
  if (options.out.empty()) return;
  save_captured(options, model, given, result);
  if (!options.json) {
    fmt::print("{}: {} activations over {} positions\n", options.out, result.cache.size(),
               result.tokens.size(1));
  }
}

}  // namespace hooked::cli
