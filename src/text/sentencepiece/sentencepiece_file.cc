#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/sentencepiece/protobuf_reader.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace hooked::text {
namespace {

using Field = ProtobufReader::Field;

// Calls `read(field)` for each field of a message inside another, or of the whole file.
template <class Read>
void for_each_field(ProtobufReader reader, Read&& read) {
  while (const auto field = reader.next()) read(*field, reader);
}

template <class Read>
void for_each_field(const ProtobufReader& outer, const Field& field, Read&& read) {
  for_each_field(ProtobufReader(field.message(), outer.base_of(field)), std::forward<Read>(read));
}

SentencePieceModel::Piece read_piece(const ProtobufReader& outer, const Field& message) {
  SentencePieceModel::Piece piece;
  for_each_field(outer, message, [&](const Field& field, const ProtobufReader&) {
    if (field.number == 1) piece.text = field.text();
    if (field.number == 2) piece.score = field.number32();
    if (field.number != 3) return;
    if (field.count() < 1 || field.count() > 6) {
      throw std::invalid_argument(
          fmt::format("the type of the piece at byte {} is {}; expected 1 to 6", message.at, field.count()));
    }
    piece.type = static_cast<SentencePieceModel::Type>(field.count());
  });
  return piece;
}

SentencePieceModel::Kind read_kind(const Field& field) {
  if (field.count() == 1) return SentencePieceModel::Kind::unigram;
  if (field.count() == 2) return SentencePieceModel::Kind::bpe;
  const auto* name = field.count() == 3 ? " (words)" : field.count() == 4 ? " (characters)" : "";
  throw std::invalid_argument(
      fmt::format("trainer_spec.model_type is {}{}; expected 1 (unigram) or 2 (BPE)", field.count(), name));
}

void read_trainer_spec(const ProtobufReader& outer, const Field& message, SentencePieceModel& model) {
  // If a model does not have a token, its id is negative.
  constexpr std::uint64_t kLargestId = 0x7FFFFFFF;
  bool has_bos = true, has_eos = true;
  for_each_field(outer, message, [&](const Field& field, const ProtobufReader&) {
    if (field.number == 3) model.kind = read_kind(field);
    if (field.number == 24) model.treat_whitespace_as_suffix = field.boolean();
    if (field.number == 35) model.byte_fallback = field.boolean();
    if (field.number == 41) has_bos = field.value <= kLargestId;
    if (field.number == 42) has_eos = field.value <= kLargestId;
    if (field.number == 44) model.unk_surface = field.text();
    if (field.number == 46) model.bos = field.text();
    if (field.number == 47) model.eos = field.text();
  });
  if (!has_bos) model.bos.reset();
  if (!has_eos) model.eos.reset();
}

void read_normalizer_spec(const ProtobufReader& outer, const Field& message, SentencePieceModel& model) {
  for_each_field(outer, message, [&](const Field& field, const ProtobufReader&) {
    if (field.number == 2) model.precompiled_charsmap = field.message();
    if (field.number == 3) model.add_dummy_prefix = field.boolean();
    if (field.number == 4) model.remove_extra_whitespaces = field.boolean();
    if (field.number == 5) model.escape_whitespaces = field.boolean();
  });
}

void refuse_denormalizer(const ProtobufReader& outer, const Field& message) {
  for_each_field(outer, message, [&](const Field& field, const ProtobufReader&) {
    if (field.number == 2 && !field.message().empty()) {
      throw std::invalid_argument(
          "has rules for decoding (denormalizer_spec), which are not read; expected a model without them");
    }
  });
}

// Refuses an empty piece, a `known` piece, and more pieces than there are ids.
void require_new(const std::string& piece, std::size_t id, const Field& field,
                 std::unordered_set<std::string>& known) {
  if (piece.empty()) {
    throw std::invalid_argument(
        fmt::format("the piece {} at byte {} is empty; expected its spelling", id, field.at));
  }
  if (!known.insert(piece).second) {
    throw std::invalid_argument(
        fmt::format("the piece {} (\"{}\") at byte {} is there twice; expected pieces that differ", id,
                    printable(piece), field.at));
  }
  if (id >= static_cast<std::size_t>(Vocabulary::kIds))
    throw std::invalid_argument(fmt::format("has more than {} pieces; expected fewer", Vocabulary::kIds));
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, std::string_view where) {
  SentencePieceModel model;
  // Repeated pieces are refused already here: a file of nothing else would take ten times its size.
  std::unordered_set<std::string> known;
  try {
    for_each_field(ProtobufReader(bytes), [&](const Field& field, const ProtobufReader& whole) {
      if (field.number == 1) {
        model.pieces.push_back(read_piece(whole, field));
        require_new(model.pieces.back().text, model.pieces.size() - 1, field, known);
      }
      if (field.number == 2) read_trainer_spec(whole, field, model);
      if (field.number == 3) read_normalizer_spec(whole, field, model);
      if (field.number == 5) refuse_denormalizer(whole, field);
    });
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(where),
                         fmt::format("is not a SentencePiece model that can be read: {}; in Python "
                                     "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a "
                                     "tokenizer.json in its place",
                                     reason.what()));
  }
  return model;
}

}  // namespace hooked::text
