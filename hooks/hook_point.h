#pragma once

#include <cstddef>
#include <utility>

#include "hooks/nn.h"
#include "hooks/watch.h"

namespace hooked {

/// A named place in the module graph that activations pass through.
///
/// It holds only its number among the model's points. Who listens is known only to the run, so that one graph
/// serves many runs at once and an unwatched point costs one branch.
class HookPoint : public torch::nn::Module {
 public:
  explicit HookPoint(std::size_t number) : number_(number) {}

  at::Tensor forward(at::Tensor value, Watch& watch) const {
    return watch.watches(number_) ? watch.fire(number_, std::move(value)) : value;
  }
  /// The same; `after_change` is applied to a value that somebody has changed.
  at::Tensor forward(at::Tensor value, Watch& watch, const AfterChange& after_change) const {
    return watch.watches(number_) ? watch.fire(number_, std::move(value), after_change) : value;
  }

  /// Leaves the value to the cache, as the output of `recipe(name)`, if that is enough for everybody who
  /// watches; false: somebody needs the value now.
  template <typename MakeRecipe>
  bool forward_late(const MakeRecipe& recipe, ValueIs value, Watch& watch) const {
    if (!watch.watches(number_)) return true;
    return watch.may_keep_late(number_) &&
           watch.keep_late(number_, recipe(watch.points().name(number_)), value);
  }

  bool watched(const Watch& watch) const { return watch.watches(number_); }
  std::size_t number() const noexcept { return number_; }

 private:
  std::size_t number_;
};

}  // namespace hooked
