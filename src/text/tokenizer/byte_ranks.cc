#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base64.h"
#include "core/json.h"
#include "core/parse_integer.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/classes/class_parts.h"
#include "text/files/limited_files.h"
#include "text/strings/symbol_joiner.h"
#include "text/tokenizer/tokenizer_forms.h"
#include "text/unicode/byte_characters.h"

namespace hooked::text {
namespace {

constexpr std::string_view kGpt4Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// As in the package tiktoken; but Oniguruma's `$` is the end of a line, and its intervals are not
// possessive.
constexpr std::string_view kCl100kWords =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Byte strings with their ranks: the lower the rank, the earlier two parts are joined to one. The id of a
// string is `first_id` + its rank.
class RankedBytes {
 public:
  explicit RankedBytes(std::int64_t first_id) : first_id_(first_id) {}

  // Adds a string. Returns nothing, or the reason if it cannot be added.
  std::optional<std::string> add(std::string bytes, std::int64_t rank) {
    if (bytes.empty()) return "is empty; expected bytes";
    if (bytes.size() > MergeTable::kLongestPiece)
      return fmt::format("has {} bytes; expected at most {}", bytes.size(), MergeTable::kLongestPiece);
    if (rank < 0 || rank >= Vocabulary::kIds - first_id_)
      return fmt::format("has the rank {}; expected 0 to {}", rank, Vocabulary::kIds - first_id_ - 1);
    splits_ += bytes.size() - 1;
    std::string spelled;
    for (const auto byte : bytes) append_utf8(spelled, byte_character(static_cast<unsigned char>(byte)));
    auto refusal = vocabulary_.add(spelled, first_id_ + rank);
    if (!refusal) ids_.emplace(std::move(bytes), static_cast<std::int32_t>(first_id_ + rank));
    return refusal;
  }

  std::int64_t end() const noexcept { return vocabulary_.size(); }
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  std::unique_ptr<const Model> model(std::string_view where) && {
    for (int byte = 0; byte < 256; ++byte) {
      if (!ids_.contains(std::string(1, static_cast<char>(byte))))
        throw TokenizerError(where,
                             fmt::format("lacks the byte 0x{:02X}; expected each of the 256 bytes", byte));
    }
    MergeTable merges(splits_);
    for (const auto& [bytes, id] : ids_) {
      merges.add_splits(bytes, {static_cast<std::uint32_t>(id), id}, [&](std::string_view part) {
        const auto found = ids_.find(part);
        return found == ids_.end() ? -1 : found->second;
      });
    }
    return make_byte_bpe(std::move(vocabulary_), std::move(merges));
  }

 private:
  std::int64_t first_id_;
  Vocabulary vocabulary_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> ids_;
  std::size_t splits_ = 0;
};

ConfigReader as_reader(Json json, std::string_view where) {
  return ConfigReader(std::move(json), where, make_error<TokenizerError>);
}

// What tiktoken does around its ranks: words are the matches of a pattern, and the text between them is left
// out.
Tokenizer::Rules rules_of(RankedBytes ranks, std::string_view words, std::vector<AddedToken> special,
                          std::string_view where) {
  Tokenizer::Rules rules;
  rules.pre_tokenizers = read_pre_tokenizer(as_reader(
      {{"type", "Split"}, {"pattern", {{"Regex", words}}}, {"behavior", "Removed"}, {"invert", true}},
      where));
  rules.decoder = read_decoder(as_reader({{"type", "ByteLevel"}}, where));
  rules.model = std::move(ranks).model(where);
  rules.added = AddedTokens(std::move(special), {});
  return rules;
}

// Special tokens of Mistral's tokenizers that are too old to list theirs.
constexpr std::string_view kOldTekkenTokens =
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    "[TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] "
    "[/SYSTEM_PROMPT] [TOOL_CONTENT]";

std::vector<AddedToken> tekken_tokens(const ConfigReader& json, std::int64_t count) {
  std::vector<AddedToken> tokens;
  Vocabulary known;
  const auto add = [&](const std::string& content, std::int64_t id, const std::string& where) {
    if (content.empty()) throw TokenizerError(where, "is empty; expected the token's spelling");
    if (id < 0 || id >= count)
      throw TokenizerError(where, fmt::format("has the rank {}; expected 0 to {}", id, count - 1));
    if (const auto refusal = known.add(content, id)) throw TokenizerError(where, *refusal);
    tokens.push_back({.id = id, .content = content, .special = true});
  };
  if (json.has("special_tokens")) {
    for (const auto& token : json.objects("special_tokens"))
      add(token.text("token_str"), token.integer("rank"), token.where());
  } else {
    for_each_part(kOldTekkenTokens, ' ', [&](std::string_view content) {
      add(std::string(content), static_cast<std::int64_t>(tokens.size()), json.where());
    });
  }
  for (auto id = static_cast<std::int64_t>(tokens.size()); id < count; ++id)
    add(fmt::format("<SPECIAL_{}>", id), id, json.where("special_tokens"));
  return tokens;
}

std::optional<std::int64_t> id_of(const std::vector<AddedToken>& tokens, std::string_view content) {
  for (const auto& token : tokens) {
    if (token.content == content) return token.id;
  }
  return std::nullopt;
}

// A family whose tokenizer is a tiktoken file: the file says neither how words are cut nor which tokens are
// special.
struct TiktokenFamily {
  std::string_view tokenizer_class;  // named in tokenizer_config.json; empty if none is known
  std::string_view file;             // its name in repositories
  std::string_view words;
  bool composes;  // NFC first
  std::string_view bos;
  std::string_view eos;
  // The special tokens, given the end of the ranks.
  std::vector<AddedToken> (*special)(std::int64_t end);
};

std::vector<std::string> numbered(std::string_view form, int begin, int end) {
  std::vector<std::string> names;
  for (int i = begin; i < end; ++i) names.push_back(fmt::format(fmt::runtime(form), i));
  return names;
}

std::vector<AddedToken> specials_from(std::int64_t id, const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : contents)
    tokens.push_back({.id = id++, .content = content, .special = true});
  return tokens;
}

// https://github.com/meta-llama/llama3, llama/tokenizer.py: 256 tokens.
std::vector<AddedToken> llama3_tokens(std::int64_t end) {
  constexpr std::string_view kReserved = "<|reserved_special_token_{}|>";
  std::vector<std::string> tokens{"<|begin_of_text|>", "<|end_of_text|>"};
  const auto append = [&](const std::vector<std::string>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  append(numbered(kReserved, 0, 4));
  append({"<|start_header_id|>", "<|end_header_id|>"});
  append(numbered(kReserved, 4, 5));
  append({"<|eot_id|>"});
  append(numbered(kReserved, 5, 251));
  return specials_from(end, tokens);
}

// https://huggingface.co/Qwen/Qwen-7B, tokenization_qwen.py.
std::vector<AddedToken> qwen_tokens(std::int64_t end) {
  std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const auto extra = numbered("<|extra_{}|>", 0, 205);
  tokens.insert(tokens.end(), extra.begin(), extra.end());
  return specials_from(end, tokens);
}

// The package's openai_public.py. Their ids do not depend on the number of ranks in a file.
std::vector<AddedToken> cl100k_tokens(std::int64_t) {
  std::vector<AddedToken> tokens =
      specials_from(100257, {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"});
  tokens.push_back({.id = 100276, .content = "<|endofprompt|>", .special = true});
  return tokens;
}

std::vector<AddedToken> o200k_tokens(std::int64_t) {
  return {{.id = 199999, .content = "<|endoftext|>", .special = true},
          {.id = 200018, .content = "<|endofprompt|>", .special = true}};
}

constexpr TiktokenFamily kTiktokenFamilies[] = {
    {"LlamaTokenizer", "tokenizer.model", kGpt4Words, false, "<|begin_of_text|>", "<|end_of_text|>",
     llama3_tokens},
    {"QWenTokenizer", "qwen.tiktoken", kQwenWords, true, "", "<|endoftext|>", qwen_tokens},
    {"", "cl100k_base.tiktoken", kCl100kWords, false, "", "<|endoftext|>", cl100k_tokens},
    {"", "o200k_base.tiktoken", kO200kWords, false, "", "<|endoftext|>", o200k_tokens},
};

const TiktokenFamily& family_of(std::string_view name, const SideFiles& beside) {
  const auto file = std::filesystem::path(name).filename().native();
  // A class that transformers has for any tokenizer.json says nothing about the family.
  const bool named = !beside.tokenizer_class().empty() && beside.tokenizer_class() != "PreTrainedTokenizer";
  std::string classes;
  std::string files;
  for (const auto& family : kTiktokenFamilies) {
    if (named ? family.tokenizer_class == beside.tokenizer_class() : family.file == file) return family;
    if (!family.tokenizer_class.empty())
      classes += (classes.empty() ? "" : ", ") + std::string(family.tokenizer_class);
    files += (files.empty() ? "" : ", ") + std::string(family.file);
  }
  if (named) {
    beside.refuse_class(fmt::format(
        "is not a class whose pattern of words is known for a file of tiktoken; expected {}", classes));
  }
  throw TokenizerError(printable(name),
                       fmt::format("is a file of tiktoken under a name whose pattern of words is not "
                                   "known; expected {}",
                                   files));
}

}  // namespace

Tokenizer::Rules read_tekken(std::string_view text, std::string_view name, const SideFiles&) {
  const auto document = parse_tokenizer_json(text, name);
  const auto json = as_reader(document, name);
  const auto config = json.object("config");
  constexpr std::int64_t kMostSpecial = 65536;
  const auto special = config.count("default_num_special_tokens", kMostSpecial);
  const auto size = config.count("default_vocab_size", Vocabulary::kIds);
  if (size < special) {
    config.refuse("default_vocab_size",
                  fmt::format("is less than default_num_special_tokens; expected at least {}", special));
  }
  auto tokens = tekken_tokens(json, special);
  RankedBytes ranks(special);
  const auto entries = document.find("vocab");
  if (entries == document.end() || !entries->is_array())
    throw TokenizerError(json.where("vocab"), "is not a list; expected one of the ranked tokens");
  // By hand: the file lists more tokens than are used, and each search of a reader would go through all of
  // them.
  for (std::size_t i = 0; i < entries->size() && static_cast<std::int64_t>(i) < size - special; ++i) {
    const auto& entry = (*entries)[i];
    const auto where = [&] { return fmt::format("{}[{}]", json.where("vocab"), i); };
    const auto* bytes = member(entry, "token_bytes");
    const auto* rank = member(entry, "rank");
    if (!bytes || !bytes->is_string() || !rank || !rank->is_number_integer())
      throw TokenizerError(where(), "is not a token; expected an object with token_bytes and rank");
    auto decoded = decode_base64(bytes->get_ref<const std::string&>());
    if (!decoded) throw TokenizerError(where() + ".token_bytes", "is not base64; expected bytes in base64");
    if (const auto refusal = ranks.add(*std::move(decoded), rank->get<std::int64_t>()))
      throw TokenizerError(where(), *refusal);
  }
  if (ranks.end() > size) {
    throw TokenizerError(json.where("vocab"), fmt::format("has ranks up to {}; expected less than {}",
                                                          ranks.end() - special - 1, size - special));
  }
  const auto words = config.text("pattern");
  const auto bos = id_of(tokens, "<s>");
  const auto eos = id_of(tokens, "</s>");
  auto rules = rules_of(std::move(ranks), words, std::move(tokens), name);
  rules.bos = bos;
  rules.eos = eos;
  rules.put_around({bos ? std::vector{*bos} : std::vector<std::int64_t>{}, {}, "tekken.json"});
  rules.form = "tekken.json (tiktoken)";
  return rules;
}

bool looks_like_tiktoken(std::string_view bytes) noexcept {
  const auto line = bytes.substr(0, bytes.find('\n'));
  const auto blank = line.find(' ');
  return blank != std::string_view::npos && line.size() < 4096 && decode_base64(line.substr(0, blank)) &&
         parse_integer(line.substr(blank + 1, line.find('\r') - blank - 1));
}

Tokenizer::Rules read_tiktoken(std::string_view lines, std::string_view name, const SideFiles& beside) {
  const auto& family = family_of(name, beside);
  RankedBytes ranks(0);
  std::size_t number = 0;
  for_each_line(lines, [&](std::string_view line) {
    ++number;
    if (line.empty()) return;
    const auto refuse = [&](std::string_view why) {
      throw TokenizerError(fmt::format("{}: line {}", printable(name), number), why);
    };
    const auto blank = std::min(line.find(' '), line.size());
    auto bytes = decode_base64(line.substr(0, blank));
    const auto rank = parse_integer(line.substr(std::min(blank + 1, line.size())));
    if (!bytes || !rank) refuse("is not a token; expected bytes in base64, a blank and a rank");
    if (const auto refusal = ranks.add(*std::move(bytes), *rank)) refuse(*refusal);
  });
  const auto numbered = beside.number(ranks.vocabulary(), {.start = ClassTokens::Start::listed_as_pieces});
  auto special = numbered.values();
  if (special.empty()) special = family.special(ranks.end());
  const auto bos = id_of(special, family.bos);
  const auto eos = id_of(special, family.eos);
  auto rules = rules_of(std::move(ranks), family.words, std::move(special), printable(name));
  if (family.composes) rules.normalizer = read_normalizer(as_reader({{"type", "NFC"}}, name));
  rules.bos = bos;
  rules.eos = eos;
  if (bos) rules.put_around({{*bos}, {}, fmt::format("the class of {}", family.file)});
  rules.notes = numbered.notes();
  rules.form = fmt::format("{} (tiktoken)", family.file);
  return rules;
}

}  // namespace hooked::text
