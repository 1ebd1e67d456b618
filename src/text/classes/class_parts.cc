#include "text/classes/class_parts.h"

#include <algorithm>
#include <utility>

#include "hooked/core/error.h"

namespace hooked::text {
namespace {

Json as_one(const char* key, Steps steps) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps.front());
  return {{"type", "Sequence"}, {key, std::move(steps)}};
}

bool is_charsmap(const Json& step) {
  const auto* type = member(step, "type");
  const auto* rules = member(step, "precompiled_charsmap");
  return type && *type == "Precompiled" && rules && !rules->is_null();
}

}  // namespace

Json step(std::string_view type) { return {{"type", type}}; }

Json byte_level_step(bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", true}};
}

Json digits_step() { return {{"type", "Digits"}, {"individual_digits", true}}; }

Json split_step(Json pattern, std::string_view behavior) {
  return {{"type", "Split"}, {"pattern", std::move(pattern)}, {"behavior", behavior}, {"invert", false}};
}

Json replace_step(Json pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

Json metaspace_step(std::string_view prepend_scheme, bool split) {
  return {
      {"type", "Metaspace"}, {"replacement", kBlank}, {"prepend_scheme", prepend_scheme}, {"split", split}};
}

Json word_piece_step() { return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}; }

Json strip_right_step() { return {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}; }

Json strip_first_blank_step() { return {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}; }

Steps blanks_and_bytes_steps() {
  return {replace_step({{"String", kBlank}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
}

std::int64_t ClassParts::number(std::string_view key, std::int64_t fallback) const {
  constexpr std::int64_t kMost = 10000;
  const auto* options = beside_.options();
  return options && options->has(key) ? options->count(key, kMost) : fallback;
}

std::optional<std::string> ClassParts::text(std::string_view key) const {
  const auto* options = beside_.options();
  return options && options->has(key) ? std::optional(options->text(key)) : std::nullopt;
}

void ClassParts::bpe(const Bpe& options) {
  auto& bpe = model();
  bpe["dropout"] = nullptr;
  bpe["unk_token"] = nullptr;
  if (options.unknown) bpe["unk_token"] = token("unk_token").value_or("<unk>");
  bpe["fuse_unk"] = options.fuses;
  bpe["byte_fallback"] = options.bytes;
  bpe["continuing_subword_prefix"] = nullptr;
  bpe["end_of_word_suffix"] = nullptr;
  if (options.suffix) bpe["end_of_word_suffix"] = options.suffix;
  bpe["ignore_merges"] = false;
}

void ClassParts::word_piece() {
  model()["unk_token"] = token("unk_token").value_or("[UNK]");
  model()["continuing_subword_prefix"] = "##";
  model()["max_input_chars_per_word"] = 100;
}

void ClassParts::unigram(std::int64_t unknown_id) {
  model()["unk_id"] = unknown_id;
  model()["byte_fallback"] = false;
}

std::int64_t ClassParts::unknown_id(std::int64_t fallback, std::string_view spelled) const {
  const auto unknown = token("unk_token").value_or(std::string(spelled));
  std::int64_t id = 0;
  for (const auto& piece : document_["model"]["vocab"]) {
    if (piece.is_array() && piece.size() == 2 && piece[0] == unknown && piece[1].is_number() &&
        piece[1] == 0.0)
      return id;
    ++id;
  }
  return fallback;
}

std::int64_t ClassParts::first_id(std::string_view key, std::string_view spelled,
                                  std::int64_t fallback) const {
  const auto wanted = token(key).value_or(std::string(spelled));
  std::int64_t id = 0;
  for (const auto& piece : document_["model"]["vocab"]) {
    if (piece.is_array() && !piece.empty() && piece[0] == wanted) return id;
    ++id;
  }
  return fallback;
}

void ClassParts::normalize(Steps normalizer) {
  document_["normalizer"] = as_one("normalizers", std::move(normalizer));
}

void ClassParts::pipeline(Steps normalizer, Steps pre_tokenizer, Steps decoder) {
  normalize(std::move(normalizer));
  document_["pre_tokenizer"] = as_one("pretokenizers", std::move(pre_tokenizer));
  document_["decoder"] = as_one("decoders", std::move(decoder));
}

void ClassParts::metaspace(Steps normalizer, std::string_view prepend_scheme) {
  pipeline(std::move(normalizer), {metaspace_step(prepend_scheme)}, {metaspace_step(prepend_scheme)});
}

void ClassParts::add_charsmap(Steps& steps) const {
  const auto* normalizer = member(document_, "normalizer");
  if (!normalizer) return;
  const auto* list = member(*normalizer, "normalizers");
  if (!list && is_charsmap(*normalizer)) steps.push_back(*normalizer);
  if (!list || !list->is_array()) return;
  const auto found = std::find_if(list->begin(), list->end(), is_charsmap);
  if (found != list->end()) steps.push_back(*found);
}

Json ClassParts::bert_normalizer() const {
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", flag("tokenize_chinese_chars", true)},
                     {"strip_accents", nullptr},
                     {"lowercase", flag("do_lower_case", true)}};
  const auto* options = beside_.options();
  if (options && options->has("strip_accents"))
    normalizer["strip_accents"] = options->boolean("strip_accents");
  return normalizer;
}

std::optional<std::int64_t> ClassParts::id_of(std::string_view spelled) const {
  for (const auto& token : document_["added_tokens"]) {
    if (token["content"] == spelled) return token["id"].get<std::int64_t>();
  }
  std::int64_t place = 0;
  for (const auto& [key, piece] : document_["model"]["vocab"].items()) {
    if (piece.is_number_integer() && key == spelled) return piece.get<std::int64_t>();
    if (piece.is_array() && !piece.empty() && piece[0] == spelled) return place;
    ++place;
  }
  return std::nullopt;
}

void ClassParts::around(const std::vector<std::string_view>& before,
                        const std::vector<std::string_view>& behind) {
  const auto tokens_of = [&](const std::vector<std::string_view>& keys) {
    std::vector<std::string> tokens;
    for (const auto key : keys) {
      auto spelled = token(key);
      if (!spelled) {
        throw TokenizerError(
            key, "is null, and the class of this tokenizer puts it around texts; expected a token");
      }
      tokens.push_back(*std::move(spelled));
    }
    return tokens;
  };
  around_spelled(tokens_of(before), tokens_of(behind));
}

void ClassParts::around_spelled(const std::vector<std::string>& before,
                                const std::vector<std::string>& behind) {
  const auto ids_of = [&](const std::vector<std::string>& tokens) {
    std::vector<std::int64_t> ids;
    for (const auto& spelled : tokens) {
      auto id = id_of(spelled);
      if (!id) id = id_of(token("unk_token").value_or(""));
      if (id) ids.push_back(*id);
    }
    return ids;
  };
  around_ids(ids_of(before), ids_of(behind));
}

bool ClassParts::has_post_processor() const {
  return member(document_, "post_processor") && !document_["post_processor"].is_null();
}

void ClassParts::trim_offsets() {
  Json trimmer = {{"type", "ByteLevel"},
                  {"add_prefix_space", flag("add_prefix_space", false)},
                  {"trim_offsets", flag("trim_offsets", true)},
                  {"use_regex", true}};
  document_["post_processor"] = {
      {"type", "Sequence"},
      {"processors", Json::array({std::move(trimmer), std::move(document_["post_processor"])})}};
}

void ClassParts::around_ids(const std::vector<std::int64_t>& before,
                            const std::vector<std::int64_t>& behind) {
  if (before.empty() && behind.empty()) {
    document_["post_processor"] = nullptr;
    return;
  }
  Json single = Json::array();
  const auto add = [&](const std::vector<std::int64_t>& ids, const char* name) {
    if (!ids.empty()) single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  };
  add(before, "before");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(behind, "behind");
  document_["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", std::move(single)},
      {"special_tokens", {{"before", {{"ids", before}}}, {"behind", {{"ids", behind}}}}}};
}

void cls_and_sep(ClassParts& parts) { parts.around({"cls_token"}, {"sep_token"}); }

void bos_and_eos(ClassParts& parts) { parts.around({"bos_token"}, {"eos_token"}); }

}  // namespace hooked::text
