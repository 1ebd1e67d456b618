// Text in and out of a model: its tokenizer, and the tokens around a text.
#include "engine/model_text.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/id_list.h"
#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "loading/config/tokenizer_files.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

const Tokenizer& tokenizer_of(const LoadedModel& model) {
  if (model.tokenizer_problem) throw *model.tokenizer_problem;
  if (!model.tokenizer) {
    throw TokenizerError("tokenizer",
                         "this model has no tokenizer; expected a tokenizer.json next to its weights; pass "
                         "token ids instead of text");
  }
  return *model.tokenizer;
}

namespace {

std::vector<std::int64_t> ids_of_row(const at::Tensor& ids) {
  if (ids.dim() > 2 || (ids.dim() == 2 && ids.size(0) != 1)) {
    throw TokenizerError("ids", "these are several rows; expected one, [pos] or [1, pos]");
  }
  return id_list(ids);
}

TokensAround with_bos(TokensAround around, std::int64_t bos) {
  if (!around.before.empty() && around.before.front() == bos) return around;
  around.before.insert(around.before.begin(), bos);
  around.why = "prepend_bos is yes";
  return around;
}

TokensAround without_bos(TokensAround around, const std::optional<std::int64_t>& bos) {
  if (!bos || std::erase(around.before, *bos) == 0) return around;
  around.why = "prepend_bos is no";
  return around;
}

TokensAround chosen_around(const LoadedModel& model, PrependBos choice) {
  const Tokenizer& tokenizer = tokenizer_of(model);
  if (choice == PrependBos::by_default) return tokens_around(tokenizer, model.config);
  if (choice == PrependBos::nothing) return {{}, {}, "none are asked for"};
  const auto bos = tokenizer.bos_id();
  TokensAround by_file = tokenizer.around().value_or(TokensAround{{}, {}, "no file says that there are any"});
  if (choice == PrependBos::no) return without_bos(std::move(by_file), bos);
  if (choice == PrependBos::file) return by_file;
  if (!bos) {
    throw TokenizerError(
        "prepend_bos",
        "this model's tokenizer has no BOS token; expected a bos_token in tokenizer_config.json");
  }
  return with_bos(std::move(by_file), *bos);
}

// The tokens around one text. A BOS token that no file asks for is not put before its own spelling.
TokensAround around_text(const std::vector<std::int64_t>& ids, const LoadedModel& model, PrependBos choice) {
  TokensAround around = chosen_around(model, choice);
  const bool asked_for = choice != PrependBos::by_default || tokenizer_of(model).around();
  if (!asked_for && !ids.empty() && !around.before.empty() && ids.front() == around.before.front())
    return {{}, {}, "the text begins with the BOS token"};
  return around;
}

std::vector<std::int64_t> encode(const LoadedModel& model, std::string_view text,
                                 const TextOptions& options) {
  std::vector<std::int64_t> ids =
      tokenizer_of(model).encode(text, {.added_tokens = options.added_tokens}).ids;
  const TokensAround around = around_text(ids, model, options.prepend_bos);
  ids.insert(ids.begin(), around.before.begin(), around.before.end());
  ids.insert(ids.end(), around.after.begin(), around.after.end());
  if (ids.empty()) throw TokenizerError("text", "the text has no tokens; expected at least one");
  return ids;
}

}  // namespace

at::Tensor tokens_of(const LoadedModel& model, std::string_view text, const TextOptions& options) {
  return at::tensor(encode(model, text, options), at::kLong).unsqueeze(0).to(model.device);
}

bool HookedTransformer::has_tokenizer() const { return model_->tokenizer.has_value(); }

Tokenizer HookedTransformer::tokenizer() const { return tokenizer_of(*model_); }

TokensAround HookedTransformer::tokens_around(const TextOptions& options) const {
  return chosen_around(*model_, options.prepend_bos);
}

at::Tensor HookedTransformer::to_tokens(std::string_view text, const TextOptions& options) const {
  return tokens_of(*model_, text, options);
}

at::Tensor HookedTransformer::to_chat_tokens(const std::vector<ChatMessage>& messages,
                                             const ChatOptions& options) const {
  return to_tokens(tokenizer_of(*model_).chat_text(messages, options), {.prepend_bos = PrependBos::nothing});
}

Input HookedTransformer::to_token_batch(const std::vector<std::string>& texts,
                                        const TextOptions& options) const {
  if (texts.empty()) throw TokenizerError("texts", "the list is empty; expected at least one text");
  std::vector<std::vector<std::int64_t>> rows;
  std::size_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(encode(*model_, text, options));
    longest = std::max(longest, rows.back().size());
  }
  std::vector<at::Tensor> tokens, masks;
  for (const std::vector<std::int64_t>& row : rows) {
    const auto length = static_cast<std::int64_t>(row.size());
    const std::int64_t missing = static_cast<std::int64_t>(longest) - length;
    // Padding is masked, so any id will do unless positions are counted by the padding token.
    const at::Tensor ids = at::tensor(row, at::kLong);
    const at::Tensor padding = at::full({missing}, model_->padding_token.value_or(0), at::kLong);
    const at::Tensor real = at::ones({length}, at::kBool), unreal = at::zeros({missing}, at::kBool);
    const bool left = options.padding_side == PaddingSide::left;
    tokens.push_back(left ? at::cat({padding, ids}) : at::cat({ids, padding}));
    masks.push_back(left ? at::cat({unreal, real}) : at::cat({real, unreal}));
  }
  return {at::stack(tokens).to(model_->device), {.attention_mask = at::stack(masks).to(model_->device)}};
}

std::vector<TextPiece> HookedTransformer::to_pieces(std::string_view text, const TextOptions& options) const {
  const Tokenizer& tokenizer = tokenizer_of(*model_);
  const Encoding encoding = tokenizer.encode(text, {.added_tokens = options.added_tokens});
  const TokensAround around = around_text(encoding.ids, *model_, options.prepend_bos);
  std::vector<TextPiece> pieces;
  const auto add = [&](std::int64_t id, TextSpan span) {
    pieces.push_back({id, tokenizer.printable_piece(id), span});
  };
  for (const std::int64_t id : around.before) add(id, {});
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) add(encoding.ids[i], encoding.offsets[i]);
  for (const std::int64_t id : around.after) add(id, {});
  return pieces;
}

std::int64_t HookedTransformer::to_token(std::string_view text) const {
  return tokenizer_of(*model_).to_token(text);
}

std::string HookedTransformer::to_string(const at::Tensor& ids) const {
  return tokenizer_of(*model_).decode(ids_of_row(ids));
}

std::vector<std::string> HookedTransformer::to_str_tokens(const at::Tensor& ids) const {
  std::vector<std::string> pieces;
  for (const std::int64_t id : ids_of_row(ids)) pieces.push_back(tokenizer_of(*model_).printable_piece(id));
  return pieces;
}

}  // namespace hooked
