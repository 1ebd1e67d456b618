#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/axis_block.h"

namespace hooked {

/// A tensor's version, which every write into its memory increases, also through another view.
std::uint32_t version_of(const at::Tensor& tensor);

/// The axes of a site's activation, with Axis::one for the last `whole` of them, along which a recipe cannot
/// be cut.
std::vector<Axis> axes_to_cut(Site site, std::size_t whole);

/// How an activation is computed from tensors that a run has in any case: their handles, and a function. Cut
/// to some rows, positions or heads, it computes only those. A value, used by one thread.
class Recipe {
 public:
  /// A tensor that the activation is computed from.
  struct Input {
    std::string_view what;   ///< name in errors: "the queries"
    at::Tensor value;        ///< undefined: the function works without it
    std::vector<Axis> axes;  ///< those that can be cut; size 1 along batch serves every row
  };
  /// Gets the inputs in their order, each cut as the recipe is.
  using Make = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

  /// For the activation `name` with these sizes and options.
  Recipe(const ActivationName& name, std::vector<std::int64_t> sizes, const at::TensorOptions& options,
         std::vector<Input> inputs, Make make);

  const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
  const at::TensorOptions& options() const noexcept { return options_; }
  /// The defined inputs.
  std::vector<at::Tensor> inputs() const;

  /// The activation. Throws HookError if somebody has written into an input.
  at::Tensor make() const;
  /// A block of it; computes as little else as possible.
  at::Tensor block(const AxisIndices& indices, const AxisContext& context) const;
  /// Whether it can be cut along that axis.
  bool cuts(Axis axis) const;
  /// Only these places of an axis, which is kept.
  Recipe at(Axis axis, const AxisIndex& index, const AxisContext& context) const;
  /// The same with every input passed through `form`.
  Recipe in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

  /// Throws HookError if somebody has written into an input.
  void require_unchanged() const;

 private:
  struct Kept {
    Input input;
    std::uint32_t version;  ///< when the recipe was made
  };

  /// Replaces each input that has the axis by what `take` returns for it and its dimension.
  template <typename Take>
  Recipe cut(Axis axis, std::int64_t size, const Take& take) const;
  Recipe at_places(Axis axis, const std::vector<std::int64_t>& places) const;
  /// Each row's own place.
  Recipe at_last(Axis axis, const at::Tensor& last) const;

  ActivationName name_;
  std::vector<std::int64_t> sizes_;
  at::TensorOptions options_;
  std::vector<Kept> inputs_;
  Make make_;
};

}  // namespace hooked
