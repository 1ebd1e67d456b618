#include "text/sentencepiece_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked::text {
namespace {

// How a class of transformers numbers the pieces of its file.
enum class PieceOrder : std::uint8_t {
  as_in_file,
  fairseq,    // `<s>`, `<pad>`, `</s>`, `<unk>` and then the file's pieces from its fourth on
  sentinels,  // the file's, and behind them `<extra_id_99>` to `<extra_id_0>`
};

// What a class puts around a text.
enum class Around : std::uint8_t { asked_for, eos, both };

struct SentencePieceClass {
  std::string_view name;
  PieceOrder order = PieceOrder::as_in_file;
  Around around = Around::asked_for;  // `asked_for`: by add_bos_token and add_eos_token, else nothing
  std::span<const DefaultToken> defaults{};
};

constexpr DefaultToken kLlamaTokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
constexpr DefaultToken kGemmaTokens[] = {
    {"bos_token", "<bos>"}, {"eos_token", "<eos>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
constexpr DefaultToken kT5Tokens[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
constexpr DefaultToken kFairseqTokens[] = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},        {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>", true}};

constexpr SentencePieceClass kSentencePieceClasses[] = {
    {""},
    {"LlamaTokenizer", PieceOrder::as_in_file, Around::asked_for, kLlamaTokens},
    {"GemmaTokenizer", PieceOrder::as_in_file, Around::asked_for, kGemmaTokens},
    {"T5Tokenizer", PieceOrder::sentinels, Around::eos, kT5Tokens},
    {"MT5Tokenizer", PieceOrder::sentinels, Around::eos, kT5Tokens},
    {"XLMRobertaTokenizer", PieceOrder::fairseq, Around::both, kFairseqTokens},
};

const SentencePieceClass& class_of(const SideFiles& beside) {
  std::string names;
  for (const auto& row : kSentencePieceClasses) {
    if (row.name == beside.tokenizer_class()) return row;
    if (!row.name.empty()) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  beside.refuse_class(
      fmt::format("is not a class whose ids of SentencePiece's pieces are known; expected {}; in "
                  "Python AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a "
                  "tokenizer.json",
                  names));
}

// Fairseq's dictionary begins with four tokens of its own.
void number_as_fairseq(SentencePieceModel& model, std::string_view where) {
  using Type = SentencePieceModel::Type;
  constexpr std::size_t kReserved = 3;
  auto& pieces = model.pieces;
  const bool fits = pieces.size() > kReserved && pieces[0].type == Type::unknown &&
                    pieces[1].type == Type::control && pieces[2].type == Type::control;
  if (!fits) {
    throw TokenizerError(where,
                         "does not begin with an unknown piece and two control pieces; expected them, as "
                         "XLMRobertaTokenizer leaves them out");
  }
  pieces.erase(pieces.begin(), pieces.begin() + kReserved);
  const SentencePieceModel::Piece own[] = {{"<s>", 0, Type::control},
                                           {"<pad>", 0, Type::control},
                                           {"</s>", 0, Type::control},
                                           {"<unk>", 0, Type::unknown}};
  pieces.insert(pieces.begin(), std::begin(own), std::end(own));
}

void add_sentinels(std::vector<AddedToken>& added, std::int64_t next, std::int64_t count) {
  for (const auto& token : added) next = std::max(next, token.id + 1);
  const bool listed = std::any_of(added.begin(), added.end(),
                                  [](const auto& token) { return token.content.starts_with("<extra_id_"); });
  for (std::int64_t i = listed ? 0 : count; i-- > 0;)
    added.push_back({.id = next++, .content = fmt::format("<extra_id_{}>", i), .special = true});
}

std::vector<std::int64_t> one_if(bool condition, const std::optional<std::int64_t>& id) {
  return condition && id ? std::vector{*id} : std::vector<std::int64_t>{};
}

}  // namespace

Tokenizer::Rules read_sentencepiece(std::string_view bytes, std::string_view where, const SideFiles& beside) {
  auto model = read_sentencepiece_model(bytes, where);
  const auto& row = class_of(beside);
  if (row.order == PieceOrder::fairseq) number_as_fairseq(model, printable(where));
  Vocabulary vocabulary;
  for (const auto& piece : model.pieces) vocabulary.append(piece.text);
  SentencePieceUse use;
  use.added = beside.read_added(vocabulary, row.defaults);
  if (row.order == PieceOrder::sentinels) {
    constexpr std::int64_t kMostSentinels = 10000;
    const auto* options = beside.options();
    const bool counted = options && options->has("extra_ids");
    add_sentinels(use.added, vocabulary.size(), counted ? options->count("extra_ids", kMostSentinels) : 100);
  }
  if (use.added.empty()) use.added = control_tokens(model);
  const auto id_of = [&](std::string_view key) -> std::optional<std::int64_t> {
    const auto content = beside.token(key, row.defaults);
    if (!content) return std::nullopt;
    for (const auto& token : use.added) {
      if (token.content == *content) return token.id;
    }
    return std::nullopt;
  };
  const auto bos = id_of("bos_token");
  const auto eos = id_of("eos_token");
  if (row.around != Around::asked_for) {
    use.around = TokensAround{one_if(row.around == Around::both, bos), one_if(true, eos),
                              fmt::format("the class {}", row.name)};
  } else if (beside.names_ends()) {
    use.around = TokensAround{one_if(beside.flag("add_bos_token", false), bos),
                              one_if(beside.flag("add_eos_token", false), eos), beside.around_keys()};
  }
  // The class of Llama puts the dummy prefix behind every special token only where it is asked to be as it
  // was.
  const bool of_llama = row.name == "LlamaTokenizer";
  use.prefix_at_beginning_only = of_llama && !beside.flag("legacy", false);
  if (!beside.flag("add_prefix_space", true)) model.add_dummy_prefix = false;
  const bool has_blank_note = of_llama && model.add_dummy_prefix;
  auto rules = sentencepiece_rules(model, std::move(use), printable(where));
  rules.bos = bos;
  rules.eos = eos;
  if (has_blank_note) {
    rules.notes.emplace_back(
        "a text that begins with a blank, or follows a special token with one where \"legacy\" is true, gets "
        "SentencePiece's blank before it, which AutoTokenizer leaves out");
  }
  return rules;
}

}  // namespace hooked::text
