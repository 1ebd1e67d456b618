#include "analysis/stream/stream_path.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>

#include <algorithm>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/places/named_tokens.h"
#include "analysis/stream/stream_features.h"
#include "analysis/values/numberless.h"
#include "analysis/work/work_steps.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The stack whose stream a point belongs to; for the embedding, the encoder's if there is one.
Stack stack_of(const ActivationName& of, const ModelConfig& config) {
  if (of.stack != Stack::none) return of.stack;
  if (!config.has_encoder()) return Stack::blocks;
  return of.scope() == SiteScope::exit ? Stack::decoder : Stack::encoder;
}

/// Whether the path of the stream to `of` ends with this step: at a point that shows the stream, at a norm's
/// output, or at what a sublayer adds.
bool ends_at(const StreamStep& step, const ActivationName& of) {
  const bool passed = std::ranges::find(step.through, of) != step.through.end();
  switch (step.kind) {
    case StreamStep::Kind::read:
      return passed || (of == step.point && of.site == Site::cross_attn_in);
    case StreamStep::Kind::write:
      return of == step.point && step.by_sublayer();
    case StreamStep::Kind::show:
    case StreamStep::Kind::norm:
    case StreamStep::Kind::scale:
      return of == step.point;
  }
  return false;
}

/// The stream itself is normed and continues as the norm's output; the bias is a separate part.
PathStep normed(const StreamStep& step, const RunReading& run) {
  const StreamNorm norm = stream_norm_at(run.model, step.point);
  PathStep made{.norm = run.frozen(norm)};
  if (norm.bias.defined()) made.written.push_back(constant_part(step.label("bias"), norm.bias, run));
  return made;
}

/// All parts in one tensor, with the remainder last. Neurons are many: none of them is kept twice.
Parts with_remainder(const StreamPath& path, std::vector<at::Tensor> values, const at::Tensor& whole) {
  auto rest = whole;
  for (const auto& part : values) rest = rest - part.sum(0);
  values.push_back(rest.unsqueeze(0));
  return {.axis = part_axis(path), .values = at::cat(values)};
}

}  // namespace

RunReading reading_of(const HookedTransformer& model, const ActivationCache& cache, const ReadAt& at) {
  require_cache_of(model, cache, "cache");
  RowColumns columns = columns_of(cache, at.like, at.positions);
  name_tokens(columns.axis, model, cache.tokens(cache.entry(at.like.name()).name.stack), columns.columns);
  return {model, cache, std::move(columns)};
}

at::Tensor RunReading::operator()(const Address& address) const {
  return read_columns(cache, address, columns).to(at::kCPU, at::kDouble);
}

FrozenNorm RunReading::frozen(const StreamNorm& norm) const {
  return {.centres = norm.centres(), .scale = (*this)(norm.scale), .weight = norm.weight};
}

FrozenNorm RunReading::division(const StreamNorm& norm) const {
  return {.centres = norm.centres(), .scale = (*this)(norm.scale)};
}

at::Tensor Writing::vectors() const {
  auto x = values();
  if (matrix) x = at::einsum("rpuw,uwm->rpum", {x, matrix()});
  x = x.movedim(2, 0);
  for (const auto& norm : through) x = norm.of(x);
  return x;
}

at::Tensor Writing::before_norms(at::Tensor directions) const {
  for (auto norm = through.rbegin(); norm != through.rend(); ++norm) directions = norm->before(directions);
  return directions;
}

at::Tensor Writing::along(const at::Tensor& directions) const {
  const auto seen = before_norms(directions);
  const auto x = values();
  if (!matrix) return at::einsum("rpum,rpnm->urpn", {x, seen});
  return at::einsum("rpuw,rpnuw->urpn", {x, at::einsum("uwm,rpnm->rpnuw", {matrix(), seen})});
}

StreamPath path_to(const ActivationName& of, const Split& split, const RunReading& run) {
  const ModelConfig& config = run.model.config();
  const std::vector<StreamStep> steps = stream_of(config, stack_of(of, config));
  const auto end = std::ranges::find_if(steps, [&](const StreamStep& step) { return ends_at(step, of); });
  if (end == steps.end()) {
    throw HookError(
        of.to_string(),
        "this is not made by adding up what was written to the stream; expected a point of the stream "
        "(resid_pre, resid_mid, resid_post, ...), what a norm makes of it (ln1_normalized, ...) or what a "
        "sublayer adds to it (attn_out, mlp_out)");
  }
  const bool writes = end->kind == StreamStep::Kind::write;
  auto step = writes ? end : steps.begin();
  StreamPath path;
  if (split.grain == Grain::feature) {
    if (std::none_of(step, end + 1, [&](const auto& each) { return has_features(run.model, each); })) {
      throw HookError(of.to_string(),
                      "no dictionary stands where the stream, or what is written to it, could be split into "
                      "features; expected a model with one there (with_dictionary, --dictionary), or another "
                      "grain");
    }
    // All that was written before a dictionary of the stream is in its features.
    for (auto shown = end + 1; shown-- != step;) {
      auto features = features_shown(*shown, run);
      if (!features) continue;
      path.push_back({.written = std::move(*features)});
      step = shown;
      break;
    }
  }
  if (writes) return {{.written = written_by(*end, split, run)}};
  for (; step != end; ++step) {
    if (step->kind == StreamStep::Kind::write) {
      path.push_back({.written = written_by(*step, split, run)});
    } else if (step->kind == StreamStep::Kind::norm) {
      path.push_back(normed(*step, run));
    } else if (step->kind == StreamStep::Kind::scale) {
      path.push_back({.norm = scale_of_stream(run.model, step->block())});
    }
  }
  if (is_normalized_stream(of.site)) path.push_back({.norm = run.division(stream_norm_at(run.model, of))});
  return path;
}

void append(GridAxis& axis, const Writing& writing) {
  axis.labels.insert(axis.labels.end(), writing.labels.begin(), writing.labels.end());
  axis.places.insert(axis.places.end(), writing.places.begin(), writing.places.end());
}

GridAxis part_axis(const StreamPath& path) {
  GridAxis axis{.name = "part", .labels = {}};
  for (const auto& step : path) {
    for (const auto& writing : step.written) append(axis, writing);
  }
  axis.labels.emplace_back("remainder");
  axis.places.emplace_back(std::nullopt);
  return axis;
}

void walk_back(const StreamPath& path, at::Tensor directions,
               const std::function<void(const Writing& writing, const at::Tensor& seen)>& use) {
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    for (auto writing = step->written.rbegin(); writing != step->written.rend(); ++writing)
      use(*writing, directions);
    if (step->norm) directions = step->norm->before(directions);
  }
}

void walk_forward(const StreamPath& path,
                  const std::function<bool(const Writing& writing, const at::Tensor& vectors)>& use) {
  for (auto step = path.begin(); step != path.end(); ++step) {
    for (const auto& writing : step->written) {
      auto vectors = writing.vectors();
      for (auto later = step + 1; later != path.end(); ++later) {
        if (later->norm) vectors = later->norm->of(vectors);
      }
      if (!use(writing, vectors)) return;
    }
  }
}

Parts vectors_along(const StreamPath& path, const at::Tensor& whole) {
  std::vector<at::Tensor> values;
  walk_forward(path, [&](const Writing&, const at::Tensor& vectors) {
    values.push_back(vectors);
    return true;
  });
  return with_remainder(path, std::move(values), whole);
}

Parts directions_along(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                       const std::function<bool(const SweepProgress&)>& watch) {
  std::int64_t writings = 0;
  for (const auto& step : path) writings += static_cast<std::int64_t>(step.written.size());
  const WorkSteps steps(writings, watch);
  std::vector<at::Tensor> values;  // the last first
  bool going_on = true;
  walk_back(path, directions, [&](const Writing& writing, const at::Tensor& seen) {
    const auto parts = static_cast<std::int64_t>(writing.labels.size());
    values.push_back(going_on ? writing.along(seen)
                              : numberless({parts, seen.size(0), seen.size(1), seen.size(2)}));
    going_on = going_on && steps.done(static_cast<std::int64_t>(values.size()));
  });
  std::ranges::reverse(values);
  return with_remainder(path, std::move(values), at::einsum("rpm,rpnm->rpn", {whole, directions}));
}

}  // namespace hooked
