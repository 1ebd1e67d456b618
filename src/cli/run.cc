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
#include "cli/edit_options.h"
#include "cli/input_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/unsigned_nan.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

/// One guess for the token after a position.
struct Guess {
  std::int64_t id;
  std::optional<std::string> piece;
  double logit;
  double probability;
};

/// The likeliest tokens after one position of one row.
struct NextTokens {
  std::int64_t row;
  std::int64_t position;
  std::vector<Guess> guesses;
};

std::optional<std::string> piece_of(const HookedTransformer& model, std::int64_t id) {
  if (!model.has_tokenizer()) return std::nullopt;
  const Tokenizer& tokenizer = model.tokenizer();
  // An encoder's head may have more logits than the embedding has rows.
  if (id >= model.config().d_vocab) return std::nullopt;
  return tokenizer.piece(id);
}

// `logits` [vocab]
std::vector<Guess> likeliest(const at::Tensor& logits, std::int64_t top_k, const HookedTransformer& model) {
  const auto row = logits.to(at::kCPU, at::kDouble);
  const auto probabilities = at::softmax(row, -1);
  const auto [values, ids] = at::topk(row, std::min(top_k, row.size(0)));
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto id = ids[i].item<std::int64_t>();
    guesses.push_back({id, piece_of(model, id), values[i].item<double>(), probabilities[id].item<double>()});
  }
  return guesses;
}

std::vector<std::int64_t> positions_of_row(const RunCommandOptions& options, const Input& input,
                                           std::int64_t row) {
  if (options.positions.empty()) return {input.last_columns()[row].item<std::int64_t>()};
  auto positions = options.positions;
  for (auto& position : positions) {
    if (position < -input.length() || position >= input.length()) {
      throw ShapeError("--positions", fmt::format("position {} is out of range; expected {} to {}", position,
                                                  -input.length(), input.length() - 1));
    }
    if (position < 0) position += input.length();
  }
  return positions;
}

std::vector<NextTokens> next_tokens(const RunCommandOptions& options, const Input& input,
                                    const HookedTransformer& model, const at::Tensor& logits) {
  std::vector<NextTokens> rows;
  for (std::int64_t row = 0; row < input.batch(); ++row) {
    for (const auto position : positions_of_row(options, input, row)) {
      rows.push_back({row, position, likeliest(logits[row][position], options.top_k, model)});
    }
  }
  return rows;
}

// Mean over the predictions whose two tokens are real; nothing when there is none.
std::optional<double> loss_of(const Input& input, const at::Tensor& logits) {
  if (input.length() < 2) return std::nullopt;
  const auto real = input.main_mask().defined() ? input.main_mask().ne(0) : at::Tensor();
  const auto loss = next_token_loss(logits, input.main_tokens(), real).item<double>();
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

Json result_json(const Input& input, const std::vector<NextTokens>& rows, std::optional<double> loss) {
  auto list = Json::array();
  for (const auto& row : rows) {
    auto next = Json::array();
    for (const auto& guess : row.guesses) {
      next.push_back({{"id", guess.id},
                      {"piece", guess.piece ? Json(*guess.piece) : Json(nullptr)},
                      {"logit", guess.logit},
                      {"probability", guess.probability}});
    }
    list.push_back({{"row", row.row}, {"position", row.position}, {"next", next}});
  }
  Json json = {{"rows", list}, {"loss", loss ? Json(*loss) : Json(nullptr)}};
  add_tokens(input, json);
  return json;
}

std::string token_text(const HookedTransformer& model, std::int64_t id) {
  const auto piece = piece_of(model, id);
  return piece ? fmt::format("{} ({})", printable(*piece), id) : std::to_string(id);
}

void print_guesses(const NextTokens& row, bool with_pieces) {
  std::vector<Table::Column> columns = {{"rank", Align::right}, {"id", Align::right}};
  if (with_pieces) columns.push_back({"piece"});
  columns.push_back({"logit", Align::right});
  columns.push_back({"probability", Align::right});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < row.guesses.size(); ++i) {
    const auto& guess = row.guesses[i];
    std::vector<std::string> cells = {std::to_string(i + 1), std::to_string(guess.id)};
    if (with_pieces) cells.push_back(printable(guess.piece.value_or("")));
    cells.push_back(fmt::format("{:.4f}", unsigned_nan(guess.logit)));
    cells.push_back(fmt::format("{:.4f}", unsigned_nan(guess.probability)));
    table.add(std::move(cells));
  }
  table.print("  ");
}

void print_result(const HookedTransformer& model, const Input& input, const std::vector<NextTokens>& rows,
                  std::optional<double> loss) {
  for (const auto& row : rows) {
    if (&row != &rows.front()) fmt::print("\n");
    // A model that reads both ways says what stands at a position, not behind it.
    const bool causal = model.config().direction == AttentionDirection::causal;
    fmt::print("row {}, {} position {}, token {}\n", row.row, causal ? "after" : "at", row.position,
               token_text(model, input.main_tokens()[row.row][row.position].item<std::int64_t>()));
    print_guesses(row, model.has_tokenizer());
  }
  if (loss) fmt::print("\nloss {:.4f} nats per predicted token\n", *loss);
}

}  // namespace

void perform(const RunCommandOptions& options) {
  const auto model = load_model(options.model);
  const auto input = read_input(options.input, model).input;
  const auto edits = read_edits(options.edits, model, input);
  // Before the run, so that a wrong --positions costs nothing.
  for (std::int64_t row = 0; row < input.batch(); ++row) positions_of_row(options, input, row);
  const auto result = model.run(input, {.edits = edits});
  print_notes(result.notes);
  const auto rows = next_tokens(options, input, model, result.logits());
  // A model that sees both sides of a position is not asked for the token behind it.
  const bool causal = model.config().direction == AttentionDirection::causal;
  const auto loss = causal ? loss_of(input, result.logits()) : std::nullopt;
  if (options.json) return print_json(result_json(input, rows, loss));
  print_result(model, input, rows, loss);
}

}  // namespace hooked::cli
