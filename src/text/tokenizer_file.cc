#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "text/tokenizer_rules.h"

namespace hooked {
namespace {

constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kConfigBytes = std::uint64_t{16} << 20;

void check_special_ids(const JsonNode& root, const Tokenizer::Rules& rules) {
  if (!rules.post_processor) return;
  for (const auto id : rules.post_processor->special_ids()) {
    if (rules.piece(id)) continue;
    root.member("post_processor")
        .refuse(fmt::format("adds the id {}, which no piece has; expected an id of the vocabulary, 0 to {}",
                            id, rules.size() - 1));
  }
}

// The id of a token that tokenizer_config.json names, as a string or as an object with its `content`.
std::optional<std::int64_t> named_token(const JsonNode& node, const Tokenizer::Rules& rules) {
  if (node.is_null()) return std::nullopt;
  const auto spelling = node.json().is_object() ? node.member("content") : node;
  const auto id = rules.find(spelling.text());
  if (!id) {
    spelling.refuse(
        fmt::format("is \"{}\"; expected a piece of the tokenizer's vocabulary", printable(spelling.text())));
  }
  return id;
}

// The merges of a merges.txt as those of a tokenizer.json. A file may begin with a version line.
Json read_merge_lines(const std::filesystem::path& file) {
  const auto text = [&] {
    try {
      return read_text_file(file, kTokenizerBytes);
    } catch (const CheckpointError& too_large) {
      throw TokenizerError(printable(file.native()), too_large.what());
    }
  }();
  auto merges = Json::array();
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(std::string(line));
    begin = end + 1;
  }
  return merges;
}

}  // namespace

std::string Tokenizer::Rules::normalize(std::string_view text) const {
  NormalizedString normalized(text, {0, text.size()});
  if (normalizer) normalizer->apply(normalized);
  return std::string(normalized.text());
}

Tokenizer::Rules read_tokenizer(const Json& document, const std::string& name) {
  const JsonNode root(document, name);
  root.require_object();
  const auto model = root.member("model");
  Tokenizer::Rules rules;
  rules.pre_tokenizers = read_pre_tokenizer(root.member("pre_tokenizer"));
  // A model that can read bytes spares spelling them as characters.
  auto spelling = WordSpelling::characters;
  if (!rules.pre_tokenizers.empty() && rules.pre_tokenizers.back()->only_spells_bytes() &&
      model_reads_bytes(model)) {
    rules.pre_tokenizers.pop_back();
    spelling = WordSpelling::bytes;
  }
  rules.model = read_model(model, spelling);
  rules.normalizer = read_normalizer(root.member("normalizer"));
  rules.decoder = read_decoder(root.member("decoder"));
  rules.added = AddedTokens(read_added_tokens(root.member("added_tokens"), rules.model->vocabulary()),
                            [&](std::string_view text) { return rules.normalize(text); });
  rules.post_processor = read_post_processor(root.member("post_processor"));
  check_special_ids(root, rules);
  return rules;
}

Tokenizer::Rules read_tokenizer_file(const std::filesystem::path& file) {
  return read_tokenizer(parse_json_file(file, kTokenizerBytes), printable(file.native()));
}

Tokenizer::Rules read_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                            const std::filesystem::path& merges) {
  auto vocab = parse_json_file(vocabulary, kTokenizerBytes);
  // Errors name the member of the file that these two stand for.
  const auto name =
      fmt::format("{} and {}", printable(vocabulary.native()), printable(merges.filename().native()));
  auto added = Json::array();
  // The one token that GPT-2's pair knows beside its pieces: the end of a document.
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  if (vocab.is_object()) {
    if (const auto id = vocab.find(std::string(kEndOfText)); id != vocab.end()) {
      added.push_back({{"id", *id}, {"content", kEndOfText}, {"special", true}, {"normalized", false}});
    }
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}};
  Json document = {{"added_tokens", std::move(added)},
                   {"pre_tokenizer", byte_level},
                   {"decoder", byte_level},
                   {"model", {{"type", "BPE"}, {"merges", read_merge_lines(merges)}}}};
  document["model"]["vocab"] = std::move(vocab);
  return read_tokenizer(document, name);
}

void read_tokenizer_config(const std::filesystem::path& folder, Tokenizer::Rules& rules) {
  const auto file = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  const auto document = parse_json_file(file, kConfigBytes);
  const JsonNode root(document, printable(file.native()));
  root.require_object();
  rules.bos = named_token(root.member("bos_token"), rules);
  rules.eos = named_token(root.member("eos_token"), rules);
}

}  // namespace hooked
