#include "hooked/hooks/late_tensor.h"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/out_of_memory.h"
#include "hooked/core/error.h"
#include "hooks/host_transport.h"
#include "hooks/recipe.h"

namespace hooked {
namespace {

[[noreturn]] void refuse_written(const ActivationName& name) {
  throw HookError(name.to_string(),
                  "this tensor was written into after it was captured, so it is not the activation any more; "
                  "expected an unchanged one; write into a copy: cache[...].clone()");
}

// What `make` returns for the activation `name`.
template <typename Make>
at::Tensor made_of(const ActivationName& name, const c10::Device& device, const Make& make) {
  const std::string where = name.to_string();
  return with_memory(
      {.where = where, .cure = "read only some rows, positions or heads of it", .devices = {device}}, make);
}

}  // namespace

/// What copies share.
struct LateTensor::Late {
  explicit Late(Recipe how) : sizes(how.sizes()), options(how.options()), recipe(std::move(how)) {}

  const std::vector<std::int64_t> sizes;
  const at::TensorOptions options;
  std::mutex mutex;              // guards the members below
  std::optional<Recipe> recipe;  // reset once the tensor is made
  at::Tensor made;
  std::uint32_t version = 0;  // of the tensor when it was made
};

LateTensor::LateTensor(at::Tensor value) : given_(std::move(value)), version_(version_of(given_)) {}

LateTensor::LateTensor(at::Tensor value, std::shared_ptr<Arrival> arrival)
    : given_(std::move(value)), arrival_(std::move(arrival)), version_(version_of(given_)) {}

void LateTensor::await() const {
  if (arrival_) arrival_->wait();
}

LateTensor::LateTensor(Recipe recipe) : late_(std::make_shared<Late>(std::move(recipe))) {}

const at::Tensor LateTensor::value(const ActivationName& name) const {
  if (!late_) {
    require_unchanged(name);
    await();
    return given_;
  }
  const std::lock_guard lock(late_->mutex);
  if (late_->recipe) {
    late_->made = made_of(name, device(), [&] { return late_->recipe->make(); });
    late_->version = version_of(late_->made);
    late_->recipe.reset();
  }
  if (version_of(late_->made) != late_->version) refuse_written(name);
  return late_->made;  // which nobody changes any more
}

at::Tensor LateTensor::block(const ActivationName& name, const AxisIndices& indices,
                             const AxisContext& context) const {
  if (late_) {
    std::optional<Recipe> recipe;
    {
      const std::lock_guard lock(late_->mutex);
      recipe = late_->recipe;
    }
    if (recipe) return made_of(name, device(), [&] { return recipe->block(indices, context); });
  }
  return take_block(value(name), indices, context);
}

LateTensor LateTensor::at(const ActivationName& name, Axis axis, const AxisIndex& index,
                          const AxisContext& context) const {
  if (late_) {
    const std::lock_guard lock(late_->mutex);
    if (late_->recipe && late_->recipe->cuts(axis))
      return LateTensor(late_->recipe->at(axis, index, context));
  }
  AxisIndices indices;
  indices.add(axis, index);
  const at::Tensor places = take_block(value(name), indices, context);
  const bool dropped = places.dim() < static_cast<std::int64_t>(sizes().size());
  return dropped ? places.unsqueeze(*row(name.site).axes.find(axis)) : places;
}

void LateTensor::require_unchanged(const ActivationName& name) const {
  if (!late_) {
    if (version_of(given_) != version_) refuse_written(name);
    return;
  }
  const std::lock_guard lock(late_->mutex);
  if (late_->recipe) {
    late_->recipe->require_unchanged();
  } else if (version_of(late_->made) != late_->version) {
    refuse_written(name);
  }
}

std::vector<std::int64_t> LateTensor::sizes() const { return late_ ? late_->sizes : given_.sizes().vec(); }

at::ScalarType LateTensor::scalar_type() const {
  return late_ ? c10::typeMetaToScalarType(late_->options.dtype()) : given_.scalar_type();
}

c10::Device LateTensor::device() const { return late_ ? late_->options.device() : given_.device(); }

std::size_t LateTensor::nbytes() const {
  if (!late_) return given_.nbytes();
  std::size_t bytes = late_->options.dtype().itemsize();
  for (const std::int64_t size : late_->sizes) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

bool LateTensor::made() const {
  if (!late_) return true;
  const std::lock_guard lock(late_->mutex);
  return !late_->recipe;
}

std::vector<at::Tensor> LateTensor::held() const {
  if (!late_) return {given_};
  const std::lock_guard lock(late_->mutex);
  return late_->recipe ? late_->recipe->inputs() : std::vector{late_->made};
}

LateTensor LateTensor::in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const {
  if (!late_) {
    await();
    return form(given_);
  }
  const std::lock_guard lock(late_->mutex);
  return late_->recipe ? LateTensor(late_->recipe->in_form(form)) : LateTensor(form(late_->made));
}

}  // namespace hooked
