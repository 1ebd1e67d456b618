#include "hooked/analysis/sweep.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/cache_reading.h"
#include "analysis/patched_runs.h"
#include "analysis/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kWhere = "sweep";

/// One axis of the grid besides layer: the site's dimension it walks along.
struct SweptAxis {
  Axis asked;        ///< as the caller wrote it; `pos` also where the site has a query axis
  std::int64_t dim;  ///< dimension of the site's activation
  std::int64_t size;
};

/// The layout of the grid: which of its axes is layer, and what the others are.
struct Plan {
  std::size_t layer_axis;
  std::vector<SweptAxis> others;
  std::int64_t places = 1;  ///< of one layer
};

void require(bool holds, std::string_view sentence) {
  if (!holds) throw HookError(kWhere, sentence);
}

/// One sequence as [1, pos]; `tokens` [pos] or [1, pos].
at::Tensor one_row(const at::Tensor& tokens) {
  if (!tokens.defined()) return tokens;
  const auto row = tokens.dim() == 1 ? tokens.unsqueeze(0) : tokens;
  if (row.dim() == 2 && row.size(0) == 1) return row;
  throw ShapeError(
      kWhere, fmt::format("`into` is one sequence; expected tokens [pos] or [1, pos], got {}; sweep rows "
                          "one after the other",
                          shape_text(tokens.sizes())));
}

/// The corrupted input with every tensor as one row.
Input one_row(const Input& into, const HookedTransformer& model) {
  Input row = into.text ? Input(model.to_tokens(*into.text), into) : into;
  if (!row.tokens.defined())
    throw ShapeError(kWhere, "`into` is missing; expected int64 tokens [pos] or [1, pos]");
  require(!row.start && !row.prefix, "`into` goes on from a residual or a prefix; expected all of the input");
  for (at::Tensor* tensor : {&row.tokens, &row.attention_mask, &row.token_types, &row.decoder.tokens,
                             &row.decoder.attention_mask}) {
    *tensor = one_row(*tensor);
  }
  return row;
}

/// The site in every layer that has it. Throws HookError where none has.
std::vector<ActivationName> layers_with(const HookedTransformer& model, const SweepOptions& options) {
  const PointIndex points(model.config());
  const Stack stack = options.stack == Stack::none ? points.stacks().main() : options.stack;
  std::vector<ActivationName> layers;
  for (const ActivationName& name : points.names()) {
    if (name.site == options.site.site && name.stack == stack) layers.push_back(name);
  }
  if (layers.empty()) points.require(options.site.in(options.stack, 0).name());
  return layers;
}

/// Checks what can be checked without running, and lays the grid out by the shape of layer 0's activation.
Plan make_plan(const SweepOptions& options, const std::vector<ActivationName>& layers) {
  const SiteRow& site = row(options.site.site);
  const auto layer = std::find(options.over.begin(), options.over.end(), Axis::layer);
  require(site.scope == SiteScope::block,
          fmt::format("{} is outside the blocks; expected a site that every layer has", site.word));
  require(layer != options.over.end(), "`over` has no Axis::layer; expected it and any of the site's axes");
  Plan plan{.layer_axis = static_cast<std::size_t>(layer - options.over.begin()), .others = {}};
  const auto first = options.from[Address(layers.front())];
  for (const Axis asked : options.over) {
    if (asked == Axis::layer) {
      require(std::count(options.over.begin(), options.over.end(), Axis::layer) == 1,
              "Axis::layer stands twice in `over`");
      continue;
    }
    const auto axis = axis_on(site.site, asked);
    const auto dim = axis ? site.axes.find(*axis) : std::nullopt;
    if (!dim || asked == Axis::batch || asked == Axis::one) {
      std::vector<std::string_view> names;
      for (const Axis a : site.axes) {
        if (a != Axis::batch && a != Axis::one) names.push_back(axis_name(a));
      }
      throw HookError(kWhere, fmt::format("{} cannot be swept over {}; expected layer and any of {}",
                                          site.word, axis_name(asked), fmt::join(names, ", ")));
    }
    for (const auto& other : plan.others) {
      require(other.dim != *dim, fmt::format("{} stands twice in `over`", axis_name(asked)));
    }
    plan.others.push_back({asked, *dim, first.size(*dim)});
    plan.places *= first.size(*dim);
  }
  return plan;
}

/// The activation that replaces, [1, ...]. Throws when it does not fit the run that is patched.
at::Tensor source_of(const SweepOptions& options, const ActivationName& name, const at::Tensor& target) {
  const auto source = options.from[Address(name)];
  require_all_positions(options.from, name, "a sweep");
  if (source.sizes() == target.sizes()) return source.to(target.options());
  throw HookError(
      name.to_string(),
      fmt::format("`from` does not fit `into`; expected shape {}, got {}; both need one row and the same "
                  "number of tokens (one row of a batch is cache.row(i))",
                  shape_text(target.sizes()), shape_text(source.sizes())));
}

/// One patch for each place of the layout: the block there, out of `source` [1, ...].
std::vector<Patch> patches_of(const Plan& plan, const Address& address, const at::Tensor& source) {
  std::vector<Patch> patches;
  for (std::int64_t place = 0; place < plan.places; ++place) {
    Address at = address;
    at::Tensor block = source;
    std::int64_t rest = place;
    for (auto axis = plan.others.rbegin(); axis != plan.others.rend(); ++axis) {
      at = at.at(axis->asked, std::vector<std::int64_t>{rest % axis->size});
      block = block.narrow(axis->dim, rest % axis->size, 1);
      rest /= axis->size;
    }
    patches.push_back({{at, block}});
  }
  return patches;
}

/// A metric must score each row by itself: two rows together and one after the other give the same.
void require_rowwise(const BoundMetric& metric, const at::Tensor& two_rows) {
  const auto together = metric.of_rows({0, 0})(two_rows).to(at::kDouble).cpu();
  for (std::int64_t i = 0; i < 2; ++i) {
    const double alone = metric(two_rows.narrow(0, i, 1)).to(at::kDouble).item<double>();
    const double in_company = together[i].item<double>();
    if (std::isnan(alone) && std::isnan(in_company)) continue;
    if (std::abs(alone - in_company) <= 1e-3 * std::max(1.0, std::abs(alone))) continue;
    throw ShapeError(
        metric.metric().name(),
        fmt::format("row {} scores {} by itself and {} beside another row; expected a metric that looks at "
                    "each row alone",
                    i, alone, in_company));
  }
}

std::vector<GridAxis> grid_axes(const HookedTransformer& model, const SweepOptions& options, const Plan& plan,
                                const Input& into) {
  std::vector<GridAxis> axes;
  const auto name = options.site.in(options.stack, 0).name();
  for (const auto& axis : plan.others) {
    GridAxis swept = numbered_axis(axis_name(axis.asked), axis.size);
    const bool is_position = axis.asked == Axis::pos || axis.asked == Axis::query || axis.asked == Axis::key;
    const bool of_encoder = model.config().has_encoder() && counts_source(name, axis.asked);
    const at::Tensor& tokens = of_encoder ? into.tokens : into.main_tokens();  // [1, pos]
    if (is_position && model.has_tokenizer()) {
      const auto pieces = model.to_str_tokens(tokens[0]);
      for (std::size_t i = 0; i < pieces.size(); ++i) swept.labels[i] += ' ' + pieces[i];
    }
    axes.push_back(std::move(swept));
  }
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(plan.layer_axis),
              numbered_axis(axis_name(Axis::layer), options.from.n_layers(options.stack)));
  return axes;
}

}  // namespace

Grid sweep(const HookedTransformer& model, const SweepOptions& options) {
  const auto into = one_row(options.into, model).with_decoder_start(model.config());
  require(options.tokens_per_run > 0,
          fmt::format("tokens_per_run is {}; expected at least 1", options.tokens_per_run));
  const bool in_encoder = options.stack == Stack::encoder;
  const std::int64_t n_layers = in_encoder ? model.config().n_encoder_layers() : model.config().n_layers;

  const std::vector<ActivationName> names = layers_with(model, options);
  const auto plan = make_plan(options, names);
  const BoundMetric metric = options.metric.on(model, into);
  const bool reads_activations = !metric.metric().definition().activations.empty();
  const PatchedRuns runs(model, into, names,
                         {.run = metric.needs(), .tokens_per_run = options.tokens_per_run});
  const double untouched = metric(runs.unpatched()).to(at::kDouble).item<double>();
  auto values = at::full({n_layers, plan.places}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  bool metric_checked = reads_activations;
  for (const ActivationName& name : names) {
    const at::Tensor source = source_of(options, name, runs.value(name));
    auto* const scores = values[name.layer].mutable_data_ptr<double>();
    runs.run(patches_of(plan, name, source),
             [&](const std::vector<std::size_t>& places, const RunResult* run) {
               if (run == nullptr) {
                 for (const std::size_t place : places) scores[place] = untouched;
                 return;
               }
               if (!metric_checked) {
                 require_rowwise(metric, at::cat({runs.unpatched().logits(), run->logits().narrow(0, 0, 1)}));
               }
               metric_checked = true;
               const std::vector<std::int64_t> same_row(places.size(), 0);
               const at::Tensor made = metric.of_rows(same_row)(*run).to(at::kDouble).cpu().contiguous();
               for (std::size_t i = 0; i < places.size(); ++i)
                 scores[places[i]] = made.const_data_ptr<double>()[i];
             });
  }

  std::vector<std::int64_t> shape{n_layers};
  for (const auto& axis : plan.others) shape.push_back(axis.size);
  values = values.view(shape).movedim(0, static_cast<std::int64_t>(plan.layer_axis));
  return Grid(
      values, grid_axes(model, options, plan, into),
      {.title = fmt::format("Patching {}", row(options.site.site).word), .unit = options.metric.name()});
}

}  // namespace hooked
