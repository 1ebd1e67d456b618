// hooked run: next-token table and loss.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/text_notes.h"
#include "core/json.h"
#include "core/number_text.h"
#include "core/token_ranks.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"

namespace hooked::cli {
namespace {

/// One guess for the token after a position.
struct Guess {
  std::int64_t id;
  std::optional<std::string> piece;
  double logit;
  double probability;
};

/// A token that the user asked about.
struct AskedToken {
  Guess guess;
  double rank;  ///< how many tokens have a larger logit; NaN if a logit is NaN
};

/// The likeliest tokens after one position of one row, and those that the user asked about.
struct NextTokens {
  std::int64_t row;
  std::int64_t position;
  std::vector<Guess> guesses;
  std::vector<AskedToken> asked;
};

std::optional<std::string> piece_of(const HookedTransformer& model, std::int64_t id) {
  if (!model.has_tokenizer()) return std::nullopt;
  const Tokenizer& tokenizer = model.tokenizer();
  // An encoder's head may have more logits than the embedding has rows.
  if (id >= model.config().d_vocab) return std::nullopt;
  return tokenizer.piece(id);
}

// Whether logits are about tokens; those of a score head are about labels.
bool predicts_tokens(const ModelConfig& config) { return config.d_vocab_out() >= config.d_vocab; }

// `logits` [vocab]
std::vector<Guess> likeliest(const at::Tensor& logits, std::int64_t top_k, const HookedTransformer& model) {
  const auto row = logits.to(at::kCPU, at::kDouble);
  const auto probabilities = at::softmax(row, -1);
  const auto [values, ids] = at::topk(row, std::min(top_k, row.size(0)));
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto id = ids[i].item<std::int64_t>();
    guesses.push_back({id, predicts_tokens(model.config()) ? piece_of(model, id) : std::nullopt,
                       values[i].item<double>(), probabilities[id].item<double>()});
  }
  return guesses;
}

// `logits` [vocab]
std::vector<AskedToken> asked_tokens(const at::Tensor& logits, const std::vector<std::int64_t>& ids,
                                     const HookedTransformer& model) {
  const auto row = logits.to(at::kCPU, at::kDouble);
  const auto probabilities = at::softmax(row, -1);
  std::vector<AskedToken> asked;
  for (const std::int64_t id : ids) {
    require_among(id, row);
    const at::Tensor logit = row.narrow(0, id, 1);
    asked.push_back({{id, piece_of(model, id), logit.item<double>(), probabilities[id].item<double>()},
                     token_ranks(logit, row).item<double>()});
  }
  return asked;
}

std::vector<NextTokens> next_tokens(const RunCommandOptions& options, const Input& input,
                                    const HookedTransformer& model, const at::Tensor& logits) {
  const std::vector<std::int64_t> asked = ids_of_choice(options.answers, model);
  std::vector<NextTokens> rows;
  for (std::int64_t row = 0; row < input.batch(); ++row) {
    for (const auto position : columns_in_row(options.positions, input, row)) {
      rows.push_back({row, position, likeliest(logits[row][position], options.top_k, model),
                      asked_tokens(logits[row][position], asked, model)});
    }
  }
  return rows;
}

// Mean over the predictions whose two tokens are real; NaN if there are none. A model that sees both sides of
// a position is not asked for the token after it.
double loss_of(const ModelConfig& config, const Input& input, const at::Tensor& logits) {
  const bool predicts = config.direction == AttentionDirection::causal && predicts_tokens(config);
  if (!predicts || input.length() < 2) return NAN;
  const auto real = input.main_mask().defined() ? input.main_mask().ne(0) : at::Tensor();
  return next_token_loss(logits, input.main_tokens(), real).item<double>();
}

Json guess_json(const HookedTransformer& model, const Guess& guess) {
  return next_token_json(model, guess.id, guess.logit, guess.probability);
}

Json result_json(const HookedTransformer& model, const GivenInput& given, const std::vector<NextTokens>& rows,
                 double loss) {
  auto list = Json::array();
  for (const auto& row : rows) {
    auto next = Json::array(), answers = Json::array();
    for (const Guess& guess : row.guesses) next.push_back(guess_json(model, guess));
    for (const auto& [guess, rank] : row.asked) {
      answers.push_back(guess_json(model, guess));
      answers.back()["rank"] = std::isnan(rank) ? Json(nullptr) : Json(static_cast<std::int64_t>(rank));
    }
    list.push_back({{"row", row.row},
                    {"position", position_in_row(given.input, row.row, row.position)},
                    {"next", std::move(next)},
                    {"answers", std::move(answers)}});
  }
  Json json = model_json(model);
  json["rows"] = std::move(list);
  json["loss"] = number_json(loss);
  json["logits_centred"] = model.config().logits_centred();
  add_tokens(given, json);
  return json;
}

std::string token_text(const HookedTransformer& model, std::int64_t id) {
  if (!piece_of(model, id)) return std::to_string(id);
  return fmt::format("'{}' ({})", model.tokenizer().printable_piece(id), id);
}

// Ranks count from 0, here as in every output.
void print_guesses(const HookedTransformer& model, const NextTokens& row) {
  const bool with_pieces = model.has_tokenizer();
  std::vector<Table::Column> columns = {{"rank", Align::right}, {"id", Align::right}};
  if (with_pieces) columns.push_back({"token"});
  columns.push_back({model.config().logits_centred() ? "logit (centred)" : "logit", Align::right});
  columns.push_back({"probability", Align::right});
  Table table(std::move(columns));
  const auto add = [&](std::size_t rank, const Guess& guess) {
    std::vector<std::string> cells = {std::to_string(rank), std::to_string(guess.id)};
    if (with_pieces) cells.push_back(guess.piece ? model.tokenizer().printable_piece(guess.id) : "");
    cells.push_back(fixed_text(guess.logit, 4));
    cells.push_back(probability_text(guess.probability, 4));
    table.add(std::move(cells));
  };
  for (std::size_t i = 0; i < row.guesses.size(); ++i) add(i, row.guesses[i]);
  table.print("  ");
  for (const auto& [guess, rank] : row.asked) {
    fmt::print("  answer {}: rank {}, logit {}, probability {}\n", token_text(model, guess.id),
               fixed_text(rank, 0), fixed_text(guess.logit, 4), probability_text(guess.probability, 4));
  }
}

void print_result(const HookedTransformer& model, const Input& input, const std::vector<NextTokens>& rows,
                  double loss) {
  for (const auto& row : rows) {
    if (&row != &rows.front()) fmt::print("\n");
    // A bidirectional model predicts the token at a position, not the one after it.
    const bool causal = model.config().direction == AttentionDirection::causal;
    fmt::print("row {}, {} position {}, token {}\n", row.row, causal ? "after" : "at", row.position,
               token_text(model, input.main_tokens()[row.row][row.position].item<std::int64_t>()));
    print_guesses(model, row);
  }
  if (std::isfinite(loss)) fmt::print("\nloss {:.4f} nats per predicted token\n", loss);
  if (model.config().logits_centred()) print_logits_centred();
}

}  // namespace

void perform(const RunCommandOptions& options) {
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const Input& input = given.input;
  const auto edits = read_edits(options.edits, model, input);
  // Before the run, so that a wrong --positions costs nothing.
  for (std::int64_t row = 0; row < input.batch(); ++row) columns_in_row(options.positions, input, row);
  const auto result = model.run(input, {.edits = edits});
  const std::vector<std::string> notes = notes_of(result);
  print_notes(notes);
  const auto rows = next_tokens(options, input, model, result.logits());
  print_notes(answer_notes({&options.answers}, model, input, read_positions(options.positions, input).front(),
                           edits));
  const double loss = loss_of(model.config(), input, result.logits());
  if (options.json) {
    Json json = result_json(model, given, rows, loss);
    json["not_finite"] = not_finite_json(notes);
    return print_json(json);
  }
  print_result(model, input, rows, loss);
}

}  // namespace hooked::cli
