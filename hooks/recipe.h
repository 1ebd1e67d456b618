#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/axis_block.h"

namespace hooked {

/// A tensor's version, which every write into its memory counts up, also one through another view.
std::uint32_t version_of(const at::Tensor& tensor);

/// The axes of a site's activation, the last `whole` of them as Axis::one: those along which a recipe cannot
/// be cut.
std::vector<Axis> axes_to_cut(Site site, std::size_t whole);

/// How an activation is made of tensors that a run has in any case: handles of these, and a function. Cut to
/// some rows, positions or heads it makes those only. A value, used by one thread.
class Recipe {
 public:
  /// What the activation is made of.
  struct Input {
    std::string_view what;   ///< in errors: "the queries"
    at::Tensor value;        ///< undefined: the function does without
    std::vector<Axis> axes;  ///< those that can be cut; size 1 along batch serves every row
  };
  /// Sees the inputs in their order, each cut as the recipe is.
  using Make = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

  /// Of the activation `name` with these sizes and options.
  Recipe(const ActivationName& name, std::vector<std::int64_t> sizes, const at::TensorOptions& options,
         std::vector<Input> inputs, Make make);

  const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
  const at::TensorOptions& options() const noexcept { return options_; }
  /// The defined inputs.
  std::vector<at::Tensor> inputs() const;

  /// The activation. Throws HookError where somebody has written into an input.
  at::Tensor make() const;
  /// Its block, of which as little as possible is made.
  at::Tensor block(const AxisIndices& indices, const AxisContext& context) const;
  /// Whether it can be cut along that axis.
  bool cuts(Axis axis) const;
  /// Only these places of an axis, which stays.
  Recipe at(Axis axis, const AxisIndex& index, const AxisContext& context) const;
  /// With every input in the form that `form` gives it.
  Recipe in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

  /// Throws HookError where somebody has written into an input.
  void require_unchanged() const;

 private:
  struct Kept {
    Input input;
    std::uint32_t version;  ///< when it came in
  };

  /// Each input that has the axis becomes what `take` gives of it and its dimension.
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
