#include "families/composite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

// Qwen's: older files name the text model as if it were alone.
constexpr std::string_view kQwenPrefixes[] = {"model.language_model.", "language_model.", "model."};
constexpr std::string_view kQwenOthers[] = {"visual."};
constexpr std::string_view kQwen35Others[] = {"visual.", "mtp."};

// Llama 4 has its whole text model, with its unembedding, in one part.
constexpr std::string_view kLlama4Prefixes[] = {"language_model.model.", "language_model."};
constexpr std::string_view kLlama4Others[] = {"vision_model.", "multi_modal_projector."};
constexpr std::string_view kGemma4Others[] = {"vision_tower.", "audio_tower.", "vision_embedder.",
                                              "embed_vision.", "embed_audio."};

constexpr std::string_view kPaliGemmaKeys[] = {"hidden_size", "vocab_size", "projection_dim", "ignore_index"};
constexpr std::string_view kPaliGemmaTextKeys[] = {"use_bidirectional_attention", "num_image_tokens"};

// Gemma 3's whole builds its masks without this key, and its attention reads it only if it needs no mask:
// transformers' `eager` is causal, its `sdpa` is not, unless a row is padded.
constexpr std::string_view kGemma3UnsettledKeys[] = {"use_bidirectional_attention"};

constexpr Composite kComposites[] = {
    {.model_type = "aya_vision", .text_type = "cohere2", .tied = true},
    {.model_type = "gemma3",
     .text_type = "gemma3_text",
     .tied = true,
     .unsettled_text_keys = kGemma3UnsettledKeys},
    {.model_type = "gemma4",
     .text_type = "gemma4_text",
     .tied = true,
     .others = kGemma4Others,
     .own_logits = true},
    {.model_type = "gemma4_unified",
     .text_type = "gemma4_unified_text",
     .tied = true,
     .others = kGemma4Others,
     .own_logits = true},
    {.model_type = "internvl", .text_type = "qwen2", .tied = true},
    {.model_type = "llama4",
     .text_type = "llama4_text",
     .whole_ties = false,
     .group_ties = true,
     .prefixes = kLlama4Prefixes,
     .others = kLlama4Others},
    {.model_type = "llava", .text_type = "llama", .group_ties = true},
    {.model_type = "llava_next", .text_type = "llama"},
    {.model_type = "llava_onevision", .text_type = "qwen2", .group_ties = true},
    {.model_type = "mistral3", .text_type = "mistral", .tied = true},
    {.model_type = "paligemma",
     .text_type = "gemma",
     .tied = true,
     .keys = kPaliGemmaKeys,
     .text_keys = kPaliGemmaTextKeys,
     .own_logits = true,
     .note = "PaliGemma reads an image and its prompt in both directions and what follows causally: without "
             "an image all of a text is read causally, as transformers does where no token types are given"},
    {.model_type = "qwen2_5_vl",
     .text_type = "qwen2_5_vl_text",
     .group_ties = true,
     .flat = true,
     .prefixes = kQwenPrefixes,
     .others = kQwenOthers},
    {.model_type = "qwen2_vl",
     .text_type = "qwen2_vl_text",
     .group_ties = true,
     .flat = true,
     .prefixes = kQwenPrefixes,
     .others = kQwenOthers},
    {.model_type = "qwen3_5",
     .text_type = "qwen3_5_text",
     .prefixes = kQwenPrefixes,
     .others = kQwen35Others},
    {.model_type = "qwen3_5_moe",
     .text_type = "qwen3_5_moe_text",
     .prefixes = kQwenPrefixes,
     .others = kQwen35Others},
    {.model_type = "qwen3_vl",
     .text_type = "qwen3_vl_text",
     .prefixes = kQwenPrefixes,
     .others = kQwenOthers},
    {.model_type = "qwen3_vl_moe",
     .text_type = "qwen3_vl_moe_text",
     .prefixes = kQwenPrefixes,
     .others = kQwenOthers},
};

// Keys of the whole that say how images and sounds become tokens, and which ids these have.
constexpr std::string_view kKeysOfTokens[] = {
    "image_token_id",        "image_token_index",   "video_token_id",  "video_token_index", "vision_token_id",
    "vision_start_token_id", "vision_end_token_id", "boi_token_index", "boi_token_id",      "eoi_token_index",
    "eoi_token_id",          "mm_tokens_per_image", "ignore_index"};
constexpr std::string_view kKeysOfSounds[] = {"audio_config", "audio_token_id", "boa_token_id",
                                              "eoa_token_id", "eoa_token_index"};
constexpr std::string_view kKeysOfImages[] = {"vision_config",
                                              "image_seq_length",
                                              "image_grid_pinpoints",
                                              "image_size",
                                              "vision_aspect_ratio",
                                              "vision_feature_layer",
                                              "vision_feature_select_strategy",
                                              "multimodal_projector_bias",
                                              "projector_hidden_act",
                                              "projector_hidden_size",
                                              "spatial_merge_size",
                                              "adapter_layer_norm_eps",
                                              "alignment_intermediate_size",
                                              "downsample_factor",
                                              "downsample_ratio",
                                              "use_image_newline_parameter"};

// A text model's name in a composite, the family that reads it, and the sizes that its group may leave out:
// transformers wrote only what differs from these.
struct TextType {
  std::string_view model_type;
  std::string_view family;
  std::string_view sizes;  // a JSON object
};

constexpr TextType kTextTypes[] = {
    {"cohere2", "cohere2", R"({"vocab_size": 256000, "hidden_size": 8192, "intermediate_size": 22528,
        "num_hidden_layers": 40, "num_attention_heads": 64})"},
    {"gemma", "gemma", R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
        "num_hidden_layers": 28, "num_attention_heads": 16})"},
    {"gemma2", "gemma2", R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8})"},
    {"gemma3_text", "gemma3_text", R"({"vocab_size": 262208, "hidden_size": 2304,
        "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8})"},
    {"gemma4_text", "gemma4_text", R"({"vocab_size": 262144, "hidden_size": 2304,
        "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8})"},
    {"gemma4_unified_text", "gemma4_unified_text", R"({"vocab_size": 262144, "hidden_size": 2304,
        "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8})"},
    {"llama", "llama", R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"llama4_text", "llama4_text", R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40})"},
    {"ministral3", "ministral3", R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 34, "num_attention_heads": 32})"},
    {"mistral", "mistral", R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"qwen2", "qwen2", R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"qwen2_5_vl_text", "qwen2_5_vl_text", R"({"vocab_size": 152064, "hidden_size": 8192,
        "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64})"},
    {"qwen2_vl_text", "qwen2_5_vl_text", R"({"vocab_size": 152064, "hidden_size": 8192,
        "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64})"},
    {"qwen3", "qwen3", R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"qwen3_5_moe_text", "qwen3_5_moe_text", R"({"vocab_size": 248320, "hidden_size": 2048,
        "num_hidden_layers": 40, "num_attention_heads": 16, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512})"},
    {"qwen3_5_text", "qwen3_5_text",
     R"({"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 32, "num_attention_heads": 16})"},
    {"qwen3_vl_moe_text", "qwen3_vl_moe_text", R"({"vocab_size": 151936, "hidden_size": 2048,
        "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16,
        "moe_intermediate_size": 1408})"},
    {"qwen3_vl_text", "qwen3_vl_text", R"({"vocab_size": 151936, "hidden_size": 4096,
        "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32})"},
};

// The document, reduced to what concerns the text model. The original is in `config`, which has been read
// without errors.
Json text_document(const Composite& composite, const ConfigText& config, bool grouped, std::string_view sizes,
                   bool tied) {
  Json document = parse_python_json(config.text, {});
  const auto drop = [](Json& from, std::span<const std::string_view> keys) {
    for (const std::string_view key : keys) from.erase(std::string(key));
  };
  drop(document, kKeysOfTokens);
  drop(document, kKeysOfSounds);
  drop(document, kKeysOfImages);
  if (grouped) drop(document, composite.keys);
  Json& text = grouped ? document.at(std::string(kTextGroup)) : document;
  drop(text, composite.text_keys);
  const Json usual = parse_json(sizes, {});
  for (const auto& [key, value] : usual.items()) {
    if (!text.contains(key)) text[key] = value;
  }
  text["tie_word_embeddings"] = tied;
  return document;
}

}  // namespace

std::span<const Composite> all_composites() { return kComposites; }

const Composite* find_composite(std::string_view model_type) {
  const auto* found = std::ranges::find(kComposites, model_type, &Composite::model_type);
  return found == std::end(kComposites) ? nullptr : found;
}

RecognisedFamily text_part(const Composite& composite, const ConfigText& config) {
  const ConfigReader whole(config.text, config.where);
  const bool grouped = !composite.flat || whole.has(kTextGroup);
  const ConfigReader text = grouped ? whole.object(kTextGroup) : whole;
  const std::string type =
      grouped ? text.text_or("model_type", composite.text_type) : std::string(composite.text_type);
  for (const std::string_view key : composite.unsettled_text_keys) {
    if (text.is_unset(key)) continue;
    text.refuse(key, fmt::format("means nothing definite inside a {} checkpoint: it depends on the kernel "
                                 "of attention that transformers runs; expected null, false or no such key",
                                 composite.model_type));
  }
  const auto* known = std::ranges::find(kTextTypes, type, &TextType::model_type);
  const bool listed = known != std::end(kTextTypes);
  Family family = family_of(listed ? known->family : type, text.where("model_type"));
  family.inside = &composite;
  constexpr std::string_view kTied = "tie_word_embeddings";
  const bool tied = (composite.whole_ties && whole.boolean_or(kTied, composite.tied)) ||
                    (composite.group_ties && text.boolean_or(kTied, false));
  const Json document = text_document(composite, config, grouped, listed ? known->sizes : "{}", tied);
  return {std::move(family), ConfigText{.text = json_text(document),
                                        .where = config.where,
                                        .group = grouped ? std::string(kTextGroup) : std::string()}};
}

void settle_logits(const Composite& composite, FamilyConfig& read) {
  if (composite.own_logits || !read.config.unembedding) return;
  Unembedding& unembedding = *read.config.unembedding;
  if (unembedding.scale == 1.0 && unembedding.soft_cap == 0.0) return;
  read.notes.push_back(
      fmt::format("logits are neither scaled (by {}) nor capped (at {}): inside a {} checkpoint transformers "
                  "does not do what it does for the text model alone",
                  unembedding.scale, unembedding.soft_cap, composite.model_type));
  unembedding.scale = 1.0;
  unembedding.soft_cap = 0.0;
}

std::optional<std::string_view> other_part(const Composite& composite, std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  for (const std::string_view other : composite.others) {
    if (name.starts_with(other)) return other.substr(0, other.find('.'));
  }
  return std::nullopt;
}

std::string_view prefix_in_composite(const Composite& composite, std::string_view name) {
  for (const std::string_view prefix : composite.prefixes) {
    if (name.starts_with(prefix)) return name.substr(0, prefix.size());
  }
  return {};
}

std::string composite_note(const Composite& composite, const std::map<std::string, std::size_t>& unread) {
  std::size_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [part, count] : unread) {
    total += count;
    parts.push_back(fmt::format("{} {}", part, count));
  }
  const std::string left = total == 0 ? std::string("the files hold no tensors of its other parts")
                                      : fmt::format("{} tensors of its other parts were not read ({})", total,
                                                    fmt::join(parts, ", "));
  return fmt::format("this is the text part of a {} checkpoint, whose only input is text: {}{}{}",
                     composite.model_type, left, composite.note.empty() ? "" : "; ", composite.note);
}

}  // namespace hooked
