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
  /// Says of each point of a model whether it is selected.
  using Predicate = std::function<bool(const ActivationName&)>;

  /// Selects nothing.
  Selection() = default;
  /// Every layer of a site.
  Selection(act::BlockSite site);  // NOLINT: act::pattern is a selection
  /// Every expert of every layer.
  Selection(act::ExpertSite site);  // NOLINT
  /// A site outside the blocks.
  Selection(act::ModelSite site);  // NOLINT
  /// Every point the model has but the wide ones.
  Selection(act::Defaults defaults);  // NOLINT
  /// Every point the model has.
  Selection(act::Everything everything);  // NOLINT
  /// One activation.
  Selection(const ActivationName& name);  // NOLINT
  /// Throws HookError when the address has indices: positions are chosen by RunOptions::keep.positions.
  Selection(const Address& address);  // NOLINT
  /// Text: full names (`blocks.5.attn.hook_z`), globs (`*` any run of characters, `?` one), words that select
  /// every layer (`pattern`) and the field's shorthand (`pattern5`, `k6a`), separated by commas, with or
  /// without blanks. Throws HookError for an empty one; whether the others name anything is known when it is
  /// resolved.
  template <std::convertible_to<std::string_view> Text>
  Selection(const Text& text) : Selection(of_text(std::string_view(text))) {}  // NOLINT

  /// Every name for which `predicate` is true, which may be none. An edit of none is an error.
  static Selection matching(Predicate predicate);

  /// Whether it was made of nothing. (What it selects is known when it is resolved.)
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

/// What either of them selects.
inline Selection operator|(const Selection& a, const Selection& b) { return a.with(b); }

namespace act {
using hooked::operator|;  // found for `act::pattern | act::z`, whose types live here
}

/// Whether `text` matches `pattern`, where `*` stands for any run of characters and `?` for one.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

}  // namespace hooked
