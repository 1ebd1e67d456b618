#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "families/family.h"

namespace hooked {

/// LLaVA's layout of the models, which most follow. The last two prefixes are those of older files and of
/// files without an unembedding.
inline constexpr std::string_view kLlavaPrefixes[] = {"model.language_model.", "language_model.model.",
                                                      "language_model."};
inline constexpr std::string_view kLlavaOthers[] = {"vision_tower.", "multi_modal_projector.",
                                                    "image_newline"};

/// A kind of checkpoint that contains several models. One of them reads text: Gemma 3 with its vision tower.
/// Its config.json has the text model's config as a group, and its files contain the tensors of all models.
/// Only the text model is loaded, by its own family, with token ids as its only input.
///
/// A kind is one row of the table in composite.cc.
struct Composite {
  std::string_view model_type;  ///< of the whole: `gemma3`
  std::string_view text_type;   ///< the text model's `model_type` if its group does not say it
  bool tied = false;            ///< whether its unembedding is tied if the whole does not say it
  bool whole_ties = true;       ///< whether the whole may say so
  bool group_ties = false;      ///< whether its group may say it, too
  bool flat = false;            ///< older configs have its keys among those of the whole, without a group
  /// Prefixes that names of its tensors may have; a longer one comes before a prefix of it. A name without
  /// any also belongs to it (`lm_head.weight`).
  std::span<const std::string_view> prefixes = kLlavaPrefixes;
  /// Prefixes of the other models' tensors, perhaps after `model.`.
  std::span<const std::string_view> others = kLlavaOthers;
  /// Keys of the whole that do not concern the text model, in addition to those that most kinds have.
  std::span<const std::string_view> keys = {};
  /// Keys of the text model's group that its family does not honour but that the whole settles.
  std::span<const std::string_view> text_keys = {};
  /// Keys of the text model's group that its family honours but that mean nothing definite in the whole,
  /// because transformers' attention kernels disagree: refused unless null or false.
  std::span<const std::string_view> unsettled_text_keys = {};
  bool own_logits = false;     ///< whether it scales and caps logits as the text model alone does
  std::string_view note = {};  ///< what else a user should know
};

/// The group of config.json that is the text model's config.
inline constexpr std::string_view kTextGroup = "text_config";

/// All kinds, in alphabetical order.
std::span<const Composite> all_composites();

/// The kind of that `model_type`, or null.
const Composite* find_composite(std::string_view model_type);

/// The text model's family, which is changed to find its tensors in the files of the whole, and the place of
/// its config. Throws ConfigError for a group that is missing or of an unsupported family, and for keys of
/// the whole that nothing honours.
RecognisedFamily text_part(const Composite& composite, const ConfigText& config);

/// Removes from `read` the logit processing that the text model alone does but the whole does not, and adds a
/// note about it.
void settle_logits(const Composite& composite, FamilyConfig& read);

/// Which of the other models a tensor belongs to (`vision_tower`), or nothing for the text model's tensors.
std::optional<std::string_view> other_part(const Composite& composite, std::string_view name);

/// The composite's prefix in `name`, a tensor of the text model, or nothing.
std::string_view prefix_in_composite(const Composite& composite, std::string_view name);

/// The note of a loaded text model, with the number of unread tensors of each other model.
std::string composite_note(const Composite& composite, const std::map<std::string, std::size_t>& unread);

}  // namespace hooked
