#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "hooked/core/export.h"
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
  Selection where;
  AxisIndices indices;

  EditTarget(const Address& address) : where(address.name()), indices(address.indices()) {}  // NOLINT
  EditTarget(act::BlockSite site) : where(site) {}                                           // NOLINT
  EditTarget(act::ExpertSite site) : where(site) {}                                          // NOLINT
  EditTarget(act::ModelSite site) : where(site) {}                                           // NOLINT
  /// Names, globs or shorthand with indices: `"blocks.*.attn.hook_z[head=3]"`, `"z0"`. Throws HookError.
  template <std::convertible_to<std::string_view> Text>
  EditTarget(const Text& text) : EditTarget(parse(std::string_view(text))) {}  // NOLINT: names are texts
  EditTarget(Selection where, AxisIndices indices) : where(std::move(where)), indices(std::move(indices)) {}

  /// `name-or-glob[axis=...]`, as on the command line. Throws HookError.
  static EditTarget parse(std::string_view text);
};

/// An intervention as data: it can be batched, recorded, written down and replayed.
///
/// A tensor value broadcasts to the addressed block (axes indexed by one number are dropped, as in
/// `tensor[i]`) and has the activation's dtype and device. Made by the functions below.
struct Edit {
  EditTarget target;
  EditKind kind;
  std::variant<double, at::Tensor> value;
};

Edit zero(EditTarget target);
Edit set(EditTarget target, double value);
Edit set(EditTarget target, at::Tensor value);
Edit add(EditTarget target, double value);
Edit add(EditTarget target, at::Tensor value);
Edit scale(EditTarget target, double factor);
Edit scale(EditTarget target, at::Tensor factor);

/// Sets the addressed block to what `source` holds at the same address. Throws HookError when the cache does
/// not have it; a source of another shape is refused when the run meets it.
Edit replace(const Address& address, const ActivationCache& source);

/// Removes the component along `direction`, a vector of the last axis's size and any length but 0 (else
/// HookError).
Edit project_out(EditTarget target, at::Tensor direction);

}  // namespace hooked
