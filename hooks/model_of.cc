#include "hooks/model_of.h"

#include <fmt/format.h>

#include "hooked/core/axis.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

[[noreturn]] void refuse_other_model(std::string_view where, std::string_view what, const ModelIdentity& own,
                                     const ModelIdentity& other) {
  throw HookError(where,
                  fmt::format("{} of another model; expected {}, got {}{}; run this model, or say with "
                              "cache.assigned_to(model) (--from-model on the command line) that the "
                              "other's values are meant",
                              what, own.text(), other.text(),
                              own.name == other.name && !own.name.empty()
                                  ? ", the same name with other weights, dtype or processing"
                                  : ""));
}

}  // namespace

void require_shape_in(const ModelConfig& config, const ActivationName& name, at::IntArrayRef sizes) {
  const std::int64_t layers = name.stack != Stack::encoder ? config.n_layers
                              : config.encoder             ? config.encoder->n_layers
                                                           : 0;
  if (name.layer >= layers) {
    throw HookError(
        name.to_string(),
        fmt::format("the values are of another model's activation; expected a layer of {}", layers));
  }
  const AxisList& axes = row(name.site).axes;
  std::vector<std::int64_t> expected = sizes.vec();
  bool fits = axes.size() == sizes.size();
  for (std::size_t d = 0; fits && d < axes.size(); ++d) {
    if (const std::int64_t fixed = size_of(axes[d], config, name.layer); fixed >= 0) expected[d] = fixed;
  }
  if (fits && at::IntArrayRef(expected) == sizes) return;
  throw HookError(
      name.to_string(),
      fmt::format("the values are of another model's activation; expected {}, got {}",
                  fits ? shape_text(expected) : fmt::format("{} axes", axes.size()), shape_text(sizes)));
}

void require_own(const ReadingModel& model, const ActivationCache& cache, std::string_view where) {
  if (cache.model() == model.identity) return;
  if (cache.model() && model.identity) {
    if (*cache.model() == *model.identity) return;
    refuse_other_model(where, "the cache is", *model.identity, *cache.model());
  }
  for (const ActivationCache::Entry& entry : cache)
    require_shape_in(model.config, entry.name, entry.held.sizes());
}

void require_own(const ReadingModel& model, const EditSource& source, const ActivationName& name) {
  if (source.model == model.identity) return;
  if (source.model && model.identity) {
    if (*source.model == *model.identity) return;
    refuse_other_model(name.to_string(), "the edit's value is", *model.identity, *source.model);
  }
  require_shape_in(model.config, name, source.sizes);
}

ActivationCache ActivationCache::assigned(std::shared_ptr<const ModelIdentity> model,
                                          const ModelConfig& config) const {
  const PointIndex points(config);
  ActivationCache taken = *this;
  taken.model_ = std::move(model);
  for (const Entry& entry : entries_) {
    points.require(entry.name);
    require_shape_in(config, entry.name, entry.held.sizes());
  }
  return taken;
}

}  // namespace hooked
