#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/classes/class_parts.h"
#include "text/classes/class_pipelines.h"
#include "text/files/limited_files.h"
#include "text/tokenizer/tokenizer_forms.h"

namespace hooked::text {
namespace {

constexpr std::string_view kWriteJson =
    "in Python AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a tokenizer.json";

// Appends a member. The object's own functions would search for one of its name, which takes too long.
void append_member(Json& object, std::string_view key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::string(key), std::move(value));
}

// The pipeline of a class with these pieces, and the merges of BPE.
Tokenizer::Rules rules_by_class(std::string_view used_by, Json document, std::string_view name,
                                const SideFiles& beside) {
  auto notes = apply_class({.name = used_by}, document, beside).ids;
  auto rules = read_rules(std::move(document), name);
  rules.notes.insert(rules.notes.end(), notes.begin(), notes.end());
  rules.take_ends(beside, default_tokens(used_by));
  if (rules.around) rules.around->why = fmt::format("the class {}", used_by);
  return rules;
}

void refuse_other_words(const ConfigReader& options) {
  if (!options.boolean_or("do_basic_tokenize", true))
    options.refuse("do_basic_tokenize", "is not read; expected true, or a tokenizer.json");
  if (!options.is_unset("never_split"))
    options.refuse("never_split", "is not read; expected nothing to keep whole");
}

}  // namespace

Tokenizer::Rules read_word_list(std::string_view vocab, std::string_view name, const SideFiles& beside) {
  constexpr std::string_view kModel = "WordPiece";
  const std::string used_by = beside.tokenizer_class().empty() ? "BertTokenizer" : beside.tokenizer_class();
  if (!is_word_class(used_by, kModel)) {
    beside.refuse_class(fmt::format("is not a class whose vocab.txt is read; expected {}; {}",
                                    word_classes(kModel), kWriteJson));
  }
  require_utf8(vocab, printable(name));
  // Counted first: the result takes many times the size of the lines.
  constexpr std::ptrdiff_t kMostLines = std::ptrdiff_t{1} << 21;
  if (const auto lines = std::count(vocab.begin(), vocab.end(), '\n'); lines > kMostLines) {
    throw TokenizerError(printable(name),
                         fmt::format("has {} lines; expected at most {}", lines, kMostLines));
  }
  Json pieces = Json::object();
  std::int64_t id = 0;
  for_each_line(vocab, [&](std::string_view line) { append_member(pieces, line, id++); });
  if (id == 0) throw TokenizerError(printable(name), "is empty; expected a piece in each line");
  if (beside.options()) refuse_other_words(*beside.options());
  Json document = {{"model", {{"type", kModel}}}};
  append_member(document["model"], "vocab", std::move(pieces));
  auto rules = rules_by_class(used_by, std::move(document), name, beside);
  rules.form = "vocab.txt (WordPiece)";
  return rules;
}

Tokenizer::Rules read_vocabulary_and_merges(std::string_view vocab, std::string_view merges,
                                            std::string_view name, const SideFiles& beside) {
  constexpr std::string_view kModel = "BPE";
  const std::string& used_by = beside.tokenizer_class();
  if (!used_by.empty() && !is_word_class(used_by, kModel)) {
    beside.refuse_class(fmt::format("is not a class whose vocabulary and merges are read; expected {}; {}",
                                    word_classes(kModel), kWriteJson));
  }
  require_utf8(merges, printable(name));
  Json pieces = parse_tokenizer_json(vocab, name, std::vector<std::string_view>{});
  Json list = Json::array();
  for_each_line(merges, [&](std::string_view line) {
    if (!line.empty() && !line.starts_with("#version")) list.push_back(std::string(line));
  });
  Json document = {{"model", {{"type", kModel}, {"merges", std::move(list)}}}};
  if (used_by.empty()) {
    // The only token that GPT-2's pair has in addition to its pieces, by default: the end of a
    // document.
    constexpr std::string_view kEndOfText = "<|endoftext|>";
    Json end;
    for (const auto& [piece, piece_id] : pieces.items()) {
      if (piece == kEndOfText) end = piece_id;  // the last, as in the package
    }
    if (end.is_number_integer())
      document["added_tokens"] = Json::array({{{"id", end}, {"content", kEndOfText}, {"special", true}}});
    document["pre_tokenizer"] = byte_level_step(beside.flag("add_prefix_space", false));
    document["decoder"] = byte_level_step(false);
  }
  append_member(document["model"], "vocab", std::move(pieces));
  auto rules = rules_by_class(used_by, std::move(document), name, beside);
  if (!rules.around && beside.names_ends()) rules.put_around(rules.around_by_keys(beside));
  rules.form = "a vocabulary and merges (byte-level BPE)";
  return rules;
}

}  // namespace hooked::text
