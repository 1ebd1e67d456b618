// Components and contrasts of activations, from sums of products over runs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/directions/moments.h"
#include "analysis/directions/vector_stream.h"
#include "analysis/places/row_columns.h"
#include "analysis/runs/sweep_input.h"
#include "analysis/values/numberless.h"
#include "hooked/analysis/probe_fits.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The sums of each place, and what is made of them.
class SummedPlaces {
 public:
  SummedPlaces(const VectorPlaces& places, std::int64_t count, std::string_view where)
      : places_(places), count_(count) {
    shares_ = numberless({static_cast<std::int64_t>(places.size()), count});
    for (std::size_t place = 0; place < places.size(); ++place) {
      const std::int64_t most = std::min(places.rows(), places.width(place));
      if (count >= 1 && count <= most) continue;
      throw ShapeError(where,
                       fmt::format("{} rows of vectors of {} have {} components at most; expected 1 to "
                                   "{}, got {}",
                                   places.rows(), places.width(place), most, most, count));
    }
    sums_.resize(places.size());
  }

  /// `use` gets the place and its sums.
  VectorWork work(std::function<void(std::size_t place, const Moments& sums)> use) {
    return {.bytes = [this](std::size_t place) { return Moments::bytes(places_.width(place), 0); },
            .add =
                [this](PlaceGroup group, const std::vector<at::Tensor>& vectors, std::int64_t) {
                  for (std::size_t i = 0; i < vectors.size(); ++i) {
                    auto& sums = sums_[group.begin + i];
                    if (!sums) sums.emplace(vectors[i].size(1), 0);
                    sums->add(vectors[i], at::zeros({vectors[i].size(0), 0}, at::kDouble));
                  }
                },
            .finish =
                [this, use = std::move(use)](PlaceGroup group) {
                  for (std::size_t place = group.begin; place < group.end; ++place) {
                    use(place, *sums_[place]);
                    sums_[place].reset();
                  }
                }};
  }

  void put(std::size_t place, const at::Tensor& share) {
    shares_[static_cast<std::int64_t>(place)].copy_(share);
  }

  Grid share(const char* title, const char* unit) const {
    auto axes = places_.axes();
    std::vector<std::int64_t> shape = places_.shape();
    shape.push_back(count_);
    axes.push_back(numbered_axis("component", count_));
    return Grid(shares_.view(shape), std::move(axes), {.title = title, .unit = unit});
  }

  Probe probe(std::size_t place, LinearFit fit, const char* method, const Provenance& origin) const {
    Probe made;
    made.fit = std::move(fit);
    made.place = places_.all()[place].place;
    made.position = places_.position_label(place);
    made.origin = origin;
    made.facts = {.method = method, .rows = places_.rows()};
    return made;
  }

 private:
  const VectorPlaces& places_;
  std::int64_t count_;
  at::Tensor shares_;  // [place, component]
  std::vector<std::optional<Moments>> sums_;
};

}  // namespace

ComponentReport fit_components(const HookedTransformer& model, const Input& input, std::int64_t count,
                               const DirectionOptions& options) {
  constexpr const char* kWhere = "fit_components";
  const SweepInput rows(model, input, kWhere);
  if (rows.rows() < 2) throw ShapeError(kWhere, "one row has no variance; expected two rows or more, got 1");
  const VectorPlaces places(model.config(), options.of, options.positions, rows.rows(), kWhere);
  const Provenance origin = model.provenance();
  SummedPlaces summed(places, count, kWhere);
  std::vector<Probe> probes;
  const auto end = run_vectors(
      model, {.input = rows.all()}, places, options, kWhere,
      summed.work([&](std::size_t place, const Moments& sums) {
        const Components found =
            signed_by_largest(components_of(sums.products(), sums.mean(), sums.rows() - 1, count));
        summed.put(place, found.share);
        probes.push_back(
            summed.probe(place, {.weight = found.vectors, .intercept = -found.vectors.matmul(found.mean)},
                         "components", origin));
      }));
  if (!end.complete) probes.clear();
  return {summed.share("Variance along components", "share of the variance"), std::move(probes), end.complete,
          end.notes};
}

ContrastReport contrast_directions(const HookedTransformer& model, const Input& positive,
                                   const Input& negative, std::int64_t count,
                                   const DirectionOptions& options) {
  constexpr const char* kWhere = "contrast_directions";
  const SweepInput rows(model, positive, kWhere), others(model, negative, kWhere);
  if (rows.rows() != others.rows()) {
    throw ShapeError(kWhere,
                     fmt::format("both sides have a row for each pair; expected {} rows twice, got {}",
                                 rows.rows(), others.rows()));
  }
  const VectorPlaces places(model.config(), options.of, options.positions, rows.rows(), kWhere);
  const Provenance origin = model.provenance();
  SummedPlaces summed(places, count, kWhere);
  std::vector<Probe> means, components;
  const auto end = run_vectors(
      model, {.input = rows.all(), .against = &others.all()}, places, options, kWhere,
      summed.work([&](std::size_t place, const Moments& sums) {
        // Around zero: the mean difference counts.
        const at::Tensor mean = sums.mean();
        const at::Tensor around = sums.products() + static_cast<double>(sums.rows()) * mean.outer(mean);
        const Components found =
            signed_along(components_of(around, at::zeros_like(mean), sums.rows() - 1, count), mean);
        summed.put(place, found.share);
        const auto add = [&](std::vector<Probe>& to, const at::Tensor& weight, const char* method) {
          to.push_back(summed.probe(place,
                                    {.weight = weight, .intercept = at::zeros({weight.size(0)}, at::kDouble)},
                                    method, origin));
        };
        add(means, mean.unsqueeze(0).clone(), "mean difference");
        add(components, found.vectors, "contrast");
      }));
  if (!end.complete) {
    means.clear();
    components.clear();
  }
  return {summed.share("Differences of pairs along components", "share of the squared differences"),
          std::move(means), std::move(components), end.complete, end.notes};
}

}  // namespace hooked
