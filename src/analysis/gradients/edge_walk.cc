#include "analysis/gradients/edge_walk.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/gradients/gradient_run.h"
#include "analysis/stream/frozen_norm.h"
#include "analysis/values/float32_at_least.h"
#include "analysis/values/numberless.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

using Graph = StreamGraph;

// Note [Reading through a norm]
// Let c be the centring, s the scale, x^ the normed stream and w the weight of the norm before a
// projection W. A change d of the stream changes the output of W by
// (c(d) / s - x^ (x^ . c(d)) / (N s)) w W. So d . c(w W g) / s are the products of all writers with one
// direction per reader, which the projection makes from gradients g / s, with W centred and weighted
// beforehand: the many directions need no work one by one. The scale takes off the product of a number of
// the writer, d . x^, and one of the reader, x^ . (w W g) / (N s), at each position.

/// Carries what was written along the stream, and reads it.
class EdgeWalk {
 public:
  EdgeWalk(const EdgeRun& run, const std::vector<at::Tensor>& deltas)
      : run_(run), config_(run.model.config()), deltas_(deltas) {}

  at::Tensor walk() {
    const auto writers = static_cast<std::int64_t>(run_.graph.writer_axis.labels.size());
    const auto readers = static_cast<std::int64_t>(run_.graph.reader_axis.labels.size());
    std::vector<std::int64_t> sizes{deltas_.front().size(0), writers, readers};
    const auto columns = [](const at::Tensor& delta) { return delta.size(1); };
    if (run_.by_position) sizes.push_back(columns(*std::ranges::max_element(deltas_, {}, columns)));
    edges_ = numberless(sizes, deltas_.front().options().dtype(at::kDouble));
    const auto& steps = run_.graph.steps;
    for (std::size_t i = 0; i < steps.size();) {
      switch (steps[i].kind) {
        case Graph::Step::Kind::stream:
          begin_stream(i);
          break;
        case Graph::Step::Kind::read: {
          const std::size_t begin = i;
          while (i < steps.size() && reads_with(steps[begin], steps[i])) ++i;
          read(begin, i);
          continue;
        }
        case Graph::Step::Kind::write:
          write(steps[i].number);
          break;
        case Graph::Step::Kind::norm:
          if (count_ > 0) {
            // [writer, row, pos, d_model]
            const at::Tensor all = written_.narrow(1, 0, count_).transpose(0, 1);
            all.copy_(norm_at(run_.graph.norms[steps[i].number]).of(all));
          }
          break;
      }
      ++i;
    }
    return edges_.to(at::kCPU);
  }

 private:
  /// From this step on, parts write to another stream.
  void begin_stream(std::size_t step) {
    const StreamGraph& graph = run_.graph;
    const std::vector<Graph::Step>& steps = graph.steps;
    const auto next =
        std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, steps.end(),
                     [](const Graph::Step& later) { return later.kind == Graph::Step::Kind::stream; });
    const Graph::Writer& last =
        graph.writers[(next == steps.end() ? graph.writers.size() : next->number) - 1];
    const at::Tensor& delta = deltas_[steps[step].number];  // [row, pos, ..]
    first_ = graph.writers[steps[step].number].first;
    count_ = 0;
    written_ = at::empty({delta.size(0), last.first + last.count - first_, delta.size(1), config_.d_model},
                         float32_at_least(delta).options());
  }

  /// Whether a step is a reader of the same layer: those read through one norm, and are read together.
  bool reads_with(const Graph::Step& first, const Graph::Step& step) const {
    if (step.kind != Graph::Step::Kind::read) return false;
    const ActivationName &a = run_.graph.readers[first.number].gradient.name(),
                         &b = run_.graph.readers[step.number].gradient.name();
    return a.stack == b.stack && a.layer == b.layer;
  }

  at::Tensor value(const Address& address) const {
    return float32_at_least(run_.values[address]).to(written_.options());
  }
  at::Tensor gradient(const Address& address) const {
    return float32_at_least(run_.gradients[address]).to(written_.options());
  }
  at::Tensor as_here(const at::Tensor& weight) const {
    return weight.defined() ? weight.to(written_.options()) : weight;
  }

  FrozenNorm norm_at(const ActivationName& normalized) const {
    if (normalized.site == Site::resid_sum) {
      const FrozenNorm scale = scale_of_stream(run_.model, {normalized.stack, normalized.layer});
      return {.scale = as_here(scale.scale), .weight = as_here(scale.weight)};
    }
    const StreamNorm norm = stream_norm_at(run_.model, normalized);
    return {.centres = norm.centres(),
            .scale = value(Address(norm.scale)),
            .weight = as_here(norm.weight),
            .normalized = run_.norms_held ? at::Tensor() : value(Address(norm.normalized))};
  }

  void write(std::size_t number) {
    const Graph::Writer& writer = run_.graph.writers[number];
    // [part, row, pos, d_model]
    const at::Tensor to = written_.narrow(1, writer.first - first_, writer.count).transpose(0, 1);
    const at::Tensor delta = float32_at_least(deltas_[number]).to(written_.options());
    if (!writer.of_heads) {
      to[0].copy_(delta);
    } else {
      const ActivationName& z = writer.written.name();
      // [head, d_value, d_model]
      const at::Tensor W_O = as_here(weights_around(run_.model, z).W_O(z.layer));
      const at::Tensor heads = at::einsum("rphw,hwm->hrpm", {delta, W_O});
      to.copy_(writer.norm ? norm_at(*writer.norm).of(heads) : heads);
    }
    count_ = writer.first + writer.count - first_;
  }

  /// Readers of one point of the stream.
  struct Directions {
    at::Tensor along;  ///< [row, reader, pos, d_model]
    /// What the norm before some of the readers, the first ones, also takes off: a number for each writer
    /// (computed with `normalized` [row, pos, d_model]; undefined: nothing is taken off) times `taken_off`
    /// [row, reader, pos].
    at::Tensor normalized = {}, taken_off = {};
  };

  void read(std::size_t begin, std::size_t end) {
    const auto& graph = run_.graph;
    const Graph::Reader& first = graph.readers[graph.steps[begin].number];
    const Graph::Reader& last = graph.readers[graph.steps[end - 1].number];
    const std::int64_t n_readers = last.first + last.count - first.first;
    const std::int64_t rows = written_.size(0), columns = written_.size(2);
    Directions directions{.along =
                              at::empty({rows, n_readers, columns, config_.d_model}, written_.options())};
    for (std::size_t step = begin; step < end; ++step) {
      const Graph::Reader& reader = graph.readers[graph.steps[step].number];
      put(reader, reader.first - first.first, directions);
    }
    const at::Tensor before = written_.narrow(1, 0, count_);
    at::Tensor to = edges_.narrow(1, first_, count_).narrow(2, first.first, n_readers);
    if (run_.by_position) to = to.narrow(3, 0, columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      at::Tensor numbers = products(before[row], directions.along[row]);
      if (directions.normalized.defined()) {
        const at::Tensor moved = at::einsum("upm,pm->up", {before[row], directions.normalized[row]});
        const at::Tensor taken = directions.taken_off[row];  // [reader, pos]
        const at::Tensor less =
            run_.by_position ? moved.unsqueeze(1) * taken.unsqueeze(0) : moved.matmul(taken.t());
        numbers.narrow(1, 0, taken.size(0)).sub_(less);
      }
      to[row].copy_(numbers);
    }
  }

  /// For writers and readers [.., pos, d_model]: [writer, reader] or [writer, reader, pos].
  at::Tensor products(const at::Tensor& writers, const at::Tensor& readers) const {
    if (run_.by_position) return at::einsum("upm,npm->unp", {writers, readers});
    return writers.flatten(1).matmul(readers.flatten(1).t());
  }

  /// Stores the directions of a reader's parts, beginning at the `place`-th.
  void put(const Graph::Reader& reader, std::int64_t place, Directions& directions) const {
    const at::Tensor to = directions.along.narrow(1, place, reader.count);
    const ActivationName& name = reader.gradient.name();
    const at::Tensor given = gradient(reader.gradient);  // [row, pos, (head, d_head or) d_model]
    if (reader.kind == Graph::Reader::Kind::stream) {
      to.select(1, 0).copy_(given);
      return;
    }
    if (config_.latent_attention()) {
      to.copy_(through_latents(reader).transpose(1, 2));
      return;
    }
    const WeightView weights = weights_around(run_.model, name);
    at::Tensor W = as_here(reader.kind == Graph::Reader::Kind::queries ? weights.W_Q(name.layer)
                           : reader.kind == Graph::Reader::Kind::keys
                               ? weights.W_K(name.layer)
                               : weights.W_V(name.layer));  // [head, d_model, d_head]
    at::Tensor by_head = given.transpose(1, 2);             // [row, head, pos, d_head]
    if (reader.norm) {
      const FrozenNorm norm = norm_at(*reader.norm);
      if (norm.weight.defined()) W = W * norm.weight.unsqueeze(1);
      if (norm.centres) W = W - W.mean(1, /*keepdim=*/true);
      by_head = by_head / norm.scale.unsqueeze(1);
      if (norm.normalized.defined()) {
        const at::Tensor read = at::einsum("rpm,hmd->rhpd", {norm.normalized, W});
        const at::Tensor off =
            (read * by_head).sum(3) / static_cast<double>(config_.d_model);  // [row, head, pos]
        directions.normalized = norm.normalized;
        directions.taken_off = place == 0 ? off : at::cat({directions.taken_off, off}, 1);
      }
    }
    const at::Tensor back = W.transpose(1, 2);  // [head, d_head, d_model]
    for (std::int64_t row = 0; row < to.size(0); ++row) {
      at::Tensor own = to[row];
      at::bmm_out(own, by_head[row], back);
    }
  }

  /// Between the stream and queries, keys and values there are norms of latents: the model itself computes
  /// what reaches the stream, in runs of its layer with one head each. [row, pos, head, d_model]
  at::Tensor through_latents(const Graph::Reader& reader) const {
    const ActivationName& name = reader.gradient.name();
    const Address stream = act::resid_pre.in(name.stack, name.layer);
    const at::Tensor before = run_.values[stream];
    // The gradients are with respect to the inputs of hooks, so these runs have no hooks.
    const HookedTransformer model(run_.model.loaded());
    std::vector<at::Tensor> heads;
    for (std::int64_t head = 0; head < reader.count; ++head) {
      RunOptions options{.hooks = holding({.norms = run_.norms_held}),
                         .output = Output::none,
                         .stop_at_layer = name.layer + 1};
      const auto one_head = [&](const at::Tensor&, const ActivationCache& read) {
        return (read[reader.gradient].select(2, head) * run_.gradients[reader.gradient].select(2, head))
            .sum();
      };
      options.gradients.emplace(
          GradientRequest{.of = stream.name(), .of_run = {.reads = Selection(name), .function = one_head}});
      heads.push_back(float32_at_least(
          model.run(from_stream(run_.input, name.layer, before), options).gradients[stream]));
    }
    return at::stack(heads, 2);
  }

  const EdgeRun& run_;
  const ModelConfig& config_;
  const std::vector<at::Tensor>& deltas_;
  at::Tensor written_;      // [row, writer of this stream, pos, d_model]: its present state
  std::int64_t first_ = 0;  // of the writers of this stream
  std::int64_t count_ = 0;  // of those that have written
  at::Tensor edges_;
};

}  // namespace

at::Tensor edges_of(const EdgeRun& run, const std::vector<at::Tensor>& deltas) {
  return EdgeWalk(run, deltas).walk();
}

}  // namespace hooked
