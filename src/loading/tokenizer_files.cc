#include "loading/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/config_reader.h"

namespace hooked {

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, std::int64_t d_vocab) {
  if (Tokenizer::files_in(folder).empty()) return {};
  const auto read = [&](TokenizerFiles& text) {
    text.tokenizer = Tokenizer::load(folder);
    text.files = Tokenizer::read_files(folder);
  };
  return tokenizer_by(read, d_vocab);
}

Tokenizer tokenizer_in_file(const std::filesystem::path& file) try {
  return Tokenizer::load(file);
} catch (const TokenizerError& error) {
  const auto& known = Tokenizer::file_names();
  if (std::ranges::find(known, file.filename().native()) != std::ranges::end(known)) throw;
  throw TokenizerError(
      error.where(),
      fmt::format("cannot be read as a tokenizer.json: {}; expected one, or a model whose tokenizer is "
                  "to be used: a folder, a file of weights or org/name",
                  error.message()));
}

TokenizerFiles tokenizer_by(const std::function<void(TokenizerFiles&)>& read, std::int64_t d_vocab) {
  TokenizerFiles text;
  try {
    read(text);
  } catch (const TokenizerError& error) {
    text.problem = error;
    text.notes.push_back(fmt::format("text cannot be used with this model: {}", error.what()));
    return text;
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

std::vector<std::int64_t> stop_tokens_of(const GenerationConfig& generation, const ConfigText& config,
                                         const TokenizerFiles& text) {
  if (generation.stop_tokens) return *generation.stop_tokens;
  constexpr const char* kKey = "eos_token_id";
  const auto named_by = [&](const ConfigReader& reader) -> std::optional<std::vector<std::int64_t>> {
    if (!reader.has(kKey)) return std::nullopt;
    return reader.holds_list(kKey) ? reader.integers(kKey) : std::vector<std::int64_t>{reader.integer(kKey)};
  };
  const ConfigReader whole(config.text, config.where);
  if (auto tokens = named_by(whole)) return *std::move(tokens);
  if (!config.group.empty()) {
    if (auto tokens = named_by(whole.object(config.group))) return *std::move(tokens);
  }
  if (text.tokenizer && text.tokenizer->eos_id()) return {*text.tokenizer->eos_id()};
  return {};
}

}  // namespace hooked
