#include "loading/gguf/gguf_tokenizer_tables.h"

#include <algorithm>
#include <iterator>

namespace hooked {
namespace {

using Names = std::string_view;

constexpr Names kGpt2Names[] = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling"};
constexpr Names kLlama3Names[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral"};
constexpr Names kOtherLlama3Names[] = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"};
constexpr Names kQwen2Names[] = {"qwen2"};
constexpr Names kLikeQwen2Names[] = {"deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"};
constexpr Names kGpt4oNames[] = {"gpt-4o", "llama4"};
constexpr Names kTekkenNames[] = {"tekken"};
constexpr Names kStarcoderNames[] = {"starcoder", "refact", "command-r", "smollm",
                                     "codeshell", "exaone", "minerva-7b"};
constexpr Names kFalconNames[] = {"falcon"};
constexpr Names kDeepseekLlmNames[] = {"deepseek-llm"};
constexpr Names kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr Names kDeepseek3Names[] = {"deepseek-v3"};

constexpr std::string_view kLlama3Steps =
    R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll)j"
    R"j(|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+)j"
    R"j((?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":fals)j"
    R"j(e,"trim_offsets":true,"use_regex":false}]})j";

constexpr std::string_view kQwen2Steps =
    R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll)j"
    R"j(|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\)j"
    R"j(S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"tr)j"
    R"j(im_offsets":true,"use_regex":false}]})j";

// Each as in the tokenizer.json of the models that the name comes from.
constexpr GgufPreTokenizer kGgufPreTokenizers[] = {
    {.names = kGpt2Names,
     .pre_tokenizer =
         R"j({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})j"},
    {.names = kLlama3Names, .pre_tokenizer = kLlama3Steps, .whole_words = true, .prepends_bos = true},
    {.names = kOtherLlama3Names, .pre_tokenizer = kLlama3Steps},
    {.names = kQwen2Names, .pre_tokenizer = kQwen2Steps, .normalizer = R"j({"type": "NFC"})j"},
    {.names = kLikeQwen2Names, .pre_tokenizer = kQwen2Steps},
    {.names = kGpt4oNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[^\\r\\n\\p{L}\\p{N}]?[)j"
         R"j(\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)j"
         R"j([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|)j"
         R"j('t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s)j"
         R"j(+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_off)j"
         R"j(sets":true,"use_regex":false}]})j"},
    {.names = kTekkenNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[^\\r\\n\\p{L}\\p{N}]?[)j"
         R"j(\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu)j"
         R"j(}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n)j"
         R"j(/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel",")j"
         R"j(add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})j",
     .whole_words = true,
     .prepends_bos = true},
    {.names = kStarcoderNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLeve)j"
         R"j(l","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})j"},
    {.names = kFalconNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Contiguous"},{"type":"Byte)j"
         R"j(Level","add_prefix_space":false,"trim_offsets":true,"use_regex":true},{"type":"Digits","individu)j"
         R"j(al_digits":false},{"type":"Split","pattern":{"Regex":"[0-9][0-9][0-9]"},"behavior":"Isolated","i)j"
         R"j(nvert":false}]})j"},
    {.names = kDeepseekLlmNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[\r\n]"},"behavior":"Iso)j"
         R"j(lated","invert":false},{"type":"Split","pattern":{"Regex":"\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-)j"
         R"j(\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d)j"
         R"j(\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556)j"
         R"j(\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77)j"
         R"j(\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d)j"
         R"j(\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-)j"
         R"j(\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124)j"
         R"j(\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-)j"
         R"j(\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787)j"
         R"j(\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\ud801\udc00-)j"
         R"j(\ud801\udc4f\ud801\udcb0-\ud801\udcd3\ud801\udcd8-\ud801\udcfb\ud803\udc80-\ud803\udcb2\ud803)j"
         R"j(\udcc0-\ud803\udcf2\ud806\udca0-\ud806\udcdf\ud83a\udd00-\ud83a\udd43]+"},"behavior":"Isolated",)j"
         R"j("invert":false},{"type":"Split","pattern":{"Regex":"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-)j"
         R"j(\u201f\u3000-\u3002]+"},"behavior":"Isolated","invert":false},{"type":"Split","pattern":{"Regex")j"
         R"j(:"\\s+$"},"behavior":"Isolated","invert":false},{"type":"Split","pattern":{"Regex":"[\u4e00-)j"
         R"j(\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},"behavior":"Isolated","invert":false},{"type":"Split","patt)j"
         R"j(ern":{"Regex":"\\p{N}+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_s)j"
         R"j(pace":false,"trim_offsets":true,"use_regex":false}]})j"},
    {.names = kDeepseekCoderNames,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[\r\n]"},"behavior":"Iso)j"
         R"j(lated","invert":false},{"type":"Split","pattern":{"Regex":"\\s?\\p{L}+"},"behavior":"Isolated",")j"
         R"j(invert":false},{"type":"Split","pattern":{"Regex":"\\s?\\p{P}+"},"behavior":"Isolated","invert":)j"
         R"j(false},{"type":"Split","pattern":{"Regex":"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},"behavio)j"
         R"j(r":"Isolated","invert":false},{"type":"Digits","individual_digits":true},{"type":"ByteLevel","ad)j"
         R"j(d_prefix_space":false,"trim_offsets":true,"use_regex":false}]})j"},
    {.names = kDeepseek3Names,
     .pre_tokenizer =
         R"j({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},"behavior")j"
         R"j(:"Isolated","invert":false},{"type":"Split","pattern":{"Regex":"[\u4e00-\u9fa5\u3040-\u309f)j"
         R"j(\u30a0-\u30ff]+"},"behavior":"Isolated","invert":false},{"type":"Split","pattern":{"Regex":"[!\")j"
         R"j(#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[)j"
         R"j(\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"typ)j"
         R"j(e":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})j"},
};

constexpr std::string_view kFollowed[] = {"model",
                                          "pre",
                                          "tokens",
                                          "token_type",
                                          "token_type_count",
                                          "scores",
                                          "merges",
                                          "add_bos_token",
                                          "add_eos_token",
                                          "escape_whitespaces",
                                          "remove_extra_whitespaces",
                                          "precompiled_charsmap"};

}  // namespace

std::span<const GgufPreTokenizer> gguf_pre_tokenizers() { return kGgufPreTokenizers; }

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& row : kGgufPreTokenizers) {
    if (std::ranges::find(row.names, name) != row.names.end()) return &row;
  }
  return nullptr;
}

std::vector<std::string> unread_tokenizer_keys(const GgufMetadata& metadata) {
  const GgufValue* model = find_value(metadata, "tokenizer.ggml.model");
  const bool pieces = model != nullptr && !model->is_array() && model->text() == "llama";
  std::vector<std::string> unread;
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kTokenizerKeys)) continue;
    const auto name = std::string_view(key).substr(kTokenizerKeys.size());
    // Naming a special token does not change the ids of a text, and an option that is off has no effect.
    const bool harmless = name.ends_with("_token_id") || name.ends_with("_token_ids") ||
                          (!value.is_array() && value.boolean() == false);
    // Only SentencePiece's pieces begin with a blank.
    const bool followed =
        name == "add_space_prefix" ? pieces : std::ranges::find(kFollowed, name) != std::end(kFollowed);
    if (!harmless && !followed) unread.push_back(key);
  }
  return unread;
}

}  // namespace hooked
