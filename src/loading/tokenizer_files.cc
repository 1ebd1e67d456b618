#include "loading/tokenizer_files.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <system_error>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/io/file.h"
#include "loading/identify.h"
#include "text/model.h"

namespace hooked {
namespace {

// Tokenizers that are not read, by the names of their files: SentencePiece's, Mistral's, a bare word list.
constexpr std::string_view kOtherFiles[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                            "tekken.json", "vocab.txt"};

std::optional<TokenizerError> other_tokenizer_in(const std::filesystem::path& folder) {
  for (const std::string_view file : kOtherFiles) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / file, ignored)) continue;
    return TokenizerError(
        (folder / file).string(),
        "this form of a tokenizer is not read; expected a tokenizer.json beside it; in Python "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one");
  }
  return std::nullopt;
}

}  // namespace

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, std::int64_t d_vocab) {
  TokenizerFiles text;
  const std::vector<std::string> names = Tokenizer::files_in(folder);
  if (names.empty()) {
    text.problem = other_tokenizer_in(folder);
    if (text.problem)
      text.notes.push_back(fmt::format("text cannot be used with this model: {}", text.problem->what()));
    return text;
  }
  try {
    text.tokenizer = Tokenizer::load(folder);
  } catch (const TokenizerError& error) {
    text.problem = error;
    text.notes.push_back(fmt::format("text cannot be used with this model: {}", error.what()));
    return text;
  }
  for (const std::string& name : names) {
    text.files.emplace(name, read_text_file(folder / name, Tokenizer::kFileBytes));
  }
  text.notes = text.tokenizer->notes();
  if (text.tokenizer->vocab_size() > d_vocab) {
    text.notes.push_back(
        fmt::format("the tokenizer knows {} pieces, the model only {}: ids from {} on are refused",
                    text.tokenizer->vocab_size(), d_vocab, d_vocab));
  }
  text.tokenizer = text.tokenizer->for_vocabulary(d_vocab);
  return text;
}

std::string tokenizer_kind(const TokenizerFiles& text) {
  if (!text.tokenizer) return {};
  const auto file = text.files.find("tokenizer.json");
  if (file == text.files.end()) return "BPE";  // GPT-2's older pair of files
  const JsonLimits limits{.bytes = Tokenizer::kFileBytes, .repeating = {{"model", "vocab"}}};
  const ConfigReader json(parse_json(file->second, limits), file->first, make_error<TokenizerError>);
  return std::string(text::model_kind(json.object("model")));
}

std::vector<std::int64_t> read_stop_tokens(const std::filesystem::path& folder, const ConfigText& config,
                                           const TokenizerFiles& text) {
  constexpr const char* kKey = "eos_token_id";
  const auto named_by = [&](const ConfigReader& reader) -> std::optional<std::vector<std::int64_t>> {
    if (!reader.has(kKey)) return std::nullopt;
    return reader.holds_list(kKey) ? reader.integers(kKey) : std::vector<std::int64_t>{reader.integer(kKey)};
  };
  const std::filesystem::path file = folder / "generation_config.json";
  if (std::filesystem::exists(file)) {
    if (auto tokens = named_by({read_text_file(file, kModelConfigBytes), file.string()}))
      return *std::move(tokens);
  }
  const ConfigReader whole(config.text, config.where);
  if (auto tokens = named_by(whole)) return *std::move(tokens);
  if (!config.group.empty()) {
    if (auto tokens = named_by(whole.object(config.group))) return *std::move(tokens);
  }
  if (text.tokenizer && text.tokenizer->eos_id()) return {*text.tokenizer->eos_id()};
  return {};
}

}  // namespace hooked
