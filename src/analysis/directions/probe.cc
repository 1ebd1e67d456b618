#include "hooked/analysis/probe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svd.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "hooked/core/axis.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

constexpr double kNone = 1e-12;  // as a share of the largest

const at::Tensor output_of(const Probe& probe, std::int64_t output) {
  const std::int64_t outputs = probe.fit.weight.defined() ? probe.fit.weight.size(0) : 0;
  if (output >= 0 && output < outputs) return probe.fit.weight[output];
  throw ShapeError(probe.place.to_string(),
                   fmt::format("the probe has no output {}; expected 0 to {}", output, outputs - 1));
}

/// With the model that a value is of, so that a run of another one refuses the edit.
Edit of_its_model(Edit edit, const Probe& probe) {
  if (!probe.origin.fingerprint.empty()) {
    edit.source = EditSource{
        std::make_shared<const ModelIdentity>(ModelIdentity{probe.origin.model, probe.origin.fingerprint}),
        {}};
  }
  return edit;
}

/// A value of an edit, in the form of the model's activations.
at::Tensor for_model(const at::Tensor& vector, const HookedTransformer& model) {
  return vector.to(model.device(), model.dtype());
}

void require_same_activation(const Probe& probe, const Address& where) {
  if (where.name() == probe.place.name()) return;
  throw HookError(where.to_string(), fmt::format("the probe is of another activation; expected a block of {}",
                                                 probe.place.to_string()));
}

/// How far the activation is along a vector, in the model that the probe was fitted to.
Metric::Definition along(const Probe& probe, const at::Tensor& vector, Position position) {
  Metric::Definition definition = projection(probe.place, vector, std::move(position)).definition();
  definition.fingerprint = probe.origin.fingerprint;
  return definition;
}

/// The processing that weights had: `fold_ln, center_unembed`.
std::string basis_of(const std::vector<std::pair<std::string, std::string>>& processing) {
  std::string names;
  for (const auto& [step, outcome] : processing) {
    if (outcome == "applied" || outcome == "already applied") names += (names.empty() ? "" : ", ") + step;
  }
  return names.empty() ? "no step" : names;
}

}  // namespace

at::Tensor Probe::direction(std::int64_t output) const {
  const at::Tensor weight = output_of(*this, output).to(at::kDouble);
  const double length = weight.norm().item<double>();
  if (!(length > 0)) {
    throw ShapeError(place.to_string(),
                     fmt::format("output {} has no direction: all its weights are 0", output));
  }
  return weight / length;
}

Edit Probe::steer(const HookedTransformer& model, double by, std::int64_t output) const {
  return steer(model, by, output, place);
}

Edit Probe::steer(const HookedTransformer& model, double by, std::int64_t output,
                  const Address& where) const {
  require_same_activation(*this, where);
  require_fits(model);
  return of_its_model(add(where, for_model(direction(output) * by, model)), *this);
}

Edits Probe::project_out(const HookedTransformer& model) const { return project_out(model, place); }

Edits Probe::project_out(const HookedTransformer& model, const Address& where) const {
  require_same_activation(*this, where);
  require_fits(model);
  output_of(*this, 0);
  // An orthonormal basis of what the rows of the weights span.
  const auto [u, values, vectors] = at::linalg_svd(fit.weight.to(at::kDouble), /*full_matrices=*/false);
  Edits edits;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (!(values[i].item<double>() > kNone * values[0].item<double>())) break;
    edits.push_back(of_its_model(hooked::project_out(where, for_model(vectors[i], model)), *this));
  }
  return edits;
}

Metric Probe::measure(Position position, std::int64_t output) const {
  return Metric(along(*this, direction(output), std::move(position)));
}

Metric Probe::score(Position position, std::int64_t output) const {
  Metric::Definition definition = along(*this, output_of(*this, output), std::move(position));
  definition.name = fmt::format("probe of {}", place.to_string());
  definition.function = [function = definition.function, add = fit.intercept[output].item<double>()](
                            const MetricInput& run) { return at::Tensor(function(run) + add); };
  return Metric(std::move(definition));
}

void Probe::require_fits(const HookedTransformer& model) const {
  const auto identity = model.identity();
  if (origin.fingerprint.empty() || origin.fingerprint == identity->fingerprint) return;
  const std::string had = basis_of(origin.processing), has = basis_of(model.provenance().processing);
  throw HookError(
      place.to_string(),
      fmt::format("the probe was fitted to another model; expected {}, got {}{}; fit it to this one, or say "
                  "that it is meant with assigned_to()",
                  ModelIdentity{origin.model, origin.fingerprint}.text(), identity->text(),
                  had == has ? "" : fmt::format(" (processing: {} there, {} here)", had, has)));
}

Probe Probe::assigned_to(const HookedTransformer& model) const {
  const PointIndex points(model.config());
  const ActivationName name = points.resolve(place.name());
  points.require(name);
  const SiteRow& site = row(name.site);
  const std::int64_t d = size_of(site.axes[site.axes.size() - 1], model.config(), name.layer);
  if (output_of(*this, 0).size(0) != d) {
    throw HookError(name.to_string(), fmt::format("the probe does not fit the model; expected vectors of {}, "
                                                  "got {}",
                                                  d, fit.weight.size(1)));
  }
  Probe taken = *this;
  taken.origin = model.provenance();
  return taken;
}

}  // namespace hooked
