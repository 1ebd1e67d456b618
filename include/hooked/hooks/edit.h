#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_identity.h"
#include "hooked/core/one_or_more.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

class ActivationCache;

/// What an edit does to the block that its indices pick.
enum class EditKind : std::uint8_t {
  set,          ///< block := value
  add,          ///< block := block + value
  scale,        ///< block := block * value
  replace,      ///< block := value, which must have the block's shape exactly
  project_out,  ///< block := block - (block . d) d / |d|^2 along the last axis, d = value
};

/// Which activations an edit applies to, and where on their axes.
struct EditTarget {
  Selection where;      ///< which activations
  AxisIndices indices;  ///< which block of each; none: the whole activation

  /// The activation or block at an address.
  EditTarget(const Address& address) : where(address.name()), indices(address.indices()) {}  // NOLINT
  /// Every layer of a site.
  EditTarget(act::BlockSite site) : where(site) {}  // NOLINT
  /// Every expert of every layer.
  EditTarget(act::ExpertSite site) : where(site) {}  // NOLINT
  /// A site outside the blocks.
  EditTarget(act::ModelSite site) : where(site) {}  // NOLINT
  /// A site of every dictionary.
  EditTarget(act::DictionarySite site) : where(site) {}  // NOLINT
  /// Names, globs or shorthand with indices: `"blocks.*.attn.hook_z[head=3]"`, `"z0"`. Throws HookError.
  template <std::convertible_to<std::string_view> Text>
  EditTarget(const Text& text) : EditTarget(parse(std::string_view(text))) {}  // NOLINT: names are texts
  /// The same block of several activations.
  EditTarget(Selection where, AxisIndices indices) : where(std::move(where)), indices(std::move(indices)) {}

  /// `name-or-glob[axis=...]`, as on the command line. Throws HookError.
  static EditTarget parse(std::string_view text);
};

/// Where the value of an edit was taken from.
struct EditSource {
  std::shared_ptr<const ModelIdentity> model;  ///< that computed it; null: unknown
  std::vector<std::int64_t> sizes;             ///< of the whole activation
};

/// An intervention as data: it can be batched, recorded, saved and replayed.
///
/// A tensor value broadcasts to the addressed block (axes indexed by a single number are dropped, as in
/// `tensor[i]`) and has the activation's dtype and device. The functions below create edits.
struct Edit {
  EditTarget target;                       ///< where it applies
  EditKind kind;                           ///< what it does
  std::variant<double, at::Tensor> value;  ///< the operand
  /// Where the value was taken from; nothing: made by hand. A run of another model refuses the edit.
  std::optional<EditSource> source = {};
};

/// What options take: one edit or several.
using Edits = OneOrMore<Edit>;

/// block := 0.
Edit zero(EditTarget target);
/// block := value.
Edit set(EditTarget target, double value);
/// block := value, broadcast.
Edit set(EditTarget target, at::Tensor value);
/// block := block + value.
Edit add(EditTarget target, double value);
/// block := block + value, broadcast.
Edit add(EditTarget target, at::Tensor value);
/// block := block * factor.
Edit scale(EditTarget target, double factor);
/// block := block * factor, broadcast.
Edit scale(EditTarget target, at::Tensor factor);

/// Sets the addressed block to what `source` holds at the same address; positions are columns of either
/// sequence. Without a position all columns are meant: if the source ran after a prefix, only those of its
/// run, which alone are replaced. Throws HookError if the cache lacks the activation or some of the columns.
/// A run refuses a source of another model (unless ActivationCache::assigned_to() declared it as intended),
/// and one of another shape or with other columns.
Edit replace(const Address& address, const ActivationCache& source);

/// The same for every activation of a site that `source` holds, an edit for each: `{.edits =
/// replace(act::pattern, cache)}` freezes the patterns. Throws HookError if the cache holds none, and as
/// above.
std::vector<Edit> replace(act::BlockSite site, const ActivationCache& source);

/// Removes the component along `direction`, a nonzero vector of the last axis's size (else HookError), of any
/// length. A run refuses a target with a single index on the last axis.
Edit project_out(EditTarget target, at::Tensor direction);

}  // namespace hooked
