#include "hooked/analysis/direct_path.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "analysis/patching/sweep_grid.h"
#include "analysis/places/row_columns.h"
#include "analysis/work/as_memory_allows.h"
#include "analysis/work/obstacles.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooks/norm_points.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

constexpr const char* kDirectPath = "direct_path";

/// The sites of HeadInput.
constexpr std::array kEnds{act::q, act::k, act::v};

std::int64_t checked(std::int64_t number, std::int64_t size, const char* what) {
  if (number >= -size && number < size) return number < 0 ? number + size : number;
  throw HookError(kDirectPath,
                  fmt::format("there is no {} {}; expected {} to {}", what, number, -size, size - 1));
}

/// The paths of one model, as cells.
///
/// The model itself computes the effect of a difference of z, with the scales of the norms on the way set to
/// those of the unpatched run: after its own block, and before later heads.
class Paths : public std::enable_shared_from_this<Paths> {
 public:
  Paths(const HookedTransformer& model, const DirectPathOptions& options, const SweepInput& into)
      : points_(model.points()),
        steps_(stream_of(model.config())),
        device_(model.device()),
        into_(into),
        options_(options),
        site_(kEnds[static_cast<std::size_t>(options.input)]) {
    const ModelConfig& config = model.config();
    require_free_of(config, kDirectPath, obstacles::kDirectPaths);
    n_layers_ = config.n_layers;
    n_heads_ = config.n_heads;
    n_ends_ = options.input == HeadInput::query ? config.n_heads : config.n_kv_heads;
    if (options.source) {
      sources_ = {{checked(options.source->layer, n_layers_, "layer"),
                   checked(options.source->head, config.n_heads, "head")}};
    } else {
      for (std::int64_t layer = 0; layer < n_layers_; ++layer) {
        for (std::int64_t head = 0; head < config.n_heads; ++head) sources_.push_back({layer, head});
      }
    }
  }

  CellPlan plan() const;

 private:
  /// Each source's difference in the stream, [source, pos, d_model], of one row, for the sources that some
  /// later layer follows.
  at::Tensor differences(const PatchedRuns& runs, SweptRow row) const;
  CellPatches patches(std::int64_t layer, const PatchedRuns& runs, SweptRow row) const;
  ActivationName full(const Address& address) const { return points_.resolve(address.name()); }
  /// The scales of the norms that attention of a layer reads, or writes, through.
  std::vector<ActivationName> scales(StreamStep::Kind kind, std::int64_t layer) const {
    std::vector<ActivationName> scales;
    for (const ActivationName& norm : step_in(steps_, kind, &StreamStep::mixes_own_tokens, layer)->through)
      scales.push_back(scale_of(norm));
    return scales;
  }
  /// Edits that hold scales as they are in the run without patches.
  Edits frozen(const PatchedRuns& runs, const std::vector<ActivationName>& scales, std::int64_t rows) const {
    Edits edits;
    for (const ActivationName& scale : scales) {
      const at::Tensor value = runs.value(scale);
      edits.push_back(set(Address(scale), value.expand({rows, value.size(1), value.size(2)})));
    }
    return edits;
  }

  PointIndex points_;
  std::vector<StreamStep> steps_;
  c10::Device device_;  // to which the differences of all layers are brought
  SweepInput into_;
  DirectPathOptions options_;
  act::BlockSite site_;
  std::int64_t n_layers_ = 0, n_heads_ = 0, n_ends_ = 0;
  std::vector<HeadPlace> sources_;
  mutable std::optional<std::pair<std::int64_t, at::Tensor>> differences_;  // for the current row; one thread
};

at::Tensor Paths::differences(const PatchedRuns& runs, SweptRow row) const {
  if (differences_ && differences_->first == row.number) return differences_->second;
  std::vector<at::Tensor> all;
  // No head comes after those of the last layer.
  for (std::size_t begin = 0; begin < sources_.size() && sources_[begin].layer + 1 < n_layers_;) {
    const auto layer = static_cast<std::int32_t>(sources_[begin].layer);
    std::size_t end = begin;
    while (end < sources_.size() && sources_[end].layer == layer) ++end;
    const auto rows = static_cast<std::int64_t>(end - begin);
    const ActivationName z = full(act::z(layer));
    const at::Tensor unpatched = runs.value(z);
    const SourceReader from(options_.sweep.from, z, unpatched, row);
    const at::Tensor stream = runs.value(full(act::resid_pre(layer)));
    as_memory_allows(device_, kDirectPath, rows, rows, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> sizes = unpatched.sizes().vec();
      sizes.front() = last - first;
      const at::Tensor values = unpatched.expand(sizes).clone();
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t number = sources_[begin + static_cast<std::size_t>(i)].head;
        PatchedPlace head;
        head.into.add(Axis::head, number);
        head.from.add(Axis::head, number);
        values[i - first].select(1, number).copy_(from.block(head)[0]);
      }
      Edits edits = frozen(runs, scales(StreamStep::Kind::write, layer), last - first);
      edits.push_back(set(act::z(layer), values));
      const Address out = act::attn_out(layer);
      const at::Tensor written = runs.resume(layer, stream.expand({last - first, -1, -1}), edits, out)[out];
      all.push_back(to_device(written - runs.value(full(out)), device_));
    });
    begin = end;
  }
  differences_.emplace(row.number, at::cat(all));
  return differences_->second;
}

CellPatches Paths::patches(std::int64_t layer, const PatchedRuns& runs, SweptRow row) const {
  const auto to = static_cast<std::int32_t>(layer);
  std::int64_t earlier = 0;  // sources are in the order of layers
  while (earlier < static_cast<std::int64_t>(sources_.size()) &&
         sources_[static_cast<std::size_t>(earlier)].layer < layer)
    ++earlier;
  CellPatches made;
  if (earlier == 0) return made;
  const at::Tensor stream = runs.value(full(act::resid_pre(to)));  // [1, pos, d_model]
  const at::Tensor differences = to_device(this->differences(runs, row), stream.device());
  const std::int64_t step = std::max<std::int64_t>(1, options_.sweep.tokens_per_run / stream.size(1));
  as_memory_allows(device_, kDirectPath, earlier, step, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin;
    const at::Tensor ends =
        runs.resume(layer, stream + differences.narrow(0, begin, rows),
                    frozen(runs, scales(StreamStep::Kind::read, layer), rows), site_(to))[site_(to)];
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t head = 0; head < n_ends_; ++head) {
        made.cells.push_back(((begin + i) * n_layers_ + layer) * n_ends_ + head);
        made.patches.push_back({{Address(full(site_(to))).head(head), ends.narrow(0, i, 1).select(2, head)}});
      }
    }
  });
  return made;
}

CellPlan Paths::plan() const {
  const std::string end = std::string(hooked::row(site_.site).word);
  CellPlan plan{.title = fmt::format("Patching direct paths into {}", end)};
  if (!options_.source) {
    plan.axes = {numbered_axis("source_layer", n_layers_), numbered_axis("source_head", n_heads_)};
  } else {
    plan.title += fmt::format(" from head {}.{}", sources_.front().layer, sources_.front().head);
  }
  plan.axes.push_back(numbered_axis("layer", n_layers_));
  plan.axes.push_back(numbered_axis("head", n_ends_));
  plan.record = plan.title;
  for (std::int32_t layer = 0; layer < n_layers_; ++layer) {
    for (const Address& needed : {act::z(layer), act::attn_out(layer), site_(layer)})
      plan.patched.push_back(full(needed));
    for (const StreamStep::Kind kind : {StreamStep::Kind::write, StreamStep::Kind::read}) {
      for (const ActivationName& scale : scales(kind, layer)) plan.patched.push_back(scale);
    }
  }
  const auto self = shared_from_this();
  plan.check = [self](SweptRow row) {
    for (const HeadPlace& source : self->sources_) {
      const ActivationName z = self->full(act::z(static_cast<std::int32_t>(source.layer)));
      require_same_columns(self->options_.sweep.from, self->into_, {z, Axis::pos}, row);
    }
  };
  for (std::int64_t layer = 0; layer < n_layers_; ++layer) {
    std::vector<std::int64_t> cells;
    for (std::int64_t source = 0; source < static_cast<std::int64_t>(sources_.size()); ++source) {
      for (std::int64_t head = 0; head < n_ends_; ++head)
        cells.push_back((source * n_layers_ + layer) * n_ends_ + head);
    }
    plan.groups.push_back({std::move(cells), [self, layer](const PatchedRuns& runs, SweptRow row) {
                             return self->patches(layer, runs, row);
                           }});
  }
  return plan;
}

SweepReport report_of(const HookedTransformer& model, const DirectPathOptions& options,
                      OnFailure on_failure) {
  const SweepOptions& sweep = options.sweep;
  require_own_places(sweep, kDirectPath, "paths are from head to head");
  const SweepInput into(model, sweep.into);
  return swept(model, sweep, into, std::make_shared<const Paths>(model, options, into)->plan(), on_failure);
}

}  // namespace

Grid direct_path(const HookedTransformer& model, const DirectPathOptions& options) {
  return report_of(model, options, OnFailure::throws).grid;
}

SweepReport direct_path_report(const HookedTransformer& model, const DirectPathOptions& options) {
  return report_of(model, options, OnFailure::is_listed);
}

}  // namespace hooked
