#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_name.h"

namespace HOOKED_EXPORT hooked {

class PointIndex;
struct Reach;

/// A set of activation names: sites, single names, globs and predicates joined by `|`.
///
/// A selection is resolved against a model's points; a part that names something the model does not have, or
/// a glob that matches nothing, is a HookError then. A predicate may match nothing.
class Selection {
 public:
  using Predicate = std::function<bool(const ActivationName&)>;

  /// Selects nothing.
  Selection() = default;
  Selection(act::BlockSite site);         // NOLINT: act::pattern is a selection
  Selection(act::ExpertSite site);        // NOLINT
  Selection(act::ModelSite site);         // NOLINT
  Selection(act::Defaults defaults);      // NOLINT
  Selection(act::Everything everything);  // NOLINT
  Selection(const ActivationName& name);  // NOLINT
  /// Throws HookError when the address has indices: positions are chosen by RunOptions::positions.
  Selection(const Address& address);  // NOLINT
  /// Text: full names (`blocks.5.attn.hook_z`), globs (`*` any run of characters, `?` one), words that select
  /// every layer (`pattern`) and the field's shorthand (`pattern5`, `k6a`), separated by commas. Throws
  /// HookError for an empty one; whether the others name anything is known when it is resolved.
  template <std::convertible_to<std::string_view> Text>
  Selection(const Text& text) : Selection(of_text(std::string_view(text))) {}  // NOLINT

  /// Every name for which `predicate` is true. Never an error.
  static Selection matching(Predicate predicate);

  bool empty() const noexcept { return parts_.empty(); }

  /// The selected points that a run reaches, as ascending numbers in `points`, each once. A part that names
  /// one activation must be reached; a part that names many keeps those that are. Throws HookError.
  std::vector<std::size_t> resolve(const PointIndex& points, const Reach& reach) const;

  /// The union. Also written `a | b`.
  Selection with(const Selection& other) const;

 private:
  struct Text {
    std::string words;
  };
  using Part = std::variant<Site, ActivationName, Text, Predicate, act::Defaults, act::Everything>;

  static Selection of_text(std::string_view texts);

  explicit Selection(Part part) { parts_.push_back(std::move(part)); }

  std::vector<Part> parts_;
};

inline Selection operator|(const Selection& a, const Selection& b) { return a.with(b); }

namespace act {
using hooked::operator|;  // found for `act::pattern | act::z`, whose types live here
}

/// Whether `text` matches `pattern`, where `*` stands for any run of characters and `?` for one.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

}  // namespace hooked
