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
/// A selection is resolved against a model's points. A part that names something the model does not have, or
/// a glob that matches nothing, then throws HookError. A predicate may match nothing.
class Selection {
 public:
  /// Says whether a point of a model is selected.
  using Predicate = std::function<bool(const ActivationName&)>;

  /// Selects nothing.
  Selection() = default;
  /// Every layer of a site.
  Selection(act::BlockSite site);  // NOLINT: act::pattern is a selection
  /// Every expert of every layer.
  Selection(act::ExpertSite site);  // NOLINT
  /// A site outside the blocks.
  Selection(act::ModelSite site);  // NOLINT
  /// A site of every dictionary.
  Selection(act::DictionarySite site);  // NOLINT
  /// Every point of the model except the wide ones.
  Selection(act::Defaults defaults);  // NOLINT
  /// Every point of the model.
  Selection(act::Everything everything);  // NOLINT
  /// One activation.
  Selection(const ActivationName& name);  // NOLINT
  /// Throws HookError if the address has indices: use RunOptions::keep.positions to choose positions.
  Selection(const Address& address);  // NOLINT
  /// Text: full names (`blocks.5.attn.hook_z`), globs (`*` any run of characters, `?` one), words that select
  /// every layer (`pattern`), globs of words (`resid_*`) and the field's shorthand (`pattern5`, `k6a`),
  /// separated by commas, with or without blanks. Throws HookError for an empty one; whether the others
  /// select anything is known only when the selection is resolved.
  template <std::convertible_to<std::string_view> Text>
  Selection(const Text& text) : Selection(of_text(std::string_view(text))) {}  // NOLINT

  /// Every name for which `predicate` is true; there may be none. An edit that selects none is an error.
  static Selection matching(Predicate predicate);

  /// Whether it has no parts. (What it selects is known only when it is resolved.)
  bool empty() const noexcept { return parts_.empty(); }

  /// The selected points that a run reaches, as ascending numbers in `points`, each once. If a part names one
  /// activation, the run must reach it; a part that names many keeps those it reaches. Throws HookError.
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

/// Whether `text` matches `pattern`, in which `*` matches any run of characters and `?` one.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

}  // namespace hooked
