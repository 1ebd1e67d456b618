// hooked sae: the features of dictionaries on a text, what changing them does, and how good a dictionary is.
#include <ATen/TensorOperators.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
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
#include "cli/text_notes.h"
#include "core/number_text.h"
#include "hooked/analysis/features.h"
#include "hooked/core/error.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

struct TokenLogit {
  std::int64_t token;
  double logit;
};

/// A feature that is shown.
struct ShownFeature {
  FiringFeature firing;
  std::vector<TokenLogit> raises, lowers;  ///< empty if its direction does not reach the logits
};

/// What is shown of a dictionary.
struct DictionaryOnText {
  StandingDictionary standing;
  double l0 = 0;  ///< features that fire at a token, on average
  std::vector<ShownFeature> features;
  std::optional<DictionaryQuality> quality;
};

/// A token after a position, without changes of features and with them.
struct ChangedToken {
  std::int64_t token;
  double logit[2], probability[2];
};

struct ChangedTokens {
  std::int64_t row, column;
  std::vector<ChangedToken> tokens;
};

Address features_at(const StandingDictionary& standing) {
  return act::sae_acts_post(Address(standing.output));
}

std::vector<TokenLogit> strongest(const at::Tensor& logits, std::int64_t count, bool raised) {
  const auto [values, ids] = at::topk(logits, std::min(count, logits.size(0)), 0, raised);
  std::vector<TokenLogit> tokens;
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    tokens.push_back({ids[i].item<std::int64_t>(), values[i].item<double>()});
  return tokens;
}

// Those that the command line asks for: the largest, or the named ones, which may fire nowhere.
std::vector<FiringFeature> shown_features(const SaeOptions& options, const DictionaryOnText& found,
                                          const CachedRun& run, const std::vector<Position>& positions) {
  FiringOptions firing{.positions = positions, .count = options.count};
  if (options.features.empty()) return firing_features(run.cache, features_at(found.standing), firing);
  firing.count = 0;
  const auto all = firing_features(run.cache, features_at(found.standing), firing);
  const std::int64_t features = found.standing.dictionary.config().features;
  std::vector<FiringFeature> shown;
  for (const std::int64_t feature : options.features) {
    if (feature < 0 || feature >= features) {
      throw ShapeError("--features",
                       fmt::format("feature {} does not exist; expected 0 to {}", feature, features - 1));
    }
    const auto it = std::ranges::find(all, feature, &FiringFeature::feature);
    shown.push_back(it == all.end() ? FiringFeature{feature, 0, 0, 0, 0, 0} : *it);
  }
  return shown;
}

void add_directions(const SaeOptions& options, const HookedTransformer& model, DictionaryOnText& found) {
  std::vector<std::int64_t> which;
  for (const ShownFeature& shown : found.features) which.push_back(shown.firing.feature);
  try {
    const at::Tensor logits = feature_logits(model, features_at(found.standing), which);
    for (std::size_t i = 0; i < which.size(); ++i) {
      const at::Tensor row = logits[static_cast<std::int64_t>(i)];
      found.features[i].raises = strongest(row, options.top_k, true);
      found.features[i].lowers = strongest(row, options.top_k, false);
    }
  } catch (const HookError& error) {
    print_notes({fmt::format("what features raise and lower is not shown: {}", error.what())});
  }
}

/// Looks at the dictionaries of a model on an input.
class FeatureReader {
 public:
  FeatureReader(const HookedTransformer& model, const SaeOptions& options, const GivenInput& given)
      : model_(model), options_(options), given_(given) {
    if (!options.positions.empty()) positions_ = read_positions(options.positions, given.input);
    if (model.dictionaries().size() > 1 && !options.changes.empty()) {
      throw UsageError(
          "--ablate and --clamp are of one dictionary, and there are several; expected one --dictionary, or "
          "--edit with the points of each");
    }
  }

  std::vector<DictionaryOnText> read(const Edits& edits) {
    const bool changes = !options_.changes.empty();
    const CachedRun run = model_.run_with_cache(
        given_.input, act::sae_acts_post,
        {.hooks = interrupt_hook(), .edits = edits, .output = changes ? Output::logits : Output::none});
    if (changes) unchanged_ = run.logits();
    notes_ = notes_of(run);
    std::vector<DictionaryOnText> all;
    for (StandingDictionary& standing : model_.dictionaries()) {
      DictionaryOnText& found =
          all.emplace_back(DictionaryOnText{.standing = std::move(standing), .features = {}, .quality = {}});
      const at::Tensor codes = run.cache[features_at(found.standing)];
      const at::Tensor mask = given_.input.main_mask();
      const at::Tensor real = mask.defined() ? mask.ne(0).to(codes.device()).unsqueeze(-1) : at::Tensor();
      const at::Tensor fires = real.defined() ? codes.ne(0).logical_and(real) : codes.ne(0);
      const double tokens =
          real.defined() ? real.sum().item<double>() : static_cast<double>(codes.size(0) * codes.size(1));
      found.l0 = fires.sum().item<double>() / tokens;
      for (const FiringFeature& firing : shown_features(options_, found, run, positions_))
        found.features.push_back({.firing = firing, .raises = {}, .lowers = {}});
      add_directions(options_, model_, found);
    }
    return all;
  }

  /// Adds the quality of each, until Ctrl-C.
  void measure(std::vector<DictionaryOnText>& all) const {
    for (DictionaryOnText& found : all) {
      if (interrupted()) return;
      WatchedWork work("measuring " + found.standing.output.to_string());
      auto quality = dictionary_quality(model_, features_at(found.standing), given_.input, work.progress());
      if (quality.tokens > 0) found.quality = std::move(quality);  // else it was interrupted in the first run
    }
  }

  /// What the changes do to the next tokens, after read() with the same edits.
  std::vector<ChangedTokens> change(const Edits& edits) {
    const StandingDictionary standing = std::move(model_.dictionaries().front());
    Edits changed = edits;
    for (const auto& [feature, value] : options_.changes)
      changed.push_back(set(features_at(standing).feature(feature), value));
    const RunResult run = model_.run(given_.input, {.edits = changed});
    for (std::string& note : notes_of(run)) notes_.push_back(std::move(note));
    const at::Tensor after = run.logits();
    const auto asked = ids_of_choice(options_.answers, model_);
    std::vector<ChangedTokens> rows;
    for (std::int64_t row = 0; row < given_.input.batch(); ++row) {
      for (const auto column : columns_in_row({}, given_.input, row))
        rows.push_back(changed_tokens(row, column, unchanged_[row][column], after[row][column], asked));
    }
    return rows;
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  ChangedTokens changed_tokens(std::int64_t row, std::int64_t column, const at::Tensor& before,
                               const at::Tensor& after, const std::vector<std::int64_t>& asked) const {
    const at::Tensor logits[] = {before.to(at::kCPU, at::kDouble), after.to(at::kCPU, at::kDouble)};
    const at::Tensor probabilities[] = {at::softmax(logits[0], -1), at::softmax(logits[1], -1)};
    std::vector<std::int64_t> ids = asked;
    for (const at::Tensor& each : logits) {
      for (const TokenLogit& token : strongest(each, options_.top_k, true)) ids.push_back(token.token);
    }
    ChangedTokens made{.row = row, .column = column, .tokens = {}};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i), ids[i]) !=
          ids.begin() + static_cast<std::ptrdiff_t>(i))
        continue;
      require_among(ids[i], before);
      ChangedToken& token = made.tokens.emplace_back(ChangedToken{ids[i], {}, {}});
      for (const int side : {0, 1}) {
        token.logit[side] = logits[side][ids[i]].item<double>();
        token.probability[side] = probabilities[side][ids[i]].item<double>();
      }
    }
    return made;
  }

  const HookedTransformer& model_;
  const SaeOptions& options_;
  const GivenInput& given_;
  std::vector<Position> positions_;
  std::vector<std::string> notes_;
  at::Tensor unchanged_;  // logits of the run that was read, if there are changes
};

std::string pieces_text(const HookedTransformer& model, const std::vector<TokenLogit>& tokens) {
  std::string text;
  for (const auto& [token, logit] : tokens) text += (text.empty() ? "" : " ") + quoted_piece(model, token);
  return text;
}

void print_features(const HookedTransformer& model, const Input& input, const DictionaryOnText& found) {
  fmt::print("{}: {} features, {:.1f} fire at a token\n", found.standing.output.to_string(),
             grouped(found.standing.dictionary.config().features), found.l0);
  const bool directions = !found.features.empty() && !found.features.front().raises.empty();
  std::vector<Table::Column> columns = {{"feature", Align::right},
                                        {"largest", Align::right},
                                        {"at"},
                                        {"mean", Align::right},
                                        {"tokens", Align::right}};
  if (directions) columns.insert(columns.end(), {{"raises"}, {"lowers"}});
  Table table(std::move(columns));
  std::vector<double> sizes;
  for (const ShownFeature& shown : found.features) sizes.push_back(shown.firing.largest);
  const auto number = ColumnFormat::of(sizes, 3);
  for (const auto& [firing, raises, lowers] : found.features) {
    std::string at;
    if (firing.tokens > 0) {
      at = input.batch() > 1 ? fmt::format("row {}, {}", firing.row, firing.column)
                             : std::to_string(firing.column);
      at += " " + quoted_piece(model, input.main_tokens()[firing.row][firing.column].item<std::int64_t>());
    }
    std::vector<std::string> cells = {std::to_string(firing.feature), number(firing.largest), at,
                                      number(firing.mean), std::to_string(firing.tokens)};
    if (directions) cells.insert(cells.end(), {pieces_text(model, raises), pieces_text(model, lowers)});
    table.add(std::move(cells));
  }
  table.print("  ");
}

void print_quality(const DictionaryQuality& quality, std::int64_t features) {
  print_fields({{"tokens", grouped(quality.tokens)},
                {"features per token", fixed_text(quality.l0, 2)},
                {"explained variance", fixed_text(quality.explained_variance, 4)},
                {"loss", fmt::format("{} of the model, {} with the reconstruction, {} with zeros",
                                     fixed_text(quality.loss, 4), fixed_text(quality.spliced_loss, 4),
                                     fixed_text(quality.zero_loss, 4))},
                {"loss recovered", fixed_text(quality.recovered, 4)},
                {"never fire", fmt::format("{} of {} features", grouped(quality.dead), grouped(features))}});
}

void print_changes(const HookedTransformer& model, const SaeOptions& options,
                   const std::vector<ChangedTokens>& rows) {
  std::string what;
  for (const auto& [feature, value] : options.changes)
    what += fmt::format("{}{} = {}", what.empty() ? "" : ", ", feature, value);
  for (const ChangedTokens& row : rows) {
    fmt::print("\nrow {}, after position {}, with feature {}\n", row.row, row.column, what);
    Table table({{"token"},
                 {"logit", Align::right},
                 {"changed", Align::right},
                 {"probability", Align::right},
                 {"changed", Align::right}});
    for (const ChangedToken& token : row.tokens) {
      table.add({quoted_piece(model, token.token), fixed_text(token.logit[0], 4),
                 fixed_text(token.logit[1], 4), probability_text(token.probability[0], 4),
                 probability_text(token.probability[1], 4)});
    }
    table.print("  ");
  }
}

Json token_logits_json(const HookedTransformer& model, const std::vector<TokenLogit>& tokens) {
  auto list = Json::array();
  for (const auto& [id, logit] : tokens) {
    list.push_back(token_json(model, id));
    list.back()["logit"] = number_json(logit);
  }
  return list;
}

Json quality_json(const DictionaryQuality& quality) {
  return {{"tokens", quality.tokens},
          {"features_per_token", number_json(quality.l0)},
          {"explained_variance", number_json(quality.explained_variance)},
          {"loss", number_json(quality.loss)},
          {"spliced_loss", number_json(quality.spliced_loss)},
          {"zero_loss", number_json(quality.zero_loss)},
          {"recovered", number_json(quality.recovered)},
          {"dead", quality.dead},
          {"complete", quality.complete}};
}

Json dictionary_json(const HookedTransformer& model, const Input& input, const DictionaryOnText& found) {
  auto features = Json::array();
  for (const auto& [firing, raises, lowers] : found.features) {
    const bool fires = firing.tokens > 0;
    features.push_back(
        {{"feature", firing.feature},
         {"largest", number_json(firing.largest)},
         {"row", fires ? Json(firing.row) : Json(nullptr)},
         {"position", fires ? Json(position_in_row(input, firing.row, firing.column)) : Json(nullptr)},
         {"mean", number_json(firing.mean)},
         {"tokens", firing.tokens},
         {"raises", token_logits_json(model, raises)},
         {"lowers", token_logits_json(model, lowers)}});
  }
  Json json{{"reads", found.standing.input.to_string()},
            {"place", found.standing.output.to_string()},
            {"with_error", found.standing.with_error},
            {"features", found.standing.dictionary.config().features},
            {"features_per_token", number_json(found.l0)},
            {"firing", std::move(features)}};
  if (found.quality) json["quality"] = quality_json(*found.quality);
  return json;
}

Json changes_json(const HookedTransformer& model, const Input& input,
                  const std::vector<ChangedTokens>& rows) {
  auto list = Json::array();
  for (const ChangedTokens& row : rows) {
    auto next = Json::array();
    for (const ChangedToken& token : row.tokens) {
      next.push_back(next_token_json(model, token.token, token.logit[0], token.probability[0]));
      next.back()["changed_logit"] = number_json(token.logit[1]);
      next.back()["changed_probability"] = number_json(token.probability[1]);
    }
    list.push_back({{"row", row.row},
                    {"position", position_in_row(input, row.row, row.column)},
                    {"next", std::move(next)}});
  }
  return list;
}

}  // namespace

void perform(const SaeOptions& options) {
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const auto edits = read_edits(options.edits, model, given.input);
  FeatureReader reader(model, options, given);
  const InterruptGuard guard;
  print_notes(answer_notes({&options.answers}, model, given.input, Position::last(), edits));
  auto all = reader.read(edits);
  std::vector<ChangedTokens> changed;
  if (!options.changes.empty() && !interrupted()) changed = reader.change(edits);
  print_notes(reader.notes());
  if (options.quality) reader.measure(all);
  std::vector<std::string> rest;  // what Ctrl-C left undone
  if (changed.empty() && !options.changes.empty()) rest.emplace_back("what the changes do is not computed");
  if (options.quality && !std::ranges::all_of(all, [](const DictionaryOnText& found) {
        return found.quality && found.quality->complete;
      }))
    rest.emplace_back("the dictionaries are not measured on all rows");
  if (options.json) {
    Json json = model_json(model);
    json["dictionaries"] = Json::array();
    for (const auto& found : all) json["dictionaries"].push_back(dictionary_json(model, given.input, found));
    if (!options.changes.empty()) json["changes"] = changes_json(model, given.input, changed);
    json["complete"] = rest.empty();
    json["not_finite"] = not_finite_json(reader.notes());
    add_tokens(given, json);
    return print_json(json);
  }
  for (const auto& found : all) {
    if (&found != &all.front()) fmt::print("\n");
    print_features(model, given.input, found);
    if (!found.quality) continue;
    fmt::print("\n");
    print_quality(*found.quality, found.standing.dictionary.config().features);
  }
  if (!changed.empty()) print_changes(model, options, changed);
  if (!rest.empty()) print_ended_early(rest);
}

}  // namespace hooked::cli
