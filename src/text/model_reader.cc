#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "text/byte_characters.h"
#include "text/model.h"
#include "text/models/bpe.h"
#include "text/models/unigram.h"
#include "text/models/word_level.h"
#include "text/models/word_piece.h"

namespace hooked {
namespace {

constexpr std::array<std::string_view, 4> kTypes = {"BPE", "WordPiece", "WordLevel", "Unigram"};

// Old files do not name the model's type: it follows from the members.
std::string_view model_type(const JsonNode& node) {
  node.require_object();
  if (!node.member("type").is_null()) return node.type(kTypes);
  if (!node.member("merges").is_null()) return "BPE";
  if (!node.member("max_input_chars_per_word").is_null()) return "WordPiece";
  if (node.member("vocab").json().is_array()) return "Unigram";
  node.member("type").refuse(fmt::format("is missing; expected a string"));
}

Vocabulary read_vocabulary(const JsonNode& node) {
  Vocabulary vocabulary;
  node.for_each_member([&](std::string_view piece, const JsonNode& id) {
    if (const auto refusal = vocabulary.add(piece, id.integer())) id.refuse(*refusal);
  });
  return vocabulary;
}

std::unique_ptr<const Model> read_word_level(const JsonNode& node) {
  auto vocabulary = read_vocabulary(node.member("vocab"));
  // A file may name an unknown token that it does not have; then a word outside the vocabulary is an error.
  std::optional<std::int64_t> unknown;
  if (const auto piece = node.member("unk_token"); !piece.is_null()) unknown = vocabulary.find(piece.text());
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
}

std::unique_ptr<const Model> read_word_piece(const JsonNode& node) {
  return std::make_unique<WordPieceModel>(
      read_vocabulary(node.member("vocab")),
      WordPieceModel::Options{
          .unknown = node.member("unk_token").text(),
          .continuing_prefix = node.member("continuing_subword_prefix").text(),
          .longest_word =
              node.member("max_input_chars_per_word").count(std::numeric_limits<std::int32_t>::max())});
}

std::unique_ptr<const Model> read_unigram(const JsonNode& node) {
  const auto vocab = node.member("vocab");
  vocab.require_array();
  const auto count = vocab.json().size();
  if (count > static_cast<std::size_t>(Vocabulary::kIds)) {
    vocab.refuse(fmt::format("has {} pieces; expected at most {}", count, Vocabulary::kIds));
  }
  Vocabulary vocabulary;
  std::vector<double> scores;
  scores.reserve(count);
  for (std::size_t id = 0; id < count; ++id) {
    const auto entry = vocab.item(id);
    if (!entry.json().is_array() || entry.json().size() != 2)
      entry.refuse("is no pair; expected [piece, score]");
    const auto score = entry.item(1).number();
    if (!std::isfinite(score)) entry.item(1).refuse("is not finite; expected a log-probability");
    vocabulary.append(entry.item(0).text());
    scores.push_back(score);
  }
  UnigramModel::Options options;
  options.byte_fallback = node.member("byte_fallback").boolean_or(false);
  if (const auto unknown = node.member("unk_id"); !unknown.is_null()) {
    if (count == 0) unknown.refuse("names a piece of an empty vocabulary; expected null");
    options.unknown = static_cast<std::int64_t>(unknown.count(count - 1));
  }
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

// A merge as two pieces: "left right" or ["left", "right"].
std::pair<std::string_view, std::string_view> read_merge(const JsonNode& node) {
  if (node.json().is_array()) {
    if (node.json().size() != 2) node.refuse("is no pair; expected two pieces");
    return {node.item(0).text(), node.item(1).text()};
  }
  const std::string_view text = node.text();
  const auto blank = text.find(' ');
  if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
    node.refuse(fmt::format("is \"{}\"; expected two pieces with one blank between them", printable(text)));
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

MergeTable read_merges(const JsonNode& list, const Vocabulary& vocabulary, std::size_t prefix_bytes) {
  list.require_array();
  const auto count = list.json().size();
  MergeTable merges(count);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = list.item(i);
    // The header of a merges.txt has come along in some files.
    if (entry.json().is_string() && entry.text().starts_with("#version")) continue;
    const auto [left, right] = read_merge(entry);
    const auto id_of = [&](std::string_view piece) {
      const auto id = vocabulary.find(piece);
      if (!id) {
        entry.refuse(
            fmt::format("needs the piece \"{}\", which the vocabulary lacks; expected pieces of the "
                        "vocabulary, also for what two are joined to",
                        printable(piece)));
      }
      return static_cast<std::int32_t>(*id);
    };
    const auto left_id = id_of(left);
    const auto right_id = id_of(right);
    if (right.size() < prefix_bytes)
      entry.refuse("joins a piece without the continuing prefix; expected it with");
    merges.add(left_id, right_id, {rank++, id_of(std::string(left).append(right.substr(prefix_bytes)))});
  }
  return merges;
}

std::optional<std::string> text_if_any(const JsonNode& node) {
  if (node.is_null()) return std::nullopt;
  return node.text();
}

std::unique_ptr<const Model> read_bpe(const JsonNode& node, WordSpelling spelling) {
  if (const auto dropout = node.member("dropout"); !dropout.is_null() && dropout.number() != 0) {
    dropout.refuse(
        fmt::format("is {}; expected null or 0: with dropout the same text has other tokens each time",
                    dropout.number()));
  }
  auto vocabulary = read_vocabulary(node.member("vocab"));
  BpeModel::Options options{.unknown = text_if_any(node.member("unk_token")),
                            .continuing_prefix = node.member("continuing_subword_prefix").text_or(""),
                            .end_suffix = node.member("end_of_word_suffix").text_or(""),
                            .fuse_unknown = node.member("fuse_unk").boolean_or(false),
                            .byte_fallback = node.member("byte_fallback").boolean_or(false),
                            .ignore_merges = node.member("ignore_merges").boolean_or(false),
                            .spelling = spelling};
  auto merges = read_merges(node.member("merges"), vocabulary, options.continuing_prefix.size());
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace

bool model_reads_bytes(const JsonNode& node) {
  if (model_type(node) != "BPE" || !node.member("continuing_subword_prefix").text_or("").empty() ||
      !node.member("end_of_word_suffix").text_or("").empty() ||
      node.member("byte_fallback").boolean_or(false)) {
    return false;
  }
  // Characters that are left out shift the offsets of those behind them by their spelled length.
  if (!node.member("unk_token").is_null()) return true;
  std::size_t bytes = 0;
  node.member("vocab").for_each_key([&](std::string_view piece) {
    const auto spelled = piece.size() <= 2 ? spelled_bytes(piece) : std::nullopt;
    if (spelled && spelled->size() == 1) ++bytes;
  });
  return bytes == 256;
}

std::unique_ptr<const Model> read_model(const JsonNode& node, WordSpelling spelling) {
  const auto type = model_type(node);
  if (type == "BPE") return read_bpe(node, spelling);
  if (type == "WordPiece") return read_word_piece(node);
  if (type == "WordLevel") return read_word_level(node);
  return read_unigram(node);
}

}  // namespace hooked
