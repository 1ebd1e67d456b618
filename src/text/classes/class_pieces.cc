#include <fmt/format.h>

#include <algorithm>

#include "text/classes/class_parts.h"
#include "text/files/limited_files.h"

// See Note [Classes that build their pipeline].

namespace hooked::text {
namespace {

using Parts = ClassParts;

void llama(Parts& parts) {
  parts.bpe({.fuses = true, .bytes = true});
  const bool prefix = parts.flag("add_prefix_space", true);
  const auto* scheme = !prefix ? "never" : parts.flag("legacy", false) ? "always" : "first";
  auto decoder = blanks_and_bytes_steps();
  if (prefix) decoder.push_back(strip_first_blank_step());
  parts.pipeline({}, {metaspace_step(scheme, false)}, decoder);
}

void code_llama(Parts& parts) {
  parts.bpe({.unknown = true, .fuses = true, .bytes = true});
  auto decoder = blanks_and_bytes_steps();
  decoder.push_back(strip_first_blank_step());
  parts.pipeline({}, {metaspace_step(parts.flag("add_prefix_space", true) ? "first" : "never", false)},
                 decoder);
}

void gemma(Parts& parts) {
  parts.bpe({.unknown = true, .fuses = true, .bytes = true});
  parts.pipeline({replace_step({{"String", " "}}, kBlank)},
                 {split_step({{"String", " "}}, "MergedWithPrevious")}, blanks_and_bytes_steps());
}

void siglip2(Parts& parts) {
  gemma(parts);
  parts.normalize({step("Lowercase"), replace_step({{"String", " "}}, kBlank)});
}

void tipsv2(Parts& parts) {
  parts.bpe({.fuses = true, .bytes = true});
  Steps normalizer;
  if (parts.flag("do_lower_case", true)) normalizer.push_back(step("Lowercase"));
  parts.add_charsmap(normalizer);
  parts.pipeline(normalizer, {step("WhitespaceSplit"), metaspace_step("always")},
                 {metaspace_step("always"), step("ByteFallback"), step("Fuse")});
}

// `add_prefix_space` of tokenizer_config.json, for classes that put blanks before words.
const char* prefix_scheme(const Parts& parts) {
  return parts.flag("add_prefix_space", true) ? "always" : "never";
}

Steps quotes_and_accents(bool keeps_accents) {
  Steps steps = {replace_step({{"String", "``"}}, "\""), replace_step({{"String", "''"}}, "\"")};
  if (!keeps_accents) {
    steps.push_back(step("NFKD"));
    steps.push_back(step("StripAccents"));
  }
  return steps;
}

void albert(Parts& parts) {
  parts.unigram(1);
  Steps steps = quotes_and_accents(parts.flag("keep_accents", false));
  if (parts.flag("do_lower_case", true)) steps.push_back(step("Lowercase"));
  parts.add_charsmap(steps);
  const auto* scheme = prefix_scheme(parts);
  parts.pipeline(steps, {step("WhitespaceSplit"), metaspace_step(scheme)}, {metaspace_step(scheme)});
}

void xlnet(Parts& parts) {
  parts.unigram(parts.number("unk_id", 0));
  Steps steps = quotes_and_accents(false);
  if (parts.flag("do_lower_case", false)) steps.push_back(step("Lowercase"));
  parts.add_charsmap(steps);
  parts.pipeline(steps, {step("WhitespaceSplit"), metaspace_step("always")}, {metaspace_step("always")});
  for (const auto* token : {"<eop>", "<eod>"}) parts.extra(token);
}

void rembert(Parts& parts) {
  parts.unigram(2);
  Steps steps = quotes_and_accents(true);
  steps.push_back(replace_step({{"Regex", " {2,}"}}, " "));
  if (!parts.flag("keep_accents", true)) {
    steps.push_back(step("NFKD"));
    steps.push_back(step("StripAccents"));
  }
  if (parts.flag("do_lower_case", false)) steps.push_back(step("Lowercase"));
  parts.add_charsmap(steps);
  parts.metaspace(steps, prefix_scheme(parts));
}

Steps one_line_steps() {
  return {replace_step({{"Regex", R"(\s{2,}|[\n\r\t])"}}, " "), step("NFC"), strip_right_step()};
}

void barthez(Parts& parts) {
  parts.unigram(3);
  parts.metaspace(one_line_steps(), prefix_scheme(parts));
}

void deberta_v2(Parts& parts) {
  parts.unigram(parts.unknown_id(parts.number("unk_id", 1), "[UNK]"));
  Steps steps = one_line_steps();
  if (parts.flag("do_lower_case", false)) steps.insert(steps.begin(), step("Lowercase"));
  const auto* scheme = parts.flag("add_prefix_space", true) ? "always" : "first";
  Steps words;
  if (parts.flag("split_by_punct", false))
    words.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  words.push_back(metaspace_step(scheme));
  parts.pipeline(steps, words, {metaspace_step(scheme)});
}

void big_bird(Parts& parts) {
  parts.unigram(parts.unknown_id(100, "<unk>"));
  parts.metaspace({replace_step({{"Regex", " {2,}"}}, kBlank)}, prefix_scheme(parts));
}

// The rules of SentencePiece, if the file has them, and blanks before words.
void charsmap_and_words(Parts& parts, const char* scheme) {
  Steps steps;
  parts.add_charsmap(steps);
  parts.pipeline(steps, {step("WhitespaceSplit"), metaspace_step(scheme)}, {metaspace_step(scheme)});
}

void camembert(Parts& parts) {
  parts.unigram(parts.first_id("unk_token", "<unk>", 0));
  charsmap_and_words(parts, prefix_scheme(parts));
  for (const auto* token : {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"}) parts.extra(token);
}

void xlm_roberta(Parts& parts) {
  parts.unigram(3);
  charsmap_and_words(parts, prefix_scheme(parts));
}

void t5(Parts& parts) {
  parts.unigram(2);
  charsmap_and_words(parts, "always");
  parts.tokens().extras_stand = ClassTokens::Extras::after_listed;
  for (std::int64_t i = 0; i < parts.number("extra_ids", 100); ++i)
    parts.extra(fmt::format("<extra_id_{}>", i));
}

void lasr(Parts& parts) {
  t5(parts);
  parts.unigram(3);
}

#include "text/classes/language_codes.inc"

constexpr std::size_t kAllLanguages = 1000;

// The first languages of a list, as special tokens.
void languages(Parts& parts, std::string_view list, std::size_t count) {
  for_each_part(list, ' ', [&](std::string_view language) {
    if (count == 0) return;
    parts.extra(std::string(language));
    --count;
  });
}

void mbart(Parts& parts) {
  parts.unigram(3);
  parts.pipeline({}, {step("WhitespaceSplit"), metaspace_step("always")}, {metaspace_step("always")});
  languages(parts, kMbart50Languages, 25);
  parts.tokens().extras_stand = ClassTokens::Extras::before_listed;
}

// One blank for several, after the rules of SentencePiece.
Steps charsmap_and_single_blanks(const Parts& parts) {
  Steps steps;
  parts.add_charsmap(steps);
  steps.push_back(replace_step({{"Regex", " {2,}"}}, " "));
  return steps;
}

void mbart50(Parts& parts) {
  parts.unigram(3);
  parts.metaspace(charsmap_and_single_blanks(parts), "always");
  languages(parts, kMbart50Languages, kAllLanguages);
  parts.tokens().extras_stand = ClassTokens::Extras::after_listed;
}

void xglm(Parts& parts) {
  parts.unigram(3);
  parts.metaspace(charsmap_and_single_blanks(parts), prefix_scheme(parts));
  for (int i = 0; i < 7; ++i) parts.extra(fmt::format("<madeupword{}>", i));
  parts.tokens().extras_stand = ClassTokens::Extras::after_listed;
}

void pegasus(Parts& parts) {
  parts.unigram(parts.unknown_id(-1, "<unk>"));
  Steps steps = charsmap_and_single_blanks(parts);
  if (steps.size() == 1) steps.insert(steps.begin(), replace_step({{"Regex", "\\n"}}, " "));
  parts.metaspace(steps, "always");
  parts.extra("<mask_1>");
  for (std::int64_t i = 2; i < parts.number("offset", 103); ++i) parts.extra(fmt::format("<unk_{}>", i));
  parts.tokens().extras_stand = ClassTokens::Extras::alone;
}

// BPE on SentencePiece's pieces.
void reformer(Parts& parts) {
  parts.bpe({.unknown = true, .fuses = true});
  Steps steps = charsmap_and_single_blanks(parts);
  if (steps.size() == 1) steps.clear();
  parts.metaspace(steps, "always");
}

void nllb(Parts& parts) {
  reformer(parts);
  languages(parts, kNllbLanguages, kAllLanguages);
}

void seamless(Parts& parts) {
  parts.bpe({.unknown = true, .fuses = true});
  parts.metaspace({replace_step({{"Regex", R"([\n\r\t])"}}, " "), step("NFKC"), strip_right_step(),
                   replace_step({{"Regex", " +▁"}}, kBlank), replace_step({{"Regex", "^▁+$"}}, ""),
                   replace_step({{"Regex", " {2,}"}}, kBlank)},
                  "first");
}

void mluke(Parts& parts) {
  parts.unigram(0);
  parts.metaspace({replace_step({{"String", "``"}}, "\""), replace_step({{"String", "''"}}, "\"")}, "always");
}

void albert_around(Parts& parts) {
  if (!parts.has_post_processor()) cls_and_sep(parts);
}
void bos_before(Parts& parts) { parts.around({"bos_token"}, {}); }
void eos_before(Parts& parts) { parts.around({"eos_token"}, {}); }
void eos_behind(Parts& parts) { parts.around({}, {"eos_token"}); }
void xlnet_around(Parts& parts) { parts.around({}, {"sep_token", "cls_token"}); }

void language_behind(Parts& parts, const char* usual) {
  parts.around_spelled({},
                       {parts.token("eos_token").value_or("</s>"), parts.text("src_lang").value_or(usual)});
}
void language_before(Parts& parts, const char* usual) {
  parts.around_spelled({parts.text("src_lang").value_or(usual)}, {parts.token("eos_token").value_or("</s>")});
}
void mbart_around(Parts& parts) { language_behind(parts, "en_XX"); }
void mbart50_around(Parts& parts) { language_before(parts, "en_XX"); }
void nllb_around(Parts& parts) {
  return parts.flag("legacy_behaviour", false) ? language_behind(parts, "eng_Latn")
                                               : language_before(parts, "eng_Latn");
}

void seamless_around(Parts& parts) {
  std::string language = parts.text("src_lang").value_or("eng");
  if (language.find("__") == std::string::npos) language = "__" + language + "__";
  parts.around_spelled({language}, {parts.token("eos_token").value_or("</s>")});
}

constexpr DefaultToken kLlama[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
constexpr DefaultToken kCodeLlama[] = {{"bos_token", "<s>"},
                                       {"eos_token", "</s>"},
                                       {"unk_token", "<unk>"},
                                       {"prefix_token", "\u2581<PRE>"},
                                       {"middle_token", "\u2581<MID>"},
                                       {"suffix_token", "\u2581<SUF>"},
                                       {"eot_token", "\u2581<EOT>"},
                                       {"fill_token", "<FILL_ME>"}};
constexpr DefaultToken kGemma[] = {{"bos_token", "<bos>"},
                                   {"eos_token", "<eos>"},
                                   {"unk_token", "<unk>"},
                                   {"pad_token", "<pad>"},
                                   {"mask_token", "<mask>"}};
constexpr DefaultToken kTips[] = {{"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
constexpr DefaultToken kT5[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
constexpr DefaultToken kReformer[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}};
constexpr DefaultToken kAlbert[] = {{"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"unk_token", "<unk>"},
                                    {"sep_token", "[SEP]"},  {"pad_token", "<pad>"}, {"cls_token", "[CLS]"},
                                    {"mask_token", "[MASK]"}};
constexpr DefaultToken kXlnet[] = {{"bos_token", "<s>"},
                                   {"eos_token", "</s>"},
                                   {"unk_token", "<unk>"},
                                   {"sep_token", "<sep>"},
                                   {"pad_token", "<pad>"},
                                   {"cls_token", "<cls>"},
                                   {"mask_token", "<mask>", true, true}};
constexpr DefaultToken kBigBird[] = {{"bos_token", "<s>", false, true},   {"eos_token", "</s>", false, true},
                                     {"unk_token", "<unk>", false, true}, {"sep_token", "[SEP]", false, true},
                                     {"pad_token", "<pad>", false, true}, {"cls_token", "[CLS]", false, true},
                                     {"mask_token", "[MASK]", true, true}};
constexpr DefaultToken kMluke[] = {{"bos_token", "<s>"},
                                   {"eos_token", "</s>"},
                                   {"unk_token", "<unk>"},
                                   {"sep_token", "</s>"},
                                   {"pad_token", "<pad>"},
                                   {"cls_token", "<s>"},
                                   {"mask_token", "<mask>", true, true},
                                   {"entity_1_token", "\u2581<ent>", false, true},
                                   {"entity_2_token", "\u2581<ent2>", false, true},
                                   {"entity_unk_token", "[UNK]"},
                                   {"entity_pad_token", "[PAD]"},
                                   {"entity_mask_token", "[MASK]"},
                                   {"entity_mask2_token", "[MASK2]"}};
// RoBERTa's tokens, with a `<mask>` that takes the blank before it in a text.
constexpr auto kFairseq = std::span(kMluke).first(7);
constexpr auto kMbart50 = kFairseq.subspan(1);  // without a BOS token
constexpr auto kUnmasked = std::span(kRobertaTokens).first(6);
constexpr DefaultToken kPegasus[] = {
    {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask_2>"}};

constexpr ClassRow kPieceRows[] = {
    {"LlamaTokenizer Phi3Tokenizer", "BPE", llama, kLlama},
    {"CodeLlamaTokenizer", "BPE", code_llama, kCodeLlama, bos_before},
    {"GemmaTokenizer", "BPE", gemma, kGemma},
    {"Siglip2Tokenizer", "BPE", siglip2, kGemma},
    {"Tipsv2Tokenizer", "BPE", tipsv2, kTips},
    {"NllbTokenizer", "BPE", nllb, kFairseq, nllb_around},
    {"SeamlessM4TTokenizer", "BPE", seamless, kUnmasked, seamless_around},
    {"ReformerTokenizer", "BPE", reformer, kReformer},
    {"AlbertTokenizer", "Unigram", albert, kAlbert, albert_around},
    {"FNetTokenizer", "Unigram", nullptr, kAlbert, albert_around},
    {"XLNetTokenizer", "Unigram", xlnet, kXlnet, xlnet_around},
    {"RemBertTokenizer", "Unigram", rembert, kAlbert, cls_and_sep},
    {"BarthezTokenizer", "Unigram", barthez, kFairseq},
    {"DebertaV2Tokenizer", "Unigram", deberta_v2, kDebertaTokens, cls_and_sep},
    {"BigBirdTokenizer", "Unigram", big_bird, kBigBird, cls_and_sep},
    {"CamembertTokenizer", "Unigram", camembert, kMaskWithBlank, bos_and_eos},
    {"XLMRobertaTokenizer", "Unigram", xlm_roberta, kRobertaTokens, bos_and_eos},
    {"T5Tokenizer", "Unigram", t5, kT5, eos_behind},
    {"VideoPrismTokenizer", "Unigram", t5, kT5},
    {"LasrTokenizer", "Unigram", lasr, kT5, eos_behind},
    {"MBartTokenizer", "Unigram", mbart, kFairseq, mbart_around},
    {"MBart50Tokenizer", "Unigram", mbart50, kMbart50, mbart50_around},
    {"XGLMTokenizer", "Unigram", xglm, kUnmasked, eos_before},
    {"PegasusTokenizer", "Unigram", pegasus, kPegasus, eos_behind},
    {"MLukeTokenizer", "Unigram", mluke, kMluke, cls_and_sep},
};

}  // namespace

std::span<const ClassRow> piece_class_rows() { return kPieceRows; }

}  // namespace hooked::text
