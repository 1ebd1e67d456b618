#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "families/family.h"

namespace hooked {

/// A kind of checkpoint that holds several models, of which one reads text: Gemma 3 with its vision tower.
/// Its config.json has the text model's config as a group, and its files hold everybody's tensors. What is
/// loaded is the text model, by its own family, with token ids as its only input.
///
/// A kind is one row of the table in composite.cc.
struct Composite {
  std::string_view model_type;  ///< of the whole: `gemma3`
  std::string_view text_type;   ///< the text model's `model_type` where its group does not say
  bool tied = false;            ///< whether its unembedding is its embedding where the whole does not say
  bool whole_ties = true;       ///< whether the whole may say so
  bool group_ties = false;      ///< whether its group may say so, too
  bool flat = false;            ///< older configs have its keys beside those of the whole, without a group
  /// Prefixes that names of its tensors may have, one that begins with another before that one. A name
  /// without any is its as well (`lm_head.weight`).
  std::span<const std::string_view> prefixes = {};
  /// What names of the other models' tensors begin with, perhaps after `model.`.
  std::span<const std::string_view> others = {};
  /// Keys of the whole that do not concern the text model, besides those that most kinds have.
  std::span<const std::string_view> keys = {};
  /// Keys of the text model's group that its family does not honour and that the whole settles.
  std::span<const std::string_view> text_keys = {};
  /// Keys of the text model's group that its family honours and that mean nothing definite inside of the
  /// whole, where transformers' kernels of attention disagree: refused unless null or false.
  std::span<const std::string_view> unsettled_text_keys = {};
  bool own_logits = false;     ///< whether it scales and caps logits as its text model does by itself
  std::string_view note = {};  ///< what else a user should know
};

/// The group of config.json that is the text model's config.
inline constexpr std::string_view kTextGroup = "text_config";

/// All kinds, in alphabetical order.
std::span<const Composite> all_composites();

/// The kind of that `model_type`, or null.
const Composite* find_composite(std::string_view model_type);

/// The text model's family, whose tensors are found in the files of the whole, and where its config is.
/// Throws ConfigError for a group that is missing or of a family that is not supported, and for keys of the
/// whole that nothing honours.
RecognisedFamily text_part(const Composite& composite, const ConfigText& config);

/// Takes out of `read` what the whole does not do to logits though its text model does by itself, and notes
/// it.
void settle_logits(const Composite& composite, FamilyConfig& read);

/// Which of the other models a tensor belongs to (`vision_tower`), or nothing for one of the text model's.
std::optional<std::string_view> other_part(const Composite& composite, std::string_view name);

/// What `name`, of a tensor of the text model, has of the composite's prefixes, or nothing.
std::string_view prefix_in_composite(const Composite& composite, std::string_view name);

/// The note of a text model that was loaded, with how many tensors of which other models were left unread.
std::string composite_note(const Composite& composite, const std::map<std::string, std::size_t>& unread);

}  // namespace hooked
