#include "text/classes/class_parts.h"

// Note [Classes that build their pipeline]
// A class of transformers with a constructor of its own takes only these from a tokenizer.json: the
// vocabulary, the merges, the rules of SentencePiece and, unless it builds its own, the post-processor. The
// class builds normalizer, pre-tokenizer, decoder and model options itself, by the options in
// tokenizer_config.json. Each row below is such a constructor, with the class's default special tokens.

namespace hooked::text {
namespace {

using Parts = ClassParts;

constexpr std::string_view kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kClipWords =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

void byte_level(Parts& parts) {
  parts.bpe({});
  parts.pipeline({}, {byte_level_step(parts.flag("add_prefix_space", false))}, {byte_level_step(true)});
}

void byte_level_after_blank(Parts& parts) {
  parts.bpe({});
  parts.pipeline({}, {byte_level_step(parts.flag("add_prefix_space", true))}, {byte_level_step(true)});
}

void gpt_neox(Parts& parts) {
  byte_level(parts);
  parts.normalize({step("NFC")});
}

void cohere(Parts& parts) {
  byte_level(parts);
  parts.pipeline({step("NFC")}, {digits_step(), byte_level_step(parts.flag("add_prefix_space", false))},
                 {byte_level_step(true)});
}

void qwen(Parts& parts, std::string_view words) {
  parts.bpe({});
  Json bytes = byte_level_step(parts.flag("add_prefix_space", false));
  bytes["use_regex"] = false;
  parts.pipeline({step("NFC")}, {split_step({{"Regex", words}}, "Isolated"), bytes}, {byte_level_step(true)});
}
void qwen2(Parts& parts) {
  qwen(parts, kQwenWords);
  parts.tokens().readds_special = true;
}
void qwen3_5(Parts& parts) { qwen(parts, kQwen35Words); }

void clip(Parts& parts) {
  parts.bpe({.unknown = true, .suffix = "</w>"});
  Json words = split_step({{"Regex", kClipWords}}, "Removed");
  words["invert"] = true;
  parts.pipeline({step("NFC"), replace_step({{"Regex", R"(\s+)"}}, " "), step("Lowercase")},
                 {words, byte_level_step(false)}, {byte_level_step(true)});
}

void nougat(Parts& parts) {
  parts.bpe({});
  // The third step searches for its regular expression as literal text.
  parts.pipeline(
      {step("NFKC")},
      {split_step({{"String", "SPL1T-TH1S-Pl3A5E"}}, "Removed"), digits_step(),
       split_step({{"String", R"([\(\)\[\]\{\}]|([!\"#\$%\&'\*\+,\-\./:;<=>\?\\\^_`\|\~])\1*)"}}, "Isolated"),
       split_step({{"String", "\n"}}, "Isolated"), byte_level_step(false)},
      {byte_level_step(true)});
}

void words_of_bert(Parts& parts) {
  parts.word_piece();
  parts.pipeline({parts.bert_normalizer()}, {step("BertPreTokenizer")}, {word_piece_step()});
}

void funnel(Parts& parts) {
  words_of_bert(parts);
  Json normalizer = parts.bert_normalizer();
  normalizer["clean_text"] = parts.flag("clean_text", true);
  parts.normalize({normalizer});
}

// These take `do_lower_case`, but do not pass it on to the class of BERT.
void dpr(Parts& parts) {
  words_of_bert(parts);
  Json normalizer = parts.bert_normalizer();
  normalizer["lowercase"] = true;
  parts.normalize({normalizer});
}

void suffixed_words(Parts& parts, bool lower_case) {
  parts.bpe({.unknown = true, .suffix = "</w>"});
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", nullptr},
                     {"lowercase", lower_case}};
  if (!lower_case) normalizer["strip_accents"] = false;
  parts.pipeline({normalizer}, {step("BertPreTokenizer")}, {{{"type", "BPEDecoder"}, {"suffix", "</w>"}}});
}
void herbert(Parts& parts) { suffixed_words(parts, false); }
void openai_gpt(Parts& parts) { suffixed_words(parts, true); }

void trimmed_cls_and_sep(Parts& parts) {
  cls_and_sep(parts);
  parts.trim_offsets();
}
void nothing_around(Parts& parts) { parts.around({}, {}); }

// Its ids are those of the published model.
void herbert_around(Parts& parts) { parts.around_ids({0}, {2}); }

// A transcript without a stated language.
void whisper_around(Parts& parts) {
  std::vector<std::string> before = {"<|startoftranscript|>"};
  if (const auto task = parts.text("task"))
    before.emplace_back(*task == "transcribe" ? "<|transcribe|>" : "<|translate|>");
  if (!parts.flag("predict_timestamps", false)) before.emplace_back("<|notimestamps|>");
  parts.around_spelled(before, {parts.token("eos_token").value_or("<|endoftext|>")});
}

constexpr DefaultToken kNeox[] = {{"bos_token", "<|endoftext|>"},
                                  {"eos_token", "<|endoftext|>"},
                                  {"unk_token", "<|endoftext|>"},
                                  {"pad_token", "<|padding|>"}};
constexpr auto kEndOfText = std::span(kNeox).first(3);
constexpr DefaultToken kQwen[] = {
    {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
constexpr DefaultToken kClip[] = {{"bos_token", "<|startoftext|>"},
                                  {"eos_token", "<|endoftext|>"},
                                  {"unk_token", "<|endoftext|>"},
                                  {"pad_token", "<|endoftext|>"}};
constexpr DefaultToken kCohere[] = {{"bos_token", "<BOS_TOKEN>"},  {"eos_token", "<|END_OF_TURN_TOKEN|>"},
                                    {"unk_token", "<UNK>"},        {"sep_token", "<SEP>"},
                                    {"pad_token", "<PAD>"},        {"cls_token", "<CLS>"},
                                    {"mask_token", "<MASK_TOKEN>"}};
constexpr DefaultToken kLuke[] = {{"bos_token", "<s>"},
                                  {"eos_token", "</s>"},
                                  {"unk_token", "<unk>"},
                                  {"sep_token", "</s>"},
                                  {"pad_token", "<pad>"},
                                  {"cls_token", "<s>"},
                                  {"mask_token", "<mask>"},
                                  {"entity_1_token", "<ent>", false, true},
                                  {"entity_2_token", "<ent2>", false, true},
                                  {"entity_unk_token", "[UNK]"},
                                  {"entity_pad_token", "[PAD]"},
                                  {"entity_mask_token", "[MASK]"},
                                  {"entity_mask2_token", "[MASK2]"}};
constexpr DefaultToken kSplinter[] = {{"unk_token", "[UNK]"},   {"sep_token", "[SEP]"},
                                      {"pad_token", "[PAD]"},   {"cls_token", "[CLS]"},
                                      {"mask_token", "[MASK]"}, {"question_token", "[QUESTION]"}};
constexpr auto kBert = std::span(kSplinter).first(5);
constexpr DefaultToken kFunnel[] = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                    {"sep_token", "<sep>"},  {"pad_token", "<pad>"}, {"cls_token", "<cls>"},
                                    {"mask_token", "<mask>"}};
constexpr DefaultToken kMpnet[] = {{"bos_token", "<s>", false, true},   {"eos_token", "</s>", false, true},
                                   {"unk_token", "[UNK]", false, true}, {"sep_token", "</s>", false, true},
                                   {"pad_token", "<pad>", false, true}, {"cls_token", "<s>", false, true},
                                   {"mask_token", "<mask>", true, true}};
constexpr DefaultToken kNougat[] = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
constexpr DefaultToken kUnknown[] = {{"unk_token", "<unk>"}};
constexpr auto kHerbert = std::span(kRobertaTokens).subspan(2);

constexpr ClassRow kWordRows[] = {
    {"GPT2Tokenizer CodeGenTokenizer", "BPE", byte_level, kEndOfText},
    {"WhisperTokenizer", "BPE", byte_level, kEndOfText, whisper_around},
    {"GPTNeoXTokenizer", "BPE", gpt_neox, kNeox, nothing_around},
    {"CohereTokenizer", "BPE", cohere, kCohere},
    {"Qwen2Tokenizer", "BPE", qwen2, kQwen},
    {"Qwen3_5Tokenizer", "BPE", qwen3_5, kQwen},
    {"CLIPTokenizer", "BPE", clip, kClip, bos_and_eos},
    {"NougatTokenizer", "BPE", nougat, kNougat, bos_and_eos},
    {"RobertaTokenizer BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer", "BPE", byte_level,
     kRobertaTokens, trimmed_cls_and_sep},
    {"BlenderbotTokenizer", "BPE", byte_level_after_blank, kMaskWithBlank},
    {"LukeTokenizer", "BPE", byte_level, kLuke, trimmed_cls_and_sep},
    {"DebertaTokenizer", "BPE", byte_level, kDebertaTokens, cls_and_sep},
    {"HerbertTokenizer", "BPE", herbert, kHerbert, herbert_around},
    {"OpenAIGPTTokenizer", "BPE", openai_gpt, kUnknown},
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer LxmertTokenizer MobileBertTokenizer "
     "SqueezeBertTokenizer",
     "WordPiece", words_of_bert, kBert, cls_and_sep},
    {"ConvBertTokenizer", "WordPiece", nullptr, kBert, cls_and_sep},
    {"DPRQuestionEncoderTokenizer DPRContextEncoderTokenizer DPRReaderTokenizer", "WordPiece", dpr, kBert,
     cls_and_sep},
    {"SplinterTokenizer", "WordPiece", words_of_bert, kSplinter, cls_and_sep},
    {"FunnelTokenizer", "WordPiece", funnel, kFunnel, cls_and_sep},
    {"MPNetTokenizer", "WordPiece", words_of_bert, kMpnet, cls_and_sep},
};

}  // namespace

std::span<const ClassRow> word_class_rows() { return kWordRows; }

}  // namespace hooked::text
