#include "hooked/report/report.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "analysis/graphs/graph_targets.h"
#include "analysis/places/row_columns.h"
#include "analysis/work/work_clock.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/graph_links.h"
#include "hooked/analysis/graph_pruning.h"
#include "hooked/analysis/head_runs.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/repetition.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"
#include "io/files/path_text.h"
#include "report/page_content.h"
#include "report/section_code.h"

namespace hooked {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The ids of a prompt, [1, pos].
at::Tensor tokens_of(const HookedTransformer& model, const Prompt& prompt, PrependBos prepend_bos) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return model.to_tokens(*text, {.prepend_bos = prepend_bos});
  return at::tensor(std::get<std::vector<std::int64_t>>(prompt), at::kLong).unsqueeze(0);
}

/// The same as its ids if nothing is put around its text, which no option of the commands says.
Prompt spelled(const HookedTransformer& model, const Prompt& prompt, PrependBos prepend_bos) {
  if (prepend_bos != PrependBos::nothing) return prompt;
  const at::Tensor ids = tokens_of(model, prompt, prepend_bos).flatten();
  return std::vector<std::int64_t>(ids.const_data_ptr<std::int64_t>(),
                                   ids.const_data_ptr<std::int64_t>() + ids.numel());
}

Answers answers_of(const HookedTransformer& model, const std::vector<PromptToken>& tokens) {
  std::vector<std::int64_t> ids;
  for (const PromptToken& token : tokens) {
    const auto* text = std::get_if<std::string>(&token);
    ids.push_back(text != nullptr ? model.to_token(*text) : std::get<std::int64_t>(token));
  }
  return Answers::any_of(std::move(ids));
}

/// How surprising each token of a run [1, pos] was, in nats; NaN for the first.
Grid surprises(const at::Tensor& logits, const at::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  const at::Tensor values = at::full({length}, kNan, at::kDouble);
  if (length > 1)
    values.slice(0, 1).copy_(
        -token_log_probs(logits[0].slice(0, 0, length - 1).to(at::kCPU), tokens[0].slice(0, 1).to(at::kCPU)));
  return Grid(values, {numbered_axis("pos", length)},
              {.title = "surprise: -log p of the token", .unit = "nats"});
}

/// The parts of heads in an attribution [part] as [layer, head].
Grid by_head(const Grid& parts, const HookedTransformer& model) {
  const ModelConfig& config = model.config();
  const at::Tensor values = at::full({config.n_layers, config.n_heads}, kNan, at::kDouble);
  const GridAxis& axis = parts.axes()[0];
  for (std::size_t i = 0; i < axis.places.size(); ++i) {
    if (!axis.places[i]) continue;
    const ActivationName& name = axis.places[i]->name();
    const AxisIndex* head = axis.places[i]->indices().find(Axis::head);
    const auto* number = head == nullptr ? nullptr : std::get_if<std::int64_t>(&head->value);
    if (number == nullptr || (name.site != Site::z && name.site != Site::result) ||
        name.stack != config.main_stack())
      continue;
    values[name.layer][*number] = parts.at({static_cast<std::int64_t>(i)});
  }
  return Grid(values, {numbered_axis("layer", config.n_layers), numbered_axis("head", config.n_heads)},
              {.title = "Heads: " + parts.title(), .unit = parts.unit()});
}

/// The work in hand, section by section.
class ReportWork {
 public:
  ReportWork(const HookedTransformer& model, const Prompt& prompt, const ReportOptions& options)
      : model_(model),
        prompt_(spelled(model, prompt, options.prepend_bos)),
        options_(options),
        tokens_(tokens_of(model, prompt, options.prepend_bos)),
        run_(model.run_with_cache(
            tokens_, kept(model),
            {.output = model.config().has_unembedding() ? Output::logits : Output::none})),
        page_(model, run_.cache, {.title = options.title, .model_name = options.model_name}),
        code_(model, prompt_, options_),
        total_(5 + (options.corrupted ? 1 : 0) + std::ssize(model.dictionaries()) + (options.graph ? 1 : 0)) {
    if (options.answers.empty() && model.config().has_unembedding())
      options_.answers = {run_.logits()[0][-1].argmax().item<std::int64_t>()};
    if (options.corrupted) options_.corrupted = spelled(model, *options.corrupted, options.prepend_bos);
    for (const std::string& note : run_.notes) page_.add_note(note);
    for (const std::filesystem::path& folder : options.examples) read_examples(folder);
  }

  Page page() {
    section("Tokens", "Each token by how surprising it was to the model, and what would come next after it.",
            code_.of_prompt(kTokensSource), [&] { tokens(); });
    section(
        "Logit lens",
        "What the model would predict if it stopped at a point of the residual stream: the likeliest token.",
        code_.of_prompt(kLensSource), [&] { lens(); });
    section("Attention", "Where each head looks.", code_.of_prompt(kAttentionSource),
            [&] { page_.add_attention(Input(tokens_)); });
    section("Scores of heads", "How much of their attention heads give to tokens of a kind.",
            code_.of_prompt(kScoresSource), [&] { scores(); });
    section("What writes the answer",
            "Direct logit attribution at the last token: what each part adds to the logit of the answer" +
                std::string(options_.against.empty() ? "." : ", minus that of what it is compared with."),
            code_.of_prompt(kAttributionSource), [&] { attribution(); });
    if (options_.corrupted) {
      section("Activation patching",
              "The corrupted prompt's run with one activation of this prompt's: the share of the answer that "
              "comes back. 0 is the corrupted run, 1 this prompt's.",
              code_.of_pair(kPatchingSource), [&] { patching(); });
    }
    for (const StandingDictionary& each : model_.dictionaries()) {
      const Address features = act::sae_acts_post(Address(each.output));
      const Examples& examples = examples_[features.to_string()];
      section(
          "Features of " + each.output.to_string(),
          "The features of the dictionary that are strongest on this text, and the tokens whose logits they "
          "raise and lower.",
          code_.of_prompt(kFeaturesSource, &each, /*dictionaries=*/true, examples.folder),
          [&] { page_.add_features(run_.cache, features, {.count = options_.features}, 5, examples.found); });
    }
    if (options_.graph) {
      const bool neurons = options_.graph->are_neurons();
      section(
          "Attribution graph",
          fmt::format("Which tokens and {} lead to the next token, with attention patterns and the scales of "
                      "norms held.",
                      neurons ? "neurons" : "features"),
          code_.of_prompt(neurons ? kNeuronsSource : kGraphSource, nullptr, /*dictionaries=*/!neurons),
          [&] { graph(); });
    }
    if (goes_on()) return std::move(page_);
    page_.add_note("The report was ended early: the last sections are missing.");
    return std::move(page_);
  }

 private:
  /// What a harvest found of a dictionary; nothing by default.
  struct Examples {
    std::filesystem::path folder;
    FeatureExamples found;
  };

  static Selection kept(const HookedTransformer& model) {
    Selection selection = act::defaults;
    if (!model.dictionaries().empty()) selection = selection | act::sae_output | act::sae_acts_post;
    return selection;
  }

  /// Of a harvest, which must be about dictionaries of the model.
  void read_examples(const std::filesystem::path& folder) {
    for (auto& [codes, examples] : FeatureExamples::load(folder)) {
      const ActivationName name = Address(codes).name();
      if (!run_.cache.contains(name)) {
        throw HookError(codes, fmt::format("{} has examples of these codes, which no dictionary of the model "
                                           "computes; expected a harvest with the report's dictionaries",
                                           path_text(folder)));
      }
      require_examples_of(model_, name, examples);
      examples_.insert_or_assign(codes, Examples{folder, std::move(examples)});
    }
  }

  /// Whether the work continues.
  bool goes_on() {
    if (!ended_ && options_.progress && !options_.progress(clock_.at(done_, total_))) ended_ = true;
    return !ended_;
  }
  std::function<bool(const SweepProgress&)> watch() {
    return [this](const SweepProgress&) { return goes_on(); };
  }

  /// A section, whose figures `fill` adds. What the model does not have is said in their place.
  template <typename Fill>
  void section(const std::string& title, const std::string& about, const SectionCode& code,
               const Fill& fill) {
    if (!goes_on()) return;
    page_.begin({.title = title, .about = about, .code = code});
    try {
      fill();
    } catch (const HookError& error) {
      page_.add_text(fmt::format("Not in this report: {}", error.what()));
    } catch (const ConfigError& error) {
      page_.add_text(fmt::format("Not in this report: {}", error.what()));
    }
    ++done_;
  }

  void require_unembedding(const char* where) const {
    if (model_.config().has_unembedding()) return;
    throw HookError(where,
                    "the model has no unembedding, so that nothing comes next; expected one that predicts "
                    "tokens");
  }

  void tokens() {
    require_unembedding("tokens");
    // After a bidirectional model's token comes what it has read already.
    if (!model_.config().bidirectional(model_.config().main_stack()))
      page_.add_tokens(surprises(run_.logits(), tokens_));
    page_.add_next(run_.logits());
  }

  void lens() {
    page_.add_lens(logit_lens(model_, run_.cache, {.positions = {}, .top_k = 5, .progress = watch()}));
  }

  void scores() {
    const auto report = head_scores_report(
        model_, tokens_,
        {.scores = {HeadScore::previous_token, HeadScore::current_token, HeadScore::first_token},
         .progress = watch()});
    for (const Grid& grid : report.scores) page_.add_heat_map(grid);
    if (!model_.config().has_unembedding() || model_.config().has_encoder()) return;
    RepeatedTokensOptions repeated = repeated_tokens_of(model_);
    const std::int64_t context = model_.config().n_ctx - (repeated.bos >= 0 ? 1 : 0);
    repeated.half = std::min({repeated.half, repeated.vocab_end - repeated.vocab_begin, context / 2});
    if (repeated.half < 2) return;
    const auto random = head_scores_report(
        model_, repeated_random_tokens(repeated),
        {.scores = {HeadScore::duplicate_token, HeadScore::induction}, .progress = watch()});
    page_.add_text("On random tokens that are repeated once:");
    for (const Grid& grid : random.scores) page_.add_heat_map(grid);
  }

  /// `“ Mary”`: the first token of an answer.
  std::string words_of(const std::vector<PromptToken>& tokens) const {
    const auto id = answers_of(model_, tokens).of_row(0).front();
    return fmt::format("“{}”", token_texts(model_, at::tensor({id}, at::kLong)).front());
  }

  void attribution() {
    require_unembedding("attribution");
    AttributionOptions how{.answer = answers_of(model_, options_.answers), .progress = watch()};
    if (!options_.against.empty()) how.against = answers_of(model_, options_.against);
    const auto of_grain = [&](Grain grain) {
      how.grain = grain;
      return direct_logit_attribution(model_, run_.cache, how).mean("row").mean("pos");
    };
    const std::string about = "Parts of the logit of " + words_of(options_.answers) +
                              (options_.against.empty() ? "" : " against " + words_of(options_.against));
    page_.add_bars(without_zeros(of_grain(Grain::layer)).with_title(about));
    page_.add_heat_map(by_head(of_grain(Grain::head).with_title(about), model_));
  }

  /// [part] without parts of 0, which the model does not have.
  static Grid without_zeros(const Grid& parts) {
    const at::Tensor kept = parts.values().ne(0).nonzero().flatten();
    GridAxis axis{.name = parts.axes()[0].name, .labels = {}};
    for (std::int64_t i = 0; i < kept.size(0); ++i)
      axis.labels.push_back(parts.axes()[0].labels[static_cast<std::size_t>(kept[i].item<std::int64_t>())]);
    return Grid(parts.values().index_select(0, kept), {axis}, {.title = parts.title(), .unit = parts.unit()});
  }

  void patching() {
    const PromptPairs pairs(model_,
                            {{.clean = prompt_,
                              .corrupted = *options_.corrupted,
                              .answers = options_.answers,
                              .against = options_.against}},
                            {.prepend_bos = options_.prepend_bos});
    const Metrics metric = options_.against.empty() ? logit(pairs.answers())
                                                    : logit_difference(pairs.answers(), pairs.against());
    const auto number = [](const Grid& grid) { return grid.values().item<double>(); };
    const double zero = number(hooked::scores(model_, pairs.corrupted(), metric)),
                 one = number(hooked::scores(model_, pairs.clean(), metric));
    page_.add_text(fmt::format("This prompt scores {:.4g}, the corrupted one {:.4g}.", one, zero));
    Selection places = act::resid_pre | act::attn_out | act::mlp_out | act::z;
    const auto clean = model_.run_with_cache(pairs.clean(), places, {.output = Output::none});
    const SweepOptions how{
        .from = clean.cache, .into = pairs.corrupted(), .metric = metric, .progress = watch()};
    for (const char* preset : {"block_every", "attn_head_out_all_pos"}) {
      if (ended_) return;
      const Grid found = sweep(model_, patching_preset(preset), how);
      page_.add_heat_map(zero == one ? found : found.rescaled(zero, one, "share of the answer"));
    }
  }

  void graph() {
    const AttributionGraph whole = attribute_graph(plain(), *options_.graph, tokens_, {.watch = watch()});
    for (const std::string& note : whole.notes) page_.add_text(note);
    const GraphScores scores = graph_scores(whole);
    page_.add_text(fmt::format("{} of {} active features; replacement score {:.3g}, completeness {:.3g}.",
                               whole.features, whole.active, scores.replacement, scores.completeness));
    page_.add_picture(node_link_svg(node_links(pruned(whole), 150)));
  }

  /// The model without dictionaries: a graph replaces MLPs itself.
  HookedTransformer plain() const {
    HookedTransformer plain = model_;
    while (!plain.dictionaries().empty())
      plain = plain.without_dictionary(plain.dictionaries().front().output);
    return plain;
  }

  const HookedTransformer& model_;
  Prompt prompt_;
  ReportOptions options_;  // with an answer if the model predicts one
  at::Tensor tokens_;
  RunResult run_;
  Page page_;
  CodeWriter code_;
  std::map<std::string, Examples> examples_;  // by names of codes
  WorkClock clock_;
  std::int64_t done_ = 0, total_;
  bool ended_ = false;
};

}  // namespace

Page report(const HookedTransformer& model, const Prompt& prompt, const ReportOptions& options) {
  if (model.config().has_encoder())
    throw HookError("report",
                    "the model has two stacks; expected one with a single stack, whose tokens a page is "
                    "about");
  if (options.answers.empty() && (options.corrupted || !options.against.empty()))
    throw HookError(
        "report",
        "no answer says what is scored; expected answers in addition to a corrupted prompt and to "
        "what an answer is compared with");
  return ReportWork(model, prompt, options).page();
}

}  // namespace hooked
