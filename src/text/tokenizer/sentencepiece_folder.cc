#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "core/base64.h"
#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "text/classes/class_parts.h"
#include "text/classes/class_pipelines.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_forms.h"
#include "text/unicode/unicode.h"

// Note [SentencePiece files in a folder]
// transformers converts such a file to a tokenizer.json: pieces with their scores, or with all pairs of
// pieces that form a piece; the rules for characters; control and user-defined pieces as added tokens. A
// class numbers the pieces as its models do, and builds the rest as from a tokenizer.json (decision 93).

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;
using Kind = SentencePieceModel::Kind;

// A class of transformers that reads SentencePiece's files.
struct SentencePieceClass {
  std::string_view name;
  std::string_view built_as;  // the class whose pipeline it uses
  Kind kind;                  // whatever the file is
  void (*number)(SentencePieceModel& model, std::string_view where, const SideFiles& beside) = nullptr;
};

// Fairseq's dictionary begins with four tokens of its own, and ends with `<mask>`.
void number_as_fairseq(SentencePieceModel& model, std::string_view where, const SideFiles& beside) {
  constexpr std::size_t kReserved = 3;
  auto& pieces = model.pieces;
  const bool fits = pieces.size() > kReserved && pieces[0].type == Type::unknown &&
                    pieces[1].type == Type::control && pieces[2].type == Type::control;
  if (!fits) {
    throw TokenizerError(where,
                         "does not begin with an unknown piece and two control pieces; expected them, as "
                         "XLMRobertaTokenizer leaves them out");
  }
  const auto piece = [&](std::string_view key, Type type) {
    const auto token = beside.token(key, default_tokens("XLMRobertaTokenizer"));
    return SentencePieceModel::Piece{token.value_or("None"), 0, type};  // Python's word for no token
  };
  pieces.erase(pieces.begin(), pieces.begin() + kReserved);
  const SentencePieceModel::Piece own[] = {
      piece("bos_token", Type::control), piece("pad_token", Type::control), piece("eos_token", Type::control),
      piece("unk_token", Type::unknown)};
  pieces.insert(pieces.begin(), std::begin(own), std::end(own));
  pieces.push_back(piece("mask_token", Type::control));
}

// `<extra_id_99>` to `<extra_id_0>` come after the file's pieces.
void add_sentinels(SentencePieceModel& model, std::string_view, const SideFiles& beside) {
  constexpr std::int64_t kMost = 10000;
  const auto* options = beside.options();
  const bool counted = options && options->has("extra_ids");
  for (std::int64_t i = counted ? options->count("extra_ids", kMost) : 100; i-- > 0;)
    model.pieces.push_back({fmt::format("<extra_id_{}>", i), 0, Type::control});
}

constexpr SentencePieceClass kSentencePieceClasses[] = {
    {"LlamaTokenizer", "LlamaTokenizer", Kind::bpe},
    {"GemmaTokenizer", "GemmaTokenizer", Kind::bpe},
    {"T5Tokenizer", "T5Tokenizer", Kind::unigram, add_sentinels},
    {"MT5Tokenizer", "T5Tokenizer", Kind::unigram, add_sentinels},
    {"XLMRobertaTokenizer", "XLMRobertaTokenizer", Kind::unigram, number_as_fairseq},
};

const SentencePieceClass& class_named(std::string_view name, const SideFiles& beside) {
  std::vector<std::string> names;
  for (const auto& row : kSentencePieceClasses) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  beside.refuse_class(
      name, fmt::format("is not a class whose ids of SentencePiece's pieces are known; expected {}; in "
                        "Python AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a "
                        "tokenizer.json",
                        name_list(names)));
}

// Every pair of pieces that together form a piece, in the order of the joint pieces.
Json merges_of(const Json::object_t& vocabulary) {
  std::unordered_set<std::string_view> pieces;
  pieces.reserve(vocabulary.size());
  for (const auto& [piece, id] : vocabulary) pieces.insert(piece);
  Json merges = Json::array();
  for (const auto& [piece, id] : vocabulary) {
    const std::string_view whole = piece;
    for (std::size_t at = 1; at < whole.size(); ++at) {
      if (continues_character(whole[at])) continue;
      if (pieces.contains(whole.substr(0, at)) && pieces.contains(whole.substr(at)))
        merges.push_back(Json::array({std::string(whole.substr(0, at)), std::string(whole.substr(at))}));
    }
  }
  return merges;
}

Json model_of(const SentencePieceModel& model, Kind kind) {
  const auto unknown = model.first_of(Type::unknown);
  if (kind == Kind::unigram) {
    Json pieces = Json::array();
    for (const auto& piece : model.pieces) pieces.push_back(Json::array({piece.text, piece.score}));
    return {{"type", "Unigram"},
            {"unk_id", unknown},
            {"vocab", std::move(pieces)},
            {"byte_fallback", model.byte_fallback}};
  }
  Json::object_t pieces;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    pieces.emplace_back(model.pieces[id].text, static_cast<std::int64_t>(id));
  Json merges = merges_of(pieces);
  Json bpe = {{"type", "BPE"},
              {"unk_token", model.pieces[static_cast<std::size_t>(unknown)].text},
              {"fuse_unk", true},
              {"byte_fallback", model.byte_fallback},
              {"merges", std::move(merges)}};
  bpe["vocab"] = std::move(pieces);
  return bpe;
}

// The pieces that transformers turns into added tokens.
std::vector<Json> tokens_of(const SentencePieceModel& model) {
  std::vector<Json> tokens;
  for (const auto& piece : model.pieces) {
    if (piece.type != Type::control && piece.type != Type::user_defined) continue;
    tokens.push_back(
        {{"content", piece.text}, {"special", piece.type == Type::control}, {"normalized", false}});
  }
  return tokens;
}

// The pipeline of a model whose class does not have one of its own.
void add_plain_pipeline(const SentencePieceModel& model, Json& document) {
  Steps normalizer;
  if (!document["normalizer"].is_null()) normalizer.push_back(document["normalizer"]);
  normalizer.push_back(replace_step({{"String", " "}}, kBlank));
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizer)}};
  Steps decoder = {replace_step({{"String", kBlank}}, " ")};
  if (model.byte_fallback) decoder = blanks_and_bytes_steps();
  document["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoder)}};
}

// If the files give a piece's id to another token that is not a piece yet, the piece takes that token's name.
void rename_pieces(Json::object_t& pieces, const SideFiles& beside) {
  std::unordered_set<std::string> known;
  for (const auto& [piece, id] : pieces) known.insert(piece);
  Json::object_t renamed;
  std::map<std::size_t, std::string> names;
  for (const auto& token : beside.listed({})) {
    const auto id = token.at("id").get<std::size_t>();
    auto content = token.at("content").get<std::string>();
    if (id < pieces.size() && known.insert(content).second) names.emplace(id, std::move(content));
  }
  if (names.empty()) return;
  for (auto& [piece, id] : pieces) {
    const auto name = names.find(renamed.size());
    renamed.emplace_back(name == names.end() ? piece : name->second, id);
  }
  pieces = std::move(renamed);
}

// Which tokens begin and end a text, and whether a text gets them.
void take_ends(Tokenizer::Rules& rules, const SideFiles& beside, std::span<const DefaultToken> defaults) {
  rules.take_ends(beside, defaults);
  if (!rules.around && beside.names_ends()) rules.put_around(rules.around_by_keys(beside));
}

// The pipeline that a class of transformers builds from a model; `row` is null for a class without one.
Tokenizer::Rules rules_by_class(SentencePieceModel model, const SentencePieceClass* row,
                                const SideFiles& beside, std::string_view where) {
  ClassUse use{.name = row ? row->built_as : std::string_view(),
               .defaults = {},
               .vocabulary_extras = tokens_of(model)};
  if (row && row->number) row->number(model, printable(where), beside);
  const auto unknown = model.pieces[static_cast<std::size_t>(model.first_of(Type::unknown))].text;
  std::vector<DefaultToken> defaults = {{"unk_token", unknown}};
  if (model.bos) defaults.push_back({"bos_token", *model.bos});
  if (model.eos) defaults.push_back({"eos_token", *model.eos});
  use.defaults = row ? default_tokens(row->built_as) : defaults;
  Json document = {{"normalizer", nullptr}, {"model", model_of(model, row ? row->kind : model.kind)}};
  if (!model.precompiled_charsmap.empty()) {
    document["normalizer"] = {{"type", "Precompiled"},
                              {"precompiled_charsmap", encode_base64(model.precompiled_charsmap)}};
  }
  if (!row) add_plain_pipeline(model, document);
  if (!row && model.kind == Kind::bpe)
    rename_pieces(document["model"]["vocab"].get_ref<Json::object_t&>(), beside);
  auto notes = apply_class(use, document, beside).ids;
  auto rules = read_rules(std::move(document), where);
  if (rules.around) rules.around->why = fmt::format("the class {}", row->name);
  if (!row && model.add_dummy_prefix) {
    notes.emplace_back(
        "no blank is put before a text, as in AutoTokenizer, which reads this file without a class of its "
        "own; the package sentencepiece puts one there");
  }
  rules.notes.insert(rules.notes.end(), notes.begin(), notes.end());
  take_ends(rules, beside, use.defaults);
  return rules;
}

// The pipeline of a model as the package builds it: ids and decoded texts equal its own for the text between
// the `added` tokens, which are found in the text itself.
Tokenizer::Rules pipeline_of_package(const SentencePieceModel& model, std::vector<AddedToken> added,
                                     std::string_view where) {
  if (model.pieces.size() > static_cast<std::size_t>(Vocabulary::kIds)) {
    throw TokenizerError(
        where, fmt::format("has {} pieces; expected at most {}", model.pieces.size(), Vocabulary::kIds));
  }
  check_pieces(model, where);
  Vocabulary vocabulary;
  for (const auto& piece : model.pieces) vocabulary.append(piece.text);
  Tokenizer::Rules rules;
  try {
    rules.normalizer = make_sentencepiece_normalizer(model);
    rules.model = model.kind == Kind::bpe ? make_sentencepiece_bpe(model, std::move(vocabulary))
                                          : make_sentencepiece_unigram(model, std::move(vocabulary));
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(where, reason.what());
  }
  rules.decoder = make_sentencepiece_decoder(model);
  rules.added = AddedTokens(std::move(added), {});
  return rules;
}

// As the package uses a model. Its control pieces are special tokens.
Tokenizer::Rules rules_of_package(const SentencePieceModel& model, const SideFiles& beside,
                                  std::string_view where) {
  Vocabulary vocabulary;
  for (const auto& piece : model.pieces) vocabulary.append(piece.text);
  auto control = tokens_of(model);
  std::erase_if(control, [](const Json& token) { return !token.at("special").get<bool>(); });
  ClassTokens tokens;
  tokens.vocabulary_extras = std::move(control);
  const auto numbered = beside.number(vocabulary, tokens);
  auto added = numbered.values();
  for (auto& token : added) token.normalized = false;
  auto rules = pipeline_of_package(model, std::move(added), printable(where));
  rules.notes = numbered.notes();
  take_ends(rules, beside, {});
  return rules;
}

}  // namespace

Tokenizer::Rules read_sentencepiece(std::string_view bytes, std::string_view where, const SideFiles& beside) {
  auto model = read_sentencepiece_model(bytes, where);
  const auto name = sentencepiece_class(beside);
  if (name.empty()) return rules_of_package(model, beside, where);
  const auto* row = name == kAnyClass ? nullptr : &class_named(name, beside);
  check_pieces(model, printable(where));
  return rules_by_class(std::move(model), row, beside, where);
}

}  // namespace hooked::text
