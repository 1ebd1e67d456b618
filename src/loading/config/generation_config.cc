#include "loading/config/generation_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "core/config_reader.h"
#include "core/generation_notes.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/path_text.h"
#include "loading/config/open_checkpoint.h"

namespace hooked {
namespace {

// Note [Keys of generation_config.json]
// Each key that transformers knows is read below, or is in one of these lists; a note says of other keys that
// nothing reads them. docs/generation.md has the whole table.

/// A key, and its neutral number; without one: null, false, 0 or nothing.
struct Asked {
  std::string_view key;
  std::optional<double> neutral = std::nullopt;
};

// How tokens are picked, which here only the options of a call decide.
constexpr Asked kPicking[] = {{"do_sample"},
                              {"temperature", 1.0},
                              {"top_k", 50.0},
                              {"top_p", 1.0},
                              {"min_p"},
                              {"repetition_penalty", 1.0},
                              {"typical_p", 1.0},
                              {"top_h"},
                              {"epsilon_cutoff"},
                              {"eta_cutoff"},
                              {"num_beams", 1.0},
                              {"penalty_alpha"},
                              {"stop_strings"},
                              {"max_time"},
                              {"encoder_repetition_penalty", 1.0}};

// Keys that change the tokens of transformers, and that `generate` does not support.
constexpr Asked kNotDone[] = {{"sequence_bias"},
                              {"encoder_no_repeat_ngram_size"},
                              {"exponential_decay_length_penalty"},
                              {"guidance_scale", 1.0},
                              {"watermarking_config"},
                              {"token_healing"},
                              {"force_words_ids"},
                              {"constraints"},
                              {"dola_layers"}};

// Keys that do not change the tokens of a continuation without beams: lengths, which a call gives, and beams,
// memory, output, what files say of themselves, and assistants, which change only the speed.
constexpr std::string_view kLengthsAndBeams[] = {
    "max_length",           "max_new_tokens",     "early_stopping",
    "length_penalty",       "diversity_penalty",  "num_beam_groups",
    "num_return_sequences", "renormalize_logits", "remove_invalid_values"};
constexpr std::string_view kMemory[] = {"use_cache",
                                        "use_mtp",
                                        "cache_implementation",
                                        "cache_config",
                                        "max_cache_len",
                                        "return_legacy_cache",
                                        "low_memory",
                                        "prefill_chunk_size",
                                        "compile_config",
                                        "disable_compile",
                                        "continuous_batching_config"};
constexpr std::string_view kOutput[] = {"output_attentions", "output_hidden_states", "output_scores",
                                        "output_logits", "return_dict_in_generate"};
constexpr std::string_view kOfFiles[] = {"pad_token_id",       "bos_token_id", "transformers_version",
                                         "_from_model_config", "_commit_hash", "_name_or_path"};
constexpr std::string_view kAssistants[] = {"is_assistant",
                                            "num_assistant_tokens",
                                            "num_assistant_tokens_schedule",
                                            "assistant_confidence_threshold",
                                            "assistant_early_exit",
                                            "assistant_lookbehind",
                                            "assistant_ensemble_weight",
                                            "target_lookbehind",
                                            "prompt_lookup_num_tokens",
                                            "max_matching_ngram_size",
                                            "speculation_type"};

class GenerationReader {
 public:
  GenerationReader(const ConfigReader& json, std::int64_t d_vocab) : json_(json), d_vocab_(d_vocab) {}

  GenerationConfig read() {
    if (json_.has("eos_token_id")) read_.stop_tokens = all_of("eos_token_id");
    read_decoder_start();
    TokenRules& rules = read_.rules;
    rules.no_repeat_ngram_size = json_.integer_or("no_repeat_ngram_size", 0);
    rules.min_length = json_.integer_or("min_length", 0);
    rules.min_new_tokens = json_.integer_or("min_new_tokens", 0);
    const std::vector<std::int64_t> second = known("forced_bos_token_id");
    if (!second.empty()) rules.forced_second = second.front();
    rules.forced_last = known("forced_eos_token_id");
    rules.suppressed = known("suppress_tokens");
    rules.suppressed_first = known("begin_suppress_tokens");
    read_banned();
    return std::move(read_);
  }

  // Those of the keys that ask for something, whatever their values: nothing here reads them.
  std::vector<std::string_view> asked_among(std::span<const Asked> keys) const {
    std::vector<std::string_view> asked;
    for (const auto& [key, neutral] : keys) {
      if (!json_.is_unset(key) && !(neutral && is_number(key, *neutral))) asked.push_back(key);
    }
    return asked;
  }

 private:
  bool is_number(std::string_view key, double number) const {
    try {
      return json_.number(key) == number;
    } catch (const ConfigError&) {  // it has something else
      return false;
    }
  }

  std::vector<std::int64_t> all_of(std::string_view key) const {
    return json_.holds_list(key) ? json_.integers(key) : std::vector<std::int64_t>{json_.integer(key)};
  }

  bool is_known(std::int64_t id) const { return id >= 0 && id < d_vocab_; }

  std::vector<std::int64_t> known(std::string_view key) {
    if (!json_.has(key)) return {};
    std::vector<std::int64_t> ids = all_of(key);
    if (std::erase_if(ids, [&](std::int64_t id) { return !is_known(id); }) > 0) note_unknown(key);
    return ids;
  }

  void note_unknown(std::string_view key) {
    read_.notes.push_back(fmt::format("[{}] names ids that the vocabulary of {} lacks; they were left out",
                                      json_.where(key), d_vocab_));
  }

  void read_decoder_start() {
    constexpr std::string_view kKey = "decoder_start_token_id";
    if (!json_.has(kKey)) return;
    const std::vector<std::int64_t> ids = all_of(kKey);  // transformers lets rows begin differently
    if (ids.empty()) return;
    if (std::ranges::adjacent_find(ids, std::ranges::not_equal_to()) != ids.end()) {
      json_.refuse(kKey, "lets rows begin with different tokens; expected one token for all of them");
    }
    if (!is_known(ids.front())) {
      json_.refuse(kKey, fmt::format("is not in the vocabulary; expected 0 to {}", d_vocab_ - 1));
    }
    read_.decoder_start_token = ids.front();
  }

  void read_banned() {
    constexpr std::string_view kKey = "bad_words_ids";
    if (!json_.has(kKey)) return;
    const ConfigReader words = json_.array(kKey);
    for (const std::string& place : words.keys()) {
      std::vector<std::int64_t> ids = words.integers(place);
      if (ids.empty() || !std::ranges::all_of(ids, [&](std::int64_t id) { return is_known(id); })) {
        note_unknown(kKey);
      } else {
        read_.rules.banned.push_back(std::move(ids));
      }
    }
  }

  const ConfigReader& json_;
  std::int64_t d_vocab_;
  GenerationConfig read_;
};

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& folder, const ConfigText& config,
                                        std::int64_t d_vocab) {
  const std::filesystem::path file = folder / "generation_config.json";
  const bool own = std::filesystem::exists(file);
  const ConfigReader json = own ? ConfigReader(read_text_file(file, kModelConfigBytes), path_text(file))
                                : ConfigReader(config.text, config.where);
  GenerationReader reader(json, d_vocab);
  GenerationConfig read = reader.read();
  if (const auto keys = reader.asked_among(kPicking); !keys.empty()) {
    read.notes.push_back(
        fmt::format("[{}] asks for {}{}", json.where(), fmt::join(keys, ", "), kPickedByOptions));
  }
  if (const auto keys = reader.asked_among(kNotDone); !keys.empty()) {
    read.notes.push_back(
        fmt::format("[{}] asks for {}, which `generate` does not do", json.where(), fmt::join(keys, ", ")));
  }
  if (!own) return read;
  using Keys = std::span<const std::string_view>;
  for (const Keys harmless :
       {Keys(kLengthsAndBeams), Keys(kMemory), Keys(kOutput), Keys(kOfFiles), Keys(kAssistants)}) {
    for (const std::string_view key : harmless) json.ignore({key});
  }
  if (const auto unread = json.unread(); !unread.empty()) {
    read.notes.push_back(fmt::format("[{}] has keys that nothing reads, in transformers either: {}",
                                     json.where(), fmt::join(unread, ", ")));
  }
  return read;
}

std::string generation_config_json(const std::vector<std::int64_t>& stop_tokens, const TokenRules& rules) {
  Json json = Json::object();
  const auto add = [&](const char* key, const auto& value, const auto& none) {
    if (value != none) json[key] = value;
  };
  const std::vector<std::int64_t> no_tokens;
  add("eos_token_id", stop_tokens, no_tokens);
  add("no_repeat_ngram_size", rules.no_repeat_ngram_size, 0);
  add("bad_words_ids", rules.banned, decltype(rules.banned)());
  add("min_length", rules.min_length, 0);
  add("min_new_tokens", rules.min_new_tokens, 0);
  if (rules.forced_second) json["forced_bos_token_id"] = *rules.forced_second;
  add("forced_eos_token_id", rules.forced_last, no_tokens);
  add("suppress_tokens", rules.suppressed, no_tokens);
  add("begin_suppress_tokens", rules.suppressed_first, no_tokens);
  return json.empty() ? std::string() : json_text(json) + "\n";
}

}  // namespace hooked
