#include "analysis/patching/active_features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nonzero.h>

#include "analysis/patching/sweep_grid.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/work/as_memory_allows.h"
#include "core/id_list.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

std::vector<std::int64_t> active_features(const HookedTransformer& model,
                                          const std::vector<ActivationName>& points,
                                          const SweepOptions& options, const SweepInput& into) {
  require_source(options.from, model);
  Selection capture;
  for (const ActivationName& point : points) capture = capture | Selection(point);
  const PointIndex& all = model.points();
  const TokenColumns columns = into.columns(/*of_encoder=*/false);
  at::Tensor active;  // [feature] bool
  const auto add = [&](const at::Tensor& found) {
    if (!found.defined()) return;
    active = active.defined() ? active.logical_or(found.to(at::kCPU)) : found.to(at::kCPU);
  };
  const CellPlan none;
  const SweepLayout layout(options, into, none);
  for (const std::int64_t number : layout.rows()) {
    const SweptRow row = into.row(number);
    const auto seen = with_memory(memory_of_analysis(model.device(), "sweep"), [&] {
      return model
          .run(into.of_row(number, /*with_padding_behind=*/true),
               {.hooks = options.hooks,
                .edits = edits_of_row(options.edits, all, row),
                .capture = capture,
                .output = Output::none,
                .threads = options.threads})
          .cache;
    });
    for (const ActivationName& point : points) {
      const at::Tensor codes = seen[Address(point)];  // [1, pos, feature]
      at::Tensor fires = codes.ne(0);
      if (columns.mask.defined() && fires.size(1) == columns.mask.size(1))
        fires = fires.logical_and(columns.mask[number].to(fires.device()).view({1, -1, 1}));
      add(fires.flatten(0, 1).any(0));
      add(SourceReader(options.from, point, codes, row).not_zero());
    }
  }
  return id_list(at::nonzero(active).flatten());
}

}  // namespace hooked
