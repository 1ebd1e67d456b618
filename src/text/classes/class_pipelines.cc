#include "text/classes/class_pipelines.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/name_list.h"
#include "text/classes/class_parts.h"

namespace hooked::text {
namespace {

struct ModelTypes {
  std::string_view tokenizer_class;
  std::string_view model_types;
};

#include "text/classes/model_types.inc"

// Classes of transformers that read files of their own instead of a tokenizer.json.
constexpr std::string_view kOwnFiles =
    "BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertweetTokenizer BioGptTokenizer "
    "BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer CpmAntTokenizer "
    "CpmTokenizer DiaTokenizer EsmTokenizer EsmcTokenizer FSMTTokenizer FlaubertTokenizer "
    "GPTNeoXJapaneseTokenizer GPTSw3Tokenizer M2M100Tokenizer MarianTokenizer MgpstrTokenizer MyT5Tokenizer "
    "PLBartTokenizer PerceiverTokenizer PhobertTokenizer ProphetNetTokenizer RoCBertTokenizer "
    "SiglipTokenizer Speech2TextTokenizer SpeechT5Tokenizer TapasTokenizer VitsTokenizer "
    "Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer XLMTokenizer";
// Classes whose pipeline is not known here: they tokenize words with boxes, or have code of their own.
constexpr std::string_view kOtherPipelines =
    "LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer MarkupLMTokenizer RagTokenizer "
    "RoFormerTokenizer UdopTokenizer";

constexpr std::string_view kMistralWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

const ClassRow* class_row(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const auto rows : {word_class_rows(), piece_class_rows()}) {
    for (const auto& row : rows) {
      if (has_word(row.names, name)) return &row;
    }
  }
  return nullptr;
}

bool is_known(std::string_view name) {
  return class_row(name) || has_word(kOwnFiles, name) || has_word(kOtherPipelines, name);
}

std::string_view class_of_model(std::string_view model_type) {
  for (const auto& row : kModelTypes) {
    if (!model_type.empty() && has_word(row.model_types, model_type)) return row.tokenizer_class;
  }
  return {};
}

// Appends the steps of a normalizer or pre-tokenizer, without those that change no ids or are implied.
void append_plain_steps(const Json& step, Json& steps) {
  if (!step.is_object()) return;
  for (const auto* list : {"normalizers", "pretokenizers"}) {
    const auto found = step.find(list);
    if (found == step.end() || !found->is_array()) continue;
    for (const auto& part : *found) append_plain_steps(part, steps);
    return;
  }
  Json plain = step;
  const auto type = plain.value("type", std::string());
  if (type == "ByteLevel") {
    plain.erase("trim_offsets");
    if (!plain.contains("use_regex")) plain["use_regex"] = true;
  }
  if (type == "Metaspace") {
    if (!plain.contains("prepend_scheme"))
      plain["prepend_scheme"] = plain.value("add_prefix_space", true) ? "always" : "never";
    if (!plain.contains("split")) plain["split"] = true;
    plain.erase("add_prefix_space");
    plain.erase("str_rep");
  }
  const bool strips = type != "Strip" || plain.value("strip_left", true) || plain.value("strip_right", true);
  // Gives the members one fixed order.
  if (strips) steps.push_back(nlohmann::json::parse(plain.dump()).dump());
}

Json plain_pipeline(const Json& document) {
  Json both = Json::array();
  for (const auto* part : {"normalizer", "pre_tokenizer"}) {
    Json steps = Json::array();
    const auto found = document.find(part);
    if (found != document.end()) append_plain_steps(*found, steps);
    both.push_back(std::move(steps));
  }
  return both;
}

std::size_t size_of(const Json& pieces) { return pieces.is_structured() ? pieces.size() : 0; }

// Replaces the first step by the rule for words that Mistral's models were trained with, as transformers does
// if a file asks for it. Returns what a user should know.
std::optional<std::string> fix_mistral_words(Json& document, const SideFiles& beside) {
  constexpr std::size_t kLeast = 100'000;
  const auto* options = beside.options();
  auto& words = document["pre_tokenizer"];
  std::size_t pieces = size_of(document["model"]["vocab"]);
  for (const auto& token : document["added_tokens"])
    pieces += token["id"] >= size_of(document["model"]["vocab"]) ? 1 : 0;
  if (!options || !beside.may_have_mistral_words() || !words.is_object() || pieces <= kLeast) return {};
  if (!options->has("fix_mistral_regex")) {
    return "this tokenizer.json may cut words in another way than Mistral's models were trained with; "
           "`\"fix_mistral_regex\": true` in tokenizer_config.json fixes that, as in transformers";
  }
  if (!options->boolean("fix_mistral_regex")) return {};
  Json rule = split_step({{"Regex", kMistralWords}}, "Isolated");
  const auto steps = words.find("pretokenizers");
  if (steps != words.end() && steps->is_array() && !steps->empty()) {
    steps->front() = std::move(rule);
    return {};
  }
  Json after = words;
  if (after["type"] == "Metaspace") {
    after = byte_level_step(false);
    after["use_regex"] = false;
  }
  words = {{"type", "Sequence"}, {"pretokenizers", Json::array({std::move(rule), std::move(after)})}};
  return {};
}

// What AutoTokenizer chooses, known here or not; kAnyClass for its class without a pipeline.
std::string chosen_class(const ClassHints& hints) {
  const auto named = without_fast(hints.named);
  const auto usual = class_of_model(hints.model_type);
  const bool mistaken = has_word(kMistaken, hints.model_type) && !hints.model_type.empty();
  const bool mistral = has_word(
                           "ministral ministral3 mistral mistral3 mistral_large4 mixtral pixtral voxtral "
                           "voxtral_realtime",
                           hints.model_type) &&
                       !hints.model_type.empty();
  if (named.empty()) return std::string(usual);
  if (hints.has_remote_code) return named;
  // Llama 3's files name the class of Llama 2, which has no byte-level characters.
  if (named == "LlamaTokenizer" && hints.byte_level && !mistral && !mistaken) return std::string(kAnyClass);
  if (usual.empty() || usual == named) return named;
  if (usual == kAnyClass) return std::string(kAnyClass);
  return mistaken ? std::string(usual) : named;
}

}  // namespace

std::string sentencepiece_class(const SideFiles& beside) {
  const auto& hints = beside.hints();
  auto chosen = chosen_class(hints);
  // A folder that hooked saved names its class, if it has one.
  const bool saved_here = hints.model_type == "hooked_transformer";
  if (chosen.empty() && !hints.model_type.empty() && !saved_here) return std::string(kAnyClass);
  constexpr std::string_view kGeneric = "PreTrainedTokenizer PythonBackend MistralCommonBackend";
  return !chosen.empty() && has_word(kGeneric, chosen) ? std::string(kAnyClass) : chosen;
}

std::string json_class(std::string_view tokenizer_json, const SideFiles& beside) {
  if (!beside.options()) return {};
  ClassHints hints = beside.hints();
  hints.byte_level = tokenizer_json.find("\"ByteLevel\"") != std::string_view::npos;
  auto chosen = chosen_class(hints);
  return is_known(chosen) ? chosen : std::string();
}

std::span<const DefaultToken> default_tokens(std::string_view tokenizer_class) {
  const auto* row = class_row(tokenizer_class);
  return row ? row->tokens : std::span<const DefaultToken>();
}

std::string word_classes(std::string_view model) {
  std::string names;
  for (const auto& row : word_class_rows()) {
    if (row.model != model) continue;
    std::string listed(row.names);
    for (auto at = listed.find(' '); at != std::string::npos; at = listed.find(' ', at + 2))
      listed.replace(at, 1, ", ");
    names += (names.empty() ? "" : ", ") + listed;
  }
  return names;
}

bool is_word_class(std::string_view name, std::string_view model) {
  return !name.empty() && std::ranges::any_of(word_class_rows(), [&](const ClassRow& row) {
    return row.model == model && has_word(row.names, name);
  });
}

ClassNotes apply_class(const ClassUse& use, Json& document, const SideFiles& beside) {
  ClassNotes notes;
  const auto name = use.name;
  if (has_word(kOwnFiles, name) && !name.empty()) {
    notes.file.push_back(
        fmt::format("{} of transformers does not read tokenizer.json, which is read here: its ids "
                    "may be others",
                    name));
  } else if (has_word(kOtherPipelines, name) && !name.empty()) {
    notes.file.push_back(fmt::format("tokenizer.json is used as it is; {} of transformers changes it", name));
  }
  const auto* row = class_row(name);
  const auto model = document.find("model");
  // The reader reports what is wrong.
  if (model == document.end() || !model->is_object() || !model->contains("vocab")) return notes;
  const auto type = model->find("type");
  if (row && type != model->end() && *type != row->model) {
    notes.file.push_back(fmt::format("tokenizer.json is used as it is: {} of transformers expects a model {}",
                                     name, row->model));
    row = nullptr;
  }
  ClassParts parts(document, beside, row ? row->tokens : use.defaults);
  const bool rebuilt = row && row->build;
  if (rebuilt) {
    const auto before = plain_pipeline(document);
    row->build(parts);
    if (plain_pipeline(document) != before) {
      notes.file.push_back(
          fmt::format("{} replaces the normalizer and the pre-tokenizer of tokenizer.json with others, as in "
                      "transformers 5; "
                      "without that tokenizer_class they are used as they are",
                      name));
    }
  }
  auto& tokens = parts.tokens();
  tokens.start = rebuilt ? ClassTokens::Start::nothing : ClassTokens::Start::those_of_file;
  tokens.vocabulary_extras = use.vocabulary_extras;
  auto numbered = beside.number(document, tokens);
  document["added_tokens"] = std::move(numbered.list);
  notes.ids = numbered.notes();
  if (!numbered.added.empty()) {
    notes.file.push_back(fmt::format("tokens that tokenizer.json lacks, added as AutoTokenizer adds them: {}",
                                     name_list(numbered.added)));
  }
  if (row && row->around) row->around(parts);
  if (auto note = fix_mistral_words(document, beside)) notes.file.push_back(*std::move(note));
  return notes;
}

}  // namespace hooked::text
