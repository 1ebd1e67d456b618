#include "text/word_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"

namespace hooked::text {
namespace {

constexpr DefaultToken kBertTokens[] = {{"unk_token", "[UNK]"},
                                        {"sep_token", "[SEP]"},
                                        {"pad_token", "[PAD]"},
                                        {"cls_token", "[CLS]"},
                                        {"mask_token", "[MASK]"}};
constexpr std::string_view kBertClasses[] = {"", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer",
                                             "MobileBertTokenizer"};

constexpr DefaultToken kGpt2Tokens[] = {
    {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};
constexpr DefaultToken kQwen2Tokens[] = {
    {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
constexpr DefaultToken kRobertaTokens[] = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},        {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>", true}};
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How a class of transformers uses the pair of vocabulary and merges.
struct PairClass {
  std::string_view name;
  std::span<const DefaultToken> defaults{};
  std::string_view words{};  // how words are cut; empty: as GPT-2 cuts them
  bool composes = false;     // NFC first
  bool surrounds = false;    // `cls_token` before a text and `sep_token` behind it
};

constexpr PairClass kPairClasses[] = {
    {""},
    {"GPT2Tokenizer", kGpt2Tokens},
    {"CodeGenTokenizer", kGpt2Tokens},
    {"Qwen2Tokenizer", kQwen2Tokens, kQwen2Words, true},
    {"RobertaTokenizer", kRobertaTokens, {}, false, true},
    {"BartTokenizer", kRobertaTokens, {}, false, true},
    {"LongformerTokenizer", kRobertaTokens, {}, false, true},
};

constexpr std::string_view kWriteJson =
    "in Python AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a tokenizer.json";

template <class Rows, class NameOf>
std::string names_of(const Rows& rows, NameOf&& name_of) {
  std::string names;
  for (const auto& row : rows) {
    if (name_of(row).empty()) continue;
    names += (names.empty() ? "" : ", ") + std::string(name_of(row));
  }
  return names;
}

// Calls `visit(line)` for each line, without its end.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
  }
}

void require_utf8(std::string_view text, std::string_view name) {
  if (const auto byte = first_invalid_byte(text))
    throw TokenizerError(printable(name),
                         fmt::format("byte {} is not valid UTF-8; expected UTF-8 text", *byte));
}

// Appends a member. Looking for one of its name, as the object's own functions do, would take too long.
void append_member(Json& object, std::string_view key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::string(key), std::move(value));
}

Vocabulary read_vocabulary(const Json& vocab, std::string_view name) {
  return Vocabulary::read(ConfigReader(Json{{"vocab", vocab}}, name, make_error<TokenizerError>));
}

void name_ends(Tokenizer::Rules& rules, const SideFiles& beside, std::span<const DefaultToken> defaults) {
  const auto id_of = [&](std::string_view key) {
    const auto content = beside.token(key, defaults);
    return content ? rules.find(*content) : std::nullopt;
  };
  rules.bos = id_of("bos_token");
  rules.eos = id_of("eos_token");
}

// `[content, id]` of the token of a key, as BertProcessing has it.
Json spelled_id(std::string_view key, const SideFiles& beside, std::span<const DefaultToken> defaults,
                const Json& added) {
  const auto content = beside.token(key, defaults);
  for (const auto& token : added) {
    if (content && token["content"] == *content) return Json::array({*content, token["id"]});
  }
  throw TokenizerError(key,
                       "is null, and the class of this tokenizer puts it around texts; expected a token");
}

void refuse_other_words(const ConfigReader& options) {
  if (!options.boolean_or("do_basic_tokenize", true))
    options.refuse("do_basic_tokenize", "is not read; expected true, or a tokenizer.json");
  if (!options.is_unset("never_split"))
    options.refuse("never_split", "is not read; expected nothing to keep whole");
}

}  // namespace

Tokenizer::Rules read_word_list(std::string_view vocab, std::string_view name, const SideFiles& beside) {
  if (std::find(std::begin(kBertClasses), std::end(kBertClasses), beside.tokenizer_class()) ==
      std::end(kBertClasses)) {
    beside.refuse_class(fmt::format("is not a class whose vocab.txt is read; expected {}; {}",
                                    names_of(kBertClasses, [](const auto& row) { return row; }), kWriteJson));
  }
  require_utf8(vocab, name);
  // Counted first: what is made of the lines takes many times their size.
  constexpr std::ptrdiff_t kMostLines = std::ptrdiff_t{1} << 21;
  if (const auto lines = std::count(vocab.begin(), vocab.end(), '\n'); lines > kMostLines) {
    throw TokenizerError(printable(name),
                         fmt::format("has {} lines; expected at most {}", lines, kMostLines));
  }
  Json pieces = Json::object();
  std::int64_t id = 0;
  for_each_line(vocab, [&](std::string_view line) { append_member(pieces, line, id++); });
  if (id == 0) throw TokenizerError(printable(name), "is empty; expected a piece in each line");
  const auto* options = beside.options();
  if (options) refuse_other_words(*options);
  const auto added = beside.added_tokens(read_vocabulary(pieces, name), kBertTokens);
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", beside.flag("tokenize_chinese_chars", true)},
                     {"strip_accents", nullptr},
                     {"lowercase", beside.flag("do_lower_case", true)}};
  if (options && options->has("strip_accents"))
    normalizer["strip_accents"] = options->boolean("strip_accents");
  Json document = {{"added_tokens", added},
                   {"normalizer", std::move(normalizer)},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"post_processor",
                    {{"type", "BertProcessing"},
                     {"sep", spelled_id("sep_token", beside, kBertTokens, added)},
                     {"cls", spelled_id("cls_token", beside, kBertTokens, added)}}},
                   {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                   {"model",
                    {{"type", "WordPiece"},
                     {"unk_token", beside.token("unk_token", kBertTokens).value_or("[UNK]")},
                     {"continuing_subword_prefix", "##"},
                     {"max_input_chars_per_word", 100}}}};
  append_member(document["model"], "vocab", std::move(pieces));
  auto rules = read_rules(std::move(document), name);
  name_ends(rules, beside, kBertTokens);
  rules.form = "vocab.txt (WordPiece)";
  return rules;
}

Tokenizer::Rules read_vocabulary_and_merges(std::string_view vocab, std::string_view merges,
                                            std::string_view name, const SideFiles& beside) {
  const auto row = std::find_if(std::begin(kPairClasses), std::end(kPairClasses),
                                [&](const auto& known) { return known.name == beside.tokenizer_class(); });
  if (row == std::end(kPairClasses)) {
    beside.refuse_class(fmt::format("is not a class whose vocabulary and merges are read; expected {}; {}",
                                    names_of(kPairClasses, [](const auto& known) { return known.name; }),
                                    kWriteJson));
  }
  require_utf8(merges, name);
  Json pieces = parse_tokenizer_json(vocab, name, std::vector<std::string_view>{});
  Json list = Json::array();
  for_each_line(merges, [&](std::string_view line) {
    if (!line.empty() && !line.starts_with("#version")) list.push_back(std::string(line));
  });
  const auto vocabulary = read_vocabulary(pieces, name);
  // The one token that GPT-2's pair knows beside its pieces where nothing else is said: the end of a
  // document.
  constexpr DefaultToken kEndOfText[] = {{"unk_token", "<|endoftext|>"}};
  const bool ends = row->name.empty() && vocabulary.find(kEndOfText[0].content);
  const auto defaults = ends ? std::span<const DefaultToken>(kEndOfText) : row->defaults;
  const auto added = beside.added_tokens(vocabulary, defaults);
  const bool prefix = beside.flag("add_prefix_space", false);
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", prefix},
                           {"trim_offsets", false},
                           {"use_regex", row->words.empty()}};
  Json steps = Json::array();
  if (!row->words.empty()) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", row->words}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level);
  Json document = {{"added_tokens", added},
                   {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
                   {"decoder", byte_level},
                   {"model", {{"type", "BPE"}, {"merges", std::move(list)}}}};
  if (row->composes) document["normalizer"] = {{"type", "NFC"}};
  if (row->surrounds) {
    document["post_processor"] = {{"type", "RobertaProcessing"},
                                  {"sep", spelled_id("sep_token", beside, defaults, added)},
                                  {"cls", spelled_id("cls_token", beside, defaults, added)},
                                  {"trim_offsets", beside.flag("trim_offsets", true)},
                                  {"add_prefix_space", prefix}};
  }
  append_member(document["model"], "vocab", std::move(pieces));
  auto rules = read_rules(std::move(document), name);
  name_ends(rules, beside, row->defaults);
  const auto ids_if = [&](std::string_view key, const std::optional<std::int64_t>& id) {
    return id && beside.flag(key, false) ? std::vector{*id} : std::vector<std::int64_t>{};
  };
  if (!rules.post_processor) {
    rules.post_processor =
        make_special_token_adder(ids_if("add_bos_token", rules.bos), ids_if("add_eos_token", rules.eos));
  }
  rules.form = "a vocabulary and merges (byte-level BPE)";
  return rules;
}

}  // namespace hooked::text
