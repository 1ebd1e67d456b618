#include "hooked/text/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/tokenizer_rules.h"
#include "text/unicode.h"

namespace hooked {
namespace {

void append(Encoding& encoding, const Tokenizer::Rules& rules, std::int64_t id, TextSpan span) {
  encoding.ids.push_back(id);
  encoding.pieces.push_back(*rules.vocabulary.piece(id));
  encoding.offsets.push_back(span);
}

std::int64_t word_id(const Tokenizer::Rules& rules, std::string_view word, std::size_t byte) {
  if (const auto id = rules.vocabulary.find(word)) return *id;
  if (rules.unknown) return *rules.unknown;
  throw TokenizerError(
      "text", fmt::format("the word \"{}\" at byte {} is not in the vocabulary, and this tokenizer has no "
                          "unknown token; expected words of its vocabulary only",
                          printable(word), byte));
}

[[noreturn]] void refuse_id(std::string_view where, std::int64_t id, const Vocabulary& vocabulary) {
  throw TokenizerError(where, fmt::format("no piece has the id {}; expected an id of the vocabulary, 0 to {}",
                                          id, vocabulary.size() - 1));
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const auto file = is_folder ? path / "tokenizer.json" : path;
  if (is_folder && !std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) {
    throw TokenizerError(
        printable(path.native()),
        "has no tokenizer; expected a file tokenizer.json in this folder; pass token ids instead of text");
  }
  auto rules = read_tokenizer_file(file);
  if (is_folder) read_tokenizer_config(path, rules);
  for (const auto* ids : {&rules.prefix, &rules.suffix}) {
    for (const auto id : *ids) {
      if (!rules.vocabulary.piece(id)) {
        refuse_id(printable(file.native()) + ": post_processor.special_tokens", id, rules.vocabulary);
      }
    }
  }
  return Tokenizer(std::make_shared<const Rules>(std::move(rules)));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (const auto byte = first_invalid_byte(text)) {
    throw TokenizerError("text", fmt::format("byte {} (0x{:02x}) is not valid UTF-8; expected UTF-8 text",
                                             *byte, static_cast<unsigned char>(text[*byte])));
  }
  Encoding encoding;
  if (options.add_special_tokens) {
    for (const auto id : rules_->prefix) append(encoding, *rules_, id, {});
  }
  const auto parts = options.parse_added_tokens ? rules_->added.split(text)
                                                : std::vector<AddedTokens::Part>{{{0, text.size()}, -1}};
  for (const auto& part : parts) {
    if (part.id >= 0) {
      append(encoding, *rules_, part.id, part.span);
      continue;
    }
    const auto begin = part.span.begin;
    const auto words = split_words(text.substr(begin, part.span.end - begin), rules_->pre_tokenizer);
    for (const auto& word : words) {
      const TextSpan span{begin + word.begin, begin + word.end};
      append(encoding, *rules_, word_id(*rules_, text.substr(span.begin, span.end - span.begin), span.begin),
             span);
    }
  }
  if (options.add_special_tokens) {
    for (const auto id : rules_->suffix) append(encoding, *rules_, id, {});
  }
  return encoding;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, const DecodeOptions& options) const {
  std::string text;
  bool first = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto* piece = rules_->vocabulary.piece(ids[i]);
    if (!piece) refuse_id(fmt::format("ids[{}]", i), ids[i], rules_->vocabulary);
    if (options.skip_special_tokens && rules_->added.special(ids[i])) continue;
    if (!first) text += ' ';
    first = false;
    text += *piece;
  }
  return text;
}

const std::string& Tokenizer::piece(std::int64_t id) const {
  const auto* piece = rules_->vocabulary.piece(id);
  if (!piece) refuse_id("id", id, rules_->vocabulary);
  return *piece;
}

std::optional<std::int64_t> Tokenizer::find(std::string_view piece) const noexcept {
  return rules_->vocabulary.find(piece);
}

std::int64_t Tokenizer::vocab_size() const noexcept { return rules_->vocabulary.size(); }

std::optional<std::int64_t> Tokenizer::bos_id() const noexcept { return rules_->bos; }

std::optional<std::int64_t> Tokenizer::eos_id() const noexcept { return rules_->eos; }

}  // namespace hooked
