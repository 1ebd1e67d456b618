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
#include "hooked/hooks/address.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

class ActivationCache;

/// What an edit does to the block of numbers that its indices pick out.
enum class EditKind : std::uint8_t {
  set,          ///< block := value
  add,          ///< block := block + value
  scale,        ///< block := block * value
  replace,      ///< block := value, which must have the block's shape exactly
  project_out,  ///< block := block - (block . d) d / |d|^2 along the last axis, d = value
};

/// Which activations an edit touches, and where on their axes.
struct EditTarget {
  Selection where;      ///< which activations
  AxisIndices indices;  ///< which block of each; none: all of it

  /// What an address names.
  EditTarget(const Address& address) : where(address.name()), indices(address.indices()) {}  // NOLINT
  /// Every layer of a site.
  EditTarget(act::BlockSite site) : where(site) {}  // NOLINT
  /// Every expert of every layer.
  EditTarget(act::ExpertSite site) : where(site) {}  // NOLINT
  /// A site outside the blocks.
  EditTarget(act::ModelSite site) : where(site) {}  // NOLINT
  /// Names, globs or shorthand with indices: `"blocks.*.attn.hook_z[head=3]"`, `"z0"`. Throws HookError.
  template <std::convertible_to<std::string_view> Text>
  EditTarget(const Text& text) : EditTarget(parse(std::string_view(text))) {}  // NOLINT: names are texts
  /// The same block of several activations.
  EditTarget(Selection where, AxisIndices indices) : where(std::move(where)), indices(std::move(indices)) {}

  /// `name-or-glob[axis=...]`, as on the command line. Throws HookError.
  static EditTarget parse(std::string_view text);
};

/// The activation that the value of an edit is a block of.
struct EditSource {
  std::shared_ptr<const ModelIdentity> model;  ///< that computed it; null: not known
  std::vector<std::int64_t> sizes;             ///< of the whole activation
};

/// An intervention as data: it can be batched, recorded, written down and replayed.
///
/// A tensor value broadcasts to the addressed block (axes indexed by one number are dropped, as in
/// `tensor[i]`) and has the activation's dtype and device. Made by the functions below.
struct Edit {
  EditTarget target;                       ///< where it applies
  EditKind kind;                           ///< what it does
  std::variant<double, at::Tensor> value;  ///< the number or tensor that it is done with
  /// Where the value was taken from; nothing: it was made by hand. A run of another model refuses the edit.
  std::optional<EditSource> source = {};
};

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

/// Sets the addressed block to what `source` holds at the same address: positions are columns of either
/// sequence. Without a position all columns are meant: of a source behind a prefix those of its run, which
/// are replaced alone. Throws HookError when the cache does not have it or holds only some of the columns;.
/// A run refuses a source of another model (ActivationCache::assigned_to() says that it is meant), and one of
/// another shape or of other columns.
Edit replace(const Address& address, const ActivationCache& source);

/// Removes the component along `direction`, a vector of the last axis's size and any length but 0 (else
/// HookError). A run refuses a target with one place of the last axis.
Edit project_out(EditTarget target, at::Tensor direction);

}  // namespace hooked
