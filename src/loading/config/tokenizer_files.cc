#include "loading/config/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/config_reader.h"

namespace hooked {

std::string TokenizerFiles::why_no_tokenizer() const {
  if (tokenizer) return {};
  return problem ? problem->what() : "the model's files have none; give ids with --tokens";
}

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, const ModelConfig& config) {
  if (Tokenizer::files_in(folder).empty()) return {};
  const auto read = [&](TokenizerFiles& text) {
    text.tokenizer = Tokenizer::load(folder);
    text.files = Tokenizer::read_files(folder);
  };
  return tokenizer_by(read, config);
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

TokenizerFiles tokenizer_by(const std::function<void(TokenizerFiles&)>& read, const ModelConfig& config) {
  const std::int64_t d_vocab = config.d_vocab;
  TokenizerFiles text;
  try {
    read(text);
  } catch (const TokenizerError& error) {
    text.problem = error;
    text.notes.push_back(fmt::format("text cannot be used with this model: {}", error.what()));
    return text;
  }
  const auto& notes = text.tokenizer->notes();
  text.notes.insert(text.notes.end(), notes.begin(), notes.end());
  if (text.tokenizer->vocab_size() > d_vocab) {
    text.notes.push_back(
        fmt::format("the tokenizer knows {} pieces, the model only {}: ids from {} on are refused",
                    text.tokenizer->vocab_size(), d_vocab, d_vocab));
  }
  text.tokenizer = text.tokenizer->for_vocabulary(d_vocab);
  if (auto note = bos_note(*text.tokenizer, config)) text.notes.push_back(*std::move(note));
  return text;
}

TokensAround tokens_around(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (const auto& said = tokenizer.around()) return *said;
  const bool causal = !config.has_encoder() && !config.bidirectional(config.main_stack());
  const auto bos = tokenizer.bos_id();
  if (!causal) return {{}, {}, "no file says that there are any"};
  if (!bos) return {{}, {}, "no file says that there are any, and the tokenizer names no BOS token"};
  if (!config.default_prepend_bos)
    return {{}, {}, "no file says that there are any, and default_prepend_bos is false"};
  return {{*bos},
          {},
          "no file says whether it gets a BOS token; causal models get it then, as in TransformerLens, and "
          "AutoTokenizer adds none"};
}

std::optional<std::string> bos_note(const Tokenizer& tokenizer, const ModelConfig& config) {
  const auto around = tokens_around(tokenizer, config);
  if (tokenizer.around() || around.before.empty()) return std::nullopt;
  return fmt::format("a text gets {} in front: {}; --prepend-bos file leaves it out",
                     tokenizer.printable_piece(around.before.front()), around.why);
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
