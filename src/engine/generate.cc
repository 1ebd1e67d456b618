// Generation: the prompt is run once, then one column at a time, with a KV cache.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/id_list.h"
#include "core/parallel.h"
#include "core/to_device.h"
#include "engine/cache_origin.h"
#include "engine/column_runs.h"
#include "engine/generated_text.h"
#include "engine/generation_edits.h"
#include "engine/input_checks.h"
#include "engine/model_memory.h"
#include "engine/planned_run.h"
#include "engine/run_input.h"
#include "engine/sampling.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/padded_places.h"
#include "loading/fill/loaded_model.h"

namespace hooked {
namespace {

constexpr std::int64_t kMaxNewTokens = std::int64_t{1} << 30;
constexpr std::int64_t kNoToken = -1;  // passed to on_tokens for a row that has ended

void require_generation(const LoadedModel& model, const GenerateOptions& options) {
  require_sampling_options(options.sampling);
  if (options.max_new_tokens < 1 || options.max_new_tokens > kMaxNewTokens) {
    throw ConfigError("max_new_tokens",
                      fmt::format("the number of new tokens is out of range; expected 1 to {}, got {}",
                                  kMaxNewTokens, options.max_new_tokens));
  }
  const ModelConfig& config = model.config;
  if (config.direction == AttentionDirection::bidirectional) {
    throw ConfigError(
        "generate",
        "in this model tokens attend to those after them as well, so it does not continue text; "
        "expected a causal model");
  }
  if (config.d_vocab_out() != config.d_vocab) {
    throw ConfigError("generate",
                      fmt::format("the model predicts another vocabulary than it reads; expected two of "
                                  "one size, got {} and {}",
                                  config.d_vocab_out(), config.d_vocab));
  }
  if (options.keep.positions && std::holds_alternative<AxisIndex::Last>(options.keep.positions->value)) {
    throw HookError("positions", "'last' is another position at every step; expected numbers or ranges");
  }
  for (const std::int64_t stop : options.stop.tokens.value_or(std::vector<std::int64_t>())) {
    if (stop >= 0 && stop < config.d_vocab) continue;
    throw ConfigError("stop_tokens", fmt::format("token {} is not in the vocabulary; expected 0 to {}", stop,
                                                 config.d_vocab - 1));
  }
  for (const std::string& stop : options.stop.strings) {
    if (stop.empty()) throw ConfigError("stop_strings", "a stop string is empty; expected some text");
  }
  if ((options.on_text || !options.stop.strings.empty()) && !model.tokenizer) {
    throw TokenizerError(
        options.on_text ? "on_text" : "stop_strings",
        "this model has no tokenizer that can be used, so there is no text; expected on_tokens "
        "and stop_tokens instead");
  }
}

// Whether starting again would show the caller nothing twice.
template <typename Value>
bool may_repeat(const GenerateCallback<Value>& callback) {
  return !callback || callback.repeatable;
}

// The columns of a prefix were computed before.
void require_kept_behind_prefix(const Input& prompt, const GenerateOptions& options, std::int64_t end) {
  if (!options.keep.positions || !prompt.prefix) return;
  const AxisContext context{Site::resid_post, "keep.positions", {}};
  const std::int64_t length = prompt.first_column() + prompt.length();
  for (const std::int64_t position :
       resolve_places(*options.keep.positions, {context, Axis::pos, length, end})) {
    if (position >= prompt.first_column()) continue;
    throw HookError("keep.positions",
                    fmt::format("position {} is in the prefix, which this generation does not compute; "
                                "expected positions from {} on; join its cache with that of the prefix's run",
                                position, prompt.first_column()));
  }
}

// Each row's real tokens.
std::vector<std::vector<std::int64_t>> real_tokens(const Input& prompt) {
  const at::Tensor tokens = prompt.main_tokens().to(at::kCPU);
  const at::Tensor real = prompt.main_mask().defined() ? prompt.main_mask().to(at::kCPU) : at::Tensor();
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t row = 0; row < prompt.batch(); ++row) {
    rows.push_back(id_list(real.defined() ? tokens[row].index({real[row]}) : tokens[row]));
  }
  return rows;
}

class Generation {
 public:
  Generation(std::shared_ptr<const LoadedModel> model, const Hooks& scoped, const Input& prompt,
             const GenerateOptions& options)
      : model_(std::move(model)),
        scoped_(scoped),
        options_(options),
        prompt_(prompt),
        prompt_watch_(watch(options.prompt_edits, options.capture)),
        later_watch_(watch(options.new_token_edits, options.capture)),
        columns_(model_, prompt, prompt.first_column() + prompt.length() + options.max_new_tokens,
                 {.prompt = prompt_watch_,
                  .later = later_watch_,
                  .uncentred = reads_logit_sizes(options.sampling)},
                 options.eager),
        sampler_(options.sampling, to_device(prompt.main_tokens(), model_->placement.exit()),
                 prompt.main_mask(), model_->config.d_vocab),
        stop_tokens_(options.stop.tokens.value_or(model_->stop_tokens)),
        // The rows wait for the device.
        prompt_rows_(reads_rows() ? real_tokens(prompt) : decltype(prompt_rows_)()),
        rules_(model_->rules, prompt_rows_, {stop_tokens_, options.max_new_tokens}),
        ended_(static_cast<std::size_t>(prompt.batch())) {
    const RunExtent extent = columns_.extent_of_step(prompt_step());
    require_no_padding(*prompt_watch_.plan, extent);
    require_no_padding(*later_watch_.plan, {.encoder = extent.encoder});  // whose columns do not move
    if (model_->tokenizer) {
      for (const std::vector<std::int64_t>& row : prompt_rows_)
        texts_.emplace_back(*model_->tokenizer, row, options_.stop.strings);
    }
    if (trained_context()) {
      for (const std::vector<std::int64_t>& row : prompt_rows_)
        lengths_.push_back(static_cast<std::int64_t>(row.size()));
    }
  }

  GenerateResult finish() {
    at::Tensor logits = columns_.run(prompt_step(), prompt_watch_);
    for (std::int64_t made = 0;; ++made) {
      const bool more = pick_next(logits, made);
      // The last token need not be run, but captures cover it, too.
      if (!more && !later_watch_.plan->captures()) break;
      if (passed_trained_context_) run_all_again();
      logits = columns_.run(newest_step(), later_watch_);
      if (!more) break;
    }
    return result();
  }

 private:
  Step prompt_step() const {
    return {.tokens = prompt_.main_tokens(),
            .real = prompt_.main_mask(),
            .last = prompt_.main_mask().defined() ? prompt_.last_columns() : at::Tensor(),
            .is_prompt = true};
  }

  // The new tokens from the `from`-th on.
  Step new_step(std::size_t from) const {
    const bool one = from + 1 == tokens_.size();
    return {.tokens = one ? tokens_.back().unsqueeze(1) : at::stack(at::TensorList(tokens_).slice(from), 1),
            .real = real_since(from)};
  }
  Step newest_step() const { return new_step(tokens_.size() - 1); }

  // Which new tokens from the `from`-th on are real, [batch, pos] bool; undefined: all of them.
  at::Tensor real_since(std::size_t from) const {
    std::vector<at::Tensor> steps(reals_.begin() + static_cast<std::ptrdiff_t>(from), reals_.end());
    const auto all_are = [](const at::Tensor& real) { return !real.defined(); };
    if (std::all_of(steps.begin(), steps.end(), all_are)) return {};
    for (at::Tensor& real : steps) {
      if (!real.defined()) real = at::ones_like(tokens_.front(), at::kBool);
    }
    return at::stack(steps, 1);
  }

  // Number of tokens in each row, including the newest, [batch] int64.
  at::Tensor row_lengths() const { return to_device(lengths_, model_->device); }

  // Note [Keys that rotate again]
  // Under longrope all keys of a row are rotated with other frequencies once the row is longer than the
  // trained context. All columns are run again when the newest token crosses that limit, as transformers does
  // by dropping its cache.
  std::optional<std::int64_t> trained_context() const {
    const RotaryPositions* rotary = model_->config.rotary();
    const auto* longrope = rotary == nullptr ? nullptr : std::get_if<LongropeScaling>(&rotary->scaling);
    return longrope == nullptr ? std::nullopt
                               : std::optional(static_cast<std::int64_t>(longrope->original_n_ctx));
  }

  // Whether anything needs each row's tokens of the prompt.
  bool reads_rows() const { return model_->rules != TokenRules() || model_->tokenizer || trained_context(); }

  void run_all_again() {
    columns_.restart();
    Step prompt = prompt_step();
    prompt.row_lengths = row_lengths();
    columns_.run(prompt, watch(options_.prompt_edits, {}));
    if (tokens_.size() == 1) return;
    Step before = new_step(0);
    before.tokens = before.tokens.narrow(1, 0, before.tokens.size(1) - 1);
    if (before.real.defined()) before.real = before.real.narrow(1, 0, before.tokens.size(1));
    before.row_lengths = row_lengths();
    columns_.run(before, watch(options_.new_token_edits, {}));
  }

  // What is done at the points in steps of one kind; `more` are the edits that only these steps have.
  StepWatch watch(const Edits& more, const Selection& capture) const {
    RunOptions options{
        .hooks = options_.hooks, .edits = options_.edits, .capture = capture, .keep = options_.keep};
    options.edits.insert(options.edits.end(), more.begin(), more.end());
    auto plan = make_plan(*model_, reach_of(*model_, prompt_), scoped_, options);
    return {std::move(options), std::move(plan)};
  }

  // Picks the next token of every row that has not ended; returns whether any row continues.
  bool pick_next(const at::Tensor& logits, std::int64_t made) {
    const PickedTokens picked = sampler_.pick(logits, rules_);
    rules_.add(picked.here);
    std::vector<std::int64_t> reported = picked.here;
    std::vector<std::int64_t> continued;
    passed_trained_context_ = false;
    const bool last_step = made + 1 == options_.max_new_tokens;
    std::string piece;
    for (std::size_t r = 0; r < reported.size(); ++r) {
      continued.push_back(ended_[r] ? 0 : 1);
      if (ended_[r]) {
        reported[r] = kNoToken;
        continue;
      }
      const std::int64_t id = reported[r];
      if (!lengths_.empty()) passed_trained_context_ |= ++lengths_[r] == *trained_context() + 1;
      if (!texts_.empty()) piece = texts_[r].add(id);
      if (std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end()) {
        ended_[r] = StopReason::stop_token;
      } else if (!texts_.empty() && texts_[r].stopped()) {
        ended_[r] = StopReason::stop_string;
      } else if (last_step) {
        ended_[r] = StopReason::length;
      }
      if (ended_[r] && !texts_.empty()) {
        piece += texts_[r].finish();
        if (texts_[r].stopped()) ended_[r] = StopReason::stop_string;
      }
    }
    add_tokens(picked, continued);
    bool proceed = true;
    if (options_.on_text && !piece.empty()) proceed = options_.on_text(piece);
    if (options_.on_tokens) proceed = options_.on_tokens(at::tensor(reported, at::kLong)) && proceed;
    if (!proceed) {
      for (std::size_t r = 0; r < ended_.size(); ++r) {
        if (!ended_[r]) ended_[r] = StopReason::callback;
      }
    }
    return std::any_of(ended_.begin(), ended_.end(), [](const auto& reason) { return !reason; });
  }

  // Adds a column: the picked tokens, and padding in rows that had already ended.
  void add_tokens(const PickedTokens& picked, const std::vector<std::int64_t>& continued) {
    tokens_.push_back(to_device(picked.there, model_->device));
    reals_.emplace_back();
    log_probs_.push_back(to_device(picked.log_probs, model_->device));  // [batch]
    if (std::find(continued.begin(), continued.end(), 0) == continued.end()) return;
    const at::Tensor real = to_device(at::tensor(continued, at::kLong).to(at::kBool), model_->device);
    const at::Tensor ended = real.logical_not();
    tokens_.back() = tokens_.back().masked_fill(ended, padding());
    reals_.back() = real;
    log_probs_.back() = log_probs_.back().masked_fill(ended, 0.0);
  }

  std::int64_t padding() const { return stop_tokens_.empty() ? 0 : stop_tokens_.front(); }

  GenerateResult result() {
    GenerateResult result;
    const auto or_all = [](const at::Tensor& real, const at::Tensor& tokens) {
      return real.defined() ? real : at::ones_like(tokens, at::kBool);
    };
    const at::Tensor made = at::stack(tokens_, 1);
    result.tokens = at::cat({prompt_.main_tokens(), made}, 1);
    result.attention_mask =
        at::cat({or_all(prompt_.main_mask(), prompt_.main_tokens()), or_all(real_since(0), made)}, 1);
    result.log_probs = at::stack(log_probs_, 1);
    for (GeneratedText& text : texts_) {
      text.finish();
      result.texts.push_back(text.text());
    }
    for (const auto& reason : ended_) result.stopped.push_back(*reason);
    result.cache = columns_.take_captured();
    set_origin(result.cache, *model_, prompt_, result.tokens);
    result.notes = columns_.notes();
    return result;
  }

  const std::shared_ptr<const LoadedModel> model_;
  const Hooks& scoped_;
  const GenerateOptions& options_;
  const Input& prompt_;
  const StepWatch prompt_watch_, later_watch_;
  ColumnRuns columns_;
  Sampler sampler_;
  const std::vector<std::int64_t> stop_tokens_;
  const std::vector<std::vector<std::int64_t>>
      prompt_rows_;  // each row's real tokens, if anything reads them
  RuledTokens rules_;
  std::vector<GeneratedText> texts_;  // one per row; none without a tokenizer
  std::vector<std::optional<StopReason>> ended_;
  std::vector<std::int64_t> lengths_;           // each row's number of tokens; empty if nothing depends on it
  bool passed_trained_context_ = false;         // with the newest token
  std::vector<at::Tensor> tokens_, log_probs_;  // one per step, [batch]
  std::vector<at::Tensor> reals_;               // the same in bool; undefined: all rows continue
};

}  // namespace

GenerateResult HookedTransformer::generate(const Input& prompt, const GenerateOptions& options) const {
  const bool repeats = may_repeat(options.on_text) && may_repeat(options.on_tokens) &&
                       options.hooks.empty() && hooks_->empty();
  return with_memory(memory_of(*model_, kGenerateDoor, repeats ? Again::allowed : Again::refused),
                     [&] { return generate_once(prompt, options); });
}

GenerateResult HookedTransformer::generate_once(const Input& given, const GenerateOptions& options) const {
  const LoadedModel& model = *model_;
  model.require_mapped_file();
  const ThreadLimit limit(options.threads);
  require_generation(model, options);
  const Input prompt = check_input(model, given);
  if (prompt.start) {
    throw ShapeError("start_at_layer",
                     "a continuation follows tokens; expected a prompt of tokens, not a residual");
  }
  if (!prompt.first_columns.empty()) {
    throw ShapeError(
        "first_columns",
        "a continuation follows rows that begin together; expected none, and a prefix cut to where "
        "they begin");
  }
  if (prompt.token_types.defined()) {
    throw ShapeError("token_types",
                     "new tokens have no types of their own; expected a prompt without token types");
  }
  const std::int64_t end = prompt.first_column() + prompt.length() + options.max_new_tokens;
  require_room(model.config, "max_new_tokens", end);
  require_kept_behind_prefix(prompt, options, end);
  if (prompt.prefix) require_lasting_keys(model.config, end);
  if (options.on_text && prompt.batch() > 1) {
    throw ShapeError("on_text",
                     fmt::format("the text of several rows would be mixed up; expected a prompt of 1 "
                                 "row, got {}; use on_tokens",
                                 prompt.batch()));
  }
  const at::NoGradGuard no_grad;
  // The last token's column is computed only for captures.
  check_generation_edits(model, prompt, options, options.capture.empty() ? end - 1 : end);
  const Hooks scoped = hooks_->snapshot();
  GenerateResult made = Generation(loaded(), scoped, prompt, options).finish();
  model.require_mapped_file();  // afterwards as well: it may have been cut meanwhile
  return made;
}

}  // namespace hooked
