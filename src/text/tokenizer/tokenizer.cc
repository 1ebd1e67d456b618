#include "hooked/text/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "core/ahead.h"
#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "text/classes/class_pipelines.h"
#include "text/files/limited_files.h"
#include "text/files/side_files.h"
#include "text/strings/pre_tokenized.h"
#include "text/tokenizer/tokenizer_forms.h"
#include "text/tokenizer/tokenizer_rules.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

std::string spelling_without_text(std::int64_t id) { return fmt::format("<{}>", id); }

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// What somebody may mean by a text that is not one token: the text of a spelling in the vocabulary (`ĠMary`),
// and the word with or without a blank in front.
std::vector<std::string> other_spellings(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> others;
  const auto add = [&](std::string_view word) {
    if (word.empty()) return;
    others.push_back(fmt::format(" {}", word));
    others.emplace_back(word);
  };
  if (const auto id = tokenizer.find(text)) {
    const std::string decoded = tokenizer.decoded_piece(*id);
    others.push_back(decoded);
    add(trimmed(decoded));
  }
  add(trimmed(text));
  return others;
}

// The token of a text that is one token, and not an unknown one.
std::optional<std::int64_t> own_token(const Tokenizer& tokenizer, std::string_view text) {
  try {
    const auto ids = tokenizer.encode(text).ids;
    const bool own = ids.size() == 1 && trimmed(tokenizer.decoded_piece(ids.front())) == trimmed(text);
    return own ? std::optional(ids.front()) : std::nullopt;
  } catch (const TokenizerError&) {  // not UTF-8, or outside the vocabulary
    return std::nullopt;
  }
}

// Finds the added tokens and normalizes the text between them.
PreTokenized extract_added_tokens(const Tokenizer::Rules& rules, std::string_view text,
                                  AddedTokensInText choice) {
  struct Section {
    NormalizedString text;
    std::int64_t id;
  };
  std::vector<Section> sections;
  bool changed = false;
  for (const auto& part : rules.added.split(text, AddedTokens::Stage::original, choice)) {
    auto& section = sections.emplace_back(Section{{text, part.span}, part.id});
    if (part.id < 0 && rules.normalizer) rules.normalizer->apply(section.text);
    changed |= section.text.changed();
  }
  auto whole =
      changed ? NormalizedString::empty(text, text.size()) : NormalizedString(text, {0, text.size()});
  std::vector<Piece> pieces;
  std::size_t base = 0;
  for (const auto& section : sections) {
    const auto bytes = section.text.text().size();
    if (changed) {
      base = whole.text().size();
      whole.append(section.text, {0, bytes});
    } else {
      base = section.text.origin_begin();
    }
    if (section.id >= 0) {
      pieces.push_back({{base, base + bytes}, section.id});
      continue;
    }
    for (const auto& part : rules.added.split(section.text.text(), AddedTokens::Stage::normalized, choice)) {
      pieces.push_back({{base + part.span.begin, base + part.span.end}, part.id});
    }
  }
  return {std::move(whole), std::move(pieces)};
}

TokenList tokens_of(const Tokenizer::Rules& rules, const PreTokenized& text) {
  const auto& normalized = text.text();
  const bool texts_needed = rules.post_processor && rules.post_processor->trims_offsets();
  const auto unspelled = texts_needed ? rules.model->id_without_spelling() : std::nullopt;
  const auto encoder = rules.model->encoder(normalized.text().size());
  TokenList tokens;
  tokens.original = normalized.original();
  tokens.ids.reserve(text.pieces().size());
  tokens.offsets.reserve(text.pieces().size());
  std::vector<WordToken> word;
  for (const auto& piece : text.pieces()) {
    if (piece.id >= 0) {
      if (texts_needed) tokens.texts.emplace(tokens.ids.size(), text.text_of(piece));
      tokens.ids.push_back(piece.id);
      tokens.offsets.push_back(normalized.origin(piece.span));
      continue;
    }
    word.clear();
    try {
      encoder->encode(text.text_of(piece), word);
    } catch (const UnknownWord& unknown) {
      throw TokenizerError(
          "text",
          fmt::format(
              "the word \"{}\" at byte {} is not in the vocabulary, and this tokenizer has no unknown "
              "token; expected words of its vocabulary only",
              printable(unknown.word()), normalized.origin(piece.span).begin));
    }
    const auto bytes = piece.span.end - piece.span.begin;
    for (const auto& token : word) {
      if (unspelled == token.id) {
        tokens.texts.emplace(tokens.ids.size(),
                             text.text_of(piece).substr(token.span.begin, token.span.end - token.span.begin));
      }
      tokens.ids.push_back(token.id);
      // Pieces for the bytes of a suffix that is not in the text extend past the word's end; the tokenizers
      // package leaves their offsets relative to the word.
      tokens.offsets.push_back(
          token.span.end <= bytes
              ? normalized.origin({piece.span.begin + token.span.begin, piece.span.begin + token.span.end})
              : token.span);
    }
  }
  return tokens;
}

}  // namespace
}  // namespace hooked::text

namespace hooked {

Tokenizer::Tokenizer(std::shared_ptr<const Rules> rules) : rules_(std::move(rules), "tokenizer") {}

std::vector<std::string> Tokenizer::files_in(const std::filesystem::path& folder) {
  return text::tokenizer_files_in(folder);
}

std::span<const std::string_view> Tokenizer::file_names() noexcept { return text::tokenizer_file_names(); }

std::map<std::string, std::string> Tokenizer::read_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  const auto names = files_in(folder);
  for (const auto& name : names) {
    try {
      files.emplace(name, text::read_limited(folder / name, kFileBytes));
    } catch (const Error&) {
      if (!text::is_for_chats_alone(name)) throw;
    }
  }
  if (files.empty()) return files;
  const auto beside = text::SideFiles::read(folder);
  const auto json = files.find("tokenizer.json");
  const bool pieces = names.front().ends_with(".model") && !text::looks_like_tiktoken(files[names.front()]);
  auto config = json != files.end() ? beside.config_with_class(text::json_class(json->second, beside))
                : pieces            ? beside.config_with_class(text::sentencepiece_class(beside))
                                    : beside.config_with_class();
  if (config) files.insert_or_assign("tokenizer_config.json", *std::move(config));
  return files;
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return Tokenizer(std::make_shared<const Rules>(text::read_tokenizer_at(path)));
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name, std::string_view config) {
  const auto beside = config.empty() ? text::SideFiles() : text::SideFiles::parse(config, name);
  Rules rules = text::read_tokenizer(json, name, beside);
  rules.take_text_options(beside);
  if (!config.empty()) rules.take_chat(text::chat_templates_of(config, name));
  return Tokenizer(std::make_shared<const Rules>(std::move(rules)));
}

Tokenizer Tokenizer::for_vocabulary(std::int64_t d_vocab) const {
  Tokenizer padded = *this;
  padded.model_vocabulary_ = d_vocab;
  return padded;
}

const std::string* Tokenizer::find_piece(std::string_view where, std::int64_t id) const {
  const std::string* piece = rules_->piece(id);
  if (piece != nullptr || (id >= 0 && id < model_vocabulary_)) return piece;
  throw TokenizerError(where, fmt::format("no piece has the id {}; expected an id of the vocabulary, 0 to {}",
                                          id, std::max(rules_->size(), model_vocabulary_) - 1));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (const auto byte = first_invalid_byte(text)) {
    throw TokenizerError("text", fmt::format("byte {} (0x{:02x}) is not valid UTF-8; expected UTF-8 text",
                                             *byte, static_cast<unsigned char>(text[*byte])));
  }
  const bool splits = rules_->splits_special_tokens && options.added_tokens == AddedTokensInText::as_tokens;
  auto pieces = text::extract_added_tokens(
      *rules_, text, splits ? AddedTokensInText::special_as_text : options.added_tokens);
  for (const auto& step : rules_->pre_tokenizers) step->apply(pieces);
  auto tokens = text::tokens_of(*rules_, pieces);
  const text::Spelling spelling = [&](std::int64_t id) -> const std::string& { return *rules_->piece(id); };
  if (rules_->post_processor) {
    rules_->post_processor->apply(tokens,
                                  options.add_special_tokens ? text::PostProcessor::SpecialTokens::add
                                                             : text::PostProcessor::SpecialTokens::leave_out,
                                  spelling);
  }
  Encoding encoding{.ids = std::move(tokens.ids), .pieces = {}, .offsets = std::move(tokens.offsets)};
  encoding.pieces.reserve(encoding.ids.size());
  for (const auto id : encoding.ids) encoding.pieces.push_back(spelling(id));
  return encoding;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                              const BatchOptions& options) const {
  std::vector<Encoding> encodings(texts.size());
  std::vector<std::exception_ptr> errors(texts.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (auto i = next++; i < texts.size(); i = next++) {
      try {
        encodings[i] = encode(texts[i], options.encode);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const auto wanted =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  with_helpers(static_cast<std::int64_t>(std::min(wanted, texts.size())), [&](std::int64_t) { work(); });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return encodings;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto* known = rules_->piece(ids[i]);
    if (known == nullptr) known = find_piece(fmt::format("ids[{}]", i), ids[i]);
    if (known == nullptr) continue;
    const auto& piece = rules_->added.token(ids[i]) ? rules_->added.decoded(ids[i]) : *known;
    if (options.skip_special_tokens && rules_->added.special(piece)) continue;
    pieces.push_back(piece);
  }
  if (!rules_->decoder) return fmt::format("{}", fmt::join(pieces, " "));
  const auto end = options.more_follow ? text::End::more : text::End::closed;
  return fmt::format("{}", fmt::join(rules_->decoder->apply({std::move(pieces), end}).texts, ""));
}

std::int64_t Tokenizer::to_token(std::string_view text) const {
  const std::vector<std::int64_t> ids = encode(text).ids;
  if (ids.size() == 1) return ids.front();
  constexpr std::size_t kShown = 8;
  std::string pieces;
  for (std::size_t i = 0; i < std::min(ids.size(), kShown); ++i)
    pieces += fmt::format("{}'{}' ({})", i == 0 ? ": " : ", ", printable_piece(ids[i]), ids[i]);
  std::string hint;
  for (const std::string& other : text::other_spellings(*this, text)) {
    if (const auto id = text::own_token(*this, other)) {
      hint = fmt::format("; did you mean '{}', which is token {}?", printable(other), *id);
      break;
    }
  }
  throw TokenizerError(printable(text),
                       fmt::format("this text is not one token; expected exactly one, got {}{}{}{}",
                                   ids.size(), pieces, ids.size() > kShown ? ", ..." : "", hint));
}

std::string Tokenizer::piece(std::int64_t id) const {
  const std::string* piece = find_piece("id", id);
  return piece != nullptr ? *piece : text::spelling_without_text(id);
}

std::string Tokenizer::decoded_piece(std::int64_t id) const {
  const std::string* piece = find_piece("id", id);
  if (piece == nullptr) return text::spelling_without_text(id);
  if (!rules_->decoder || rules_->added.token(id)) return *piece;
  return rules_->decoder->bytes_of(*piece);
}

std::string Tokenizer::printable_piece(std::int64_t id) const { return printable(decoded_piece(id)); }

std::optional<std::int64_t> Tokenizer::find(std::string_view piece) const { return rules_->find(piece); }

std::int64_t Tokenizer::vocab_size() const { return rules_->size(); }

std::optional<std::int64_t> Tokenizer::bos_id() const { return rules_->bos; }

std::optional<std::int64_t> Tokenizer::eos_id() const { return rules_->eos; }

std::optional<std::int64_t> Tokenizer::special_id(std::string_view key) const {
  for (const auto& [name, spelling] : chat().special_tokens) {
    if (name == key) return find(spelling);
  }
  return std::nullopt;
}

const std::optional<TokensAround>& Tokenizer::around() const& { return rules_->around; }

const std::vector<std::string>& Tokenizer::notes() const& { return rules_->notes; }

std::string_view Tokenizer::kind() const { return rules_->model->kind(); }

const std::string& Tokenizer::form() const& { return rules_->form; }

const text::ChatTemplates& Tokenizer::chat() const { return chat_ ? *chat_ : rules_->chat; }

std::optional<std::string> Tokenizer::chat_template() const {
  const auto& found = chat();
  return found.templates.empty() || found.problem ? std::nullopt
                                                  : std::optional(found.templates.front().where);
}

Tokenizer Tokenizer::with_chat_template(std::string_view jinja, std::string_view name) const {
  Tokenizer other = *this;
  text::ChatTemplates only;
  only.templates = {{"default", std::string(name), std::string(jinja)}};
  only.special_tokens = chat().special_tokens;
  other.chat_ = std::make_shared<const text::ChatTemplates>(std::move(only));
  return other;
}

std::string Tokenizer::chat_text(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
  return chat().render(messages, options);
}

Encoding Tokenizer::to_chat_tokens(const std::vector<ChatMessage>& messages,
                                   const ChatOptions& options) const {
  return encode(chat_text(messages, options));
}

}  // namespace hooked
