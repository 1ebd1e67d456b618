#include "analysis/gradients/kept_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "analysis/gradients/gradient_run.h"
#include "analysis/patching/cell_plan.h"
#include "analysis/runs/row_metrics.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/values/numberless.h"
#include "analysis/work/obstacles.h"
#include "analysis/work/work_clock.h"
#include "core/parallel.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooks/edited_block.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

constexpr const char* kRunCircuits = "run_circuits";

/// Makes standing edits of writers' outputs with hooks: hooks come before edits, and a writer adds to the
/// stream what its edits have left.
class WriterEdits {
 public:
  WriterEdits(const HookedTransformer& model, const StreamGraph& graph, const Edits& edits,
              const SweepInput& into)
      : columns_(into.columns(/*of_encoder=*/false)), of_writers_(graph.writers.size()) {
    const PointIndex& points = model.points();
    for (const StreamGraph::Writer& writer : graph.writers)
      names_.push_back(points.resolve(writer.written.name()));
    for (const Edit& edit : edits) {
      for (const std::size_t point : edit.target.where.resolve(points, Reach::everything(points))) {
        const ActivationName& name = points.name(point);
        Edit own = edit;
        own.target = {Selection(name), {}};  // with indices on the point's own axes
        for (const auto& [axis, index] : edit.target.indices.entries())
          own.target.indices.add(Address(name).at(axis, index).indices().entries().front().first, index);
        const auto number = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
        (number == names_.size() ? others_ : of_writers_[number]).push_back(std::move(own));
      }
    }
  }

  /// The result of a writer's edits for the whole `value` of its point.
  at::Tensor of_writer(std::size_t number, const at::Tensor& value) const {
    at::Tensor changed = value;
    for (const Edit& edit : of_writers_[number]) {
      const AxisIndices& indices = edit.target.indices;
      const std::string where = names_[number].to_string();
      const AxisContext context{names_[number].site, where, columns_.last(value.size(0))};
      std::variant<double, at::Tensor> operand = edit.value;
      if (auto* tensor = std::get_if<at::Tensor>(&operand)) *tensor = to_device(*tensor, value.device());
      const at::Tensor block = take_block(changed, indices, context);
      changed = with_block(changed, indices, context,
                           edited_block(edit.kind, operand, block, where + indices.to_string()));
    }
    return changed;
  }
  /// The edits of everything else.
  const Edits& others() const { return others_; }

 private:
  TokenColumns columns_;
  std::vector<ActivationName> names_;  // of the writers
  std::vector<Edits> of_writers_;
  Edits others_;
};

/// One run in which readers read some writers as they are in another run.
///
/// Hooks at the writers record how much they differ from the other run, and hooks at the readers add that for
/// every writer that is not kept.
class EdgeRunHooks {
 public:
  /// `at_a_writer` is called at each writer, and may end the run by what it throws.
  EdgeRunHooks(const HookedTransformer& model, const StreamGraph& graph, const std::vector<at::Tensor>& there,
               const WriterEdits& edits, const at::Tensor& dropped, std::function<void()> at_a_writer)
      : model_(model),
        graph_(graph),
        there_(there),
        edits_(edits),
        dropped_(dropped),
        at_a_writer_(std::move(at_a_writer)) {}

  /// Hooks that come before them in a run must be placed before these.
  Hooks hooks() {
    Hooks all;
    for (std::size_t i = 0; i < graph_.writers.size(); ++i) {
      all.emplace_back(Selection(graph_.writers[i].written), [this, i](const at::Tensor& value) {
        at_a_writer_();
        const at::Tensor written = edits_.of_writer(i, value);
        note(i, written);
        return written;
      });
    }
    for (const StreamGraph::Reader& reader : graph_.readers) {
      all.emplace_back(Selection(input_of(reader)),
                       [this, &reader](const at::Tensor& value) { return corrected(reader, value); });
    }
    return all;
  }

 private:
  Address input_of(const StreamGraph::Reader& reader) const {
    const ActivationName& name = reader.gradient.name();
    switch (reader.kind) {
      case StreamGraph::Reader::Kind::queries:
        return act::q_input.in(name.stack, name.layer);
      case StreamGraph::Reader::Kind::keys:
        return act::k_input.in(name.stack, name.layer);
      case StreamGraph::Reader::Kind::values:
        return act::v_input.in(name.stack, name.layer);
      case StreamGraph::Reader::Kind::stream:
        break;
    }
    return reader.gradient;
  }

  void note(std::size_t number, const at::Tensor& value) {
    const StreamGraph::Writer& writer = graph_.writers[number];
    at::Tensor change = there_[number] - value;
    if (writer.of_heads) {
      const at::Tensor W_O = model_.weights().W_O(writer.written.name().layer).to(change.options());
      change = at::einsum("rphw,hwm->hrpm", {change, W_O});
    } else {
      change = change.unsqueeze(0);
    }
    changes_ = changes_.defined() ? at::cat({changes_, to_device(change, changes_.device())}) : change;
  }

  at::Tensor corrected(const StreamGraph::Reader& reader, const at::Tensor& value) const {
    // [reader, writer], of the writers so far
    const at::Tensor dropped = dropped_.narrow(0, reader.first, reader.count).narrow(1, 0, changes_.size(0));
    const at::Tensor made = at::einsum("nu,urpm->rpnm", {dropped.to(changes_.options()), changes_});
    const at::Tensor added = to_device(made, value.device());  // the reader may lie on another device
    return value + (reader.kind == StreamGraph::Reader::Kind::stream ? added.squeeze(2) : added);
  }

  const HookedTransformer& model_;
  const StreamGraph& graph_;
  const std::vector<at::Tensor>& there_;  // of each writer, in the other run
  const WriterEdits& edits_;
  at::Tensor dropped_;  // [reader, writer]: 1 if an edge is not kept
  std::function<void()> at_a_writer_;
  at::Tensor changes_;  // [writer, row, pos, d_model]
};

/// Thrown by a hook to end a run, which has all rows at once and may take long.
struct RunEnded {};

}  // namespace

std::vector<std::int64_t> PartSet::members() const {
  std::vector<std::int64_t> members;
  for (std::size_t part = 0; part < has_.size(); ++part) {
    if (has_[part]) members.push_back(static_cast<std::int64_t>(part));
  }
  return members;
}

PartSet PartSet::complement() const {
  PartSet rest(*this);
  rest.has_.flip();
  return rest;
}

PartSet PartSet::minus(const PartSet& other) const {
  PartSet rest(*this);
  for (std::size_t part = 0; part < has_.size(); ++part) {
    if (other.has_[part]) rest.has_[part] = false;
  }
  return rest;
}

EdgeSpace::EdgeSpace(const HookedTransformer& model)
    : graph_(StreamGraph::of(model)), owners_(graph_.reader_axis.labels.size()) {
  const std::set<ActivationName> beginnings = stream_beginnings(model.config());
  for (const StreamGraph::Writer& writer : graph_.writers) {
    if (beginnings.contains(writer.written.name())) embeddings_.insert(writer.first);
  }
  for (const StreamGraph::Reader& reader : graph_.readers) {
    const ActivationName& name = reader.gradient.name();
    const std::int64_t group = model.config().heads_per_kv(name.layer);
    for (const StreamGraph::Writer& writer : graph_.writers) {
      const ActivationName& own = writer.written.name();
      const bool heads = reader.kind != StreamGraph::Reader::Kind::stream && writer.of_heads &&
                         is_of_cross_attention(own.site) == is_of_cross_attention(name.site);
      const bool mlp = name.site == Site::mlp_in && own.site == Site::mlp_out;
      if (own.stack != name.stack || own.layer != name.layer || (!heads && !mlp)) continue;
      for (std::int64_t i = 0; i < reader.count; ++i) {
        auto& owners = owners_[static_cast<std::size_t>(reader.first + i)];
        const bool shared = heads && reader.count != writer.count;
        for (std::int64_t h = 0; h < (shared ? group : 1); ++h)
          owners.push_back(writer.first + (heads ? (shared ? i * group + h : i) : 0));
      }
    }
  }
}

bool EdgeSpace::is_behind(std::int64_t reader, std::int64_t writer) const {
  bool written = false;  // on the stream that is followed
  for (const StreamGraph::Step& step : graph_.steps) {
    if (step.kind == StreamGraph::Step::Kind::stream) written = false;
    if (step.kind == StreamGraph::Step::Kind::write) {
      const StreamGraph::Writer& own = graph_.writers[step.number];
      written = written || (writer >= own.first && writer < own.first + own.count);
    }
    if (step.kind == StreamGraph::Step::Kind::read) {
      const StreamGraph::Reader& own = graph_.readers[step.number];
      if (reader >= own.first && reader < own.first + own.count) return written;
    }
  }
  return false;
}

KeptParts::KeptParts(const HookedTransformer& model, CircuitKind kind, const SweepOptions& sweep)
    : model_(model), kind_(kind), sweep_(sweep), nodes_(model_parts(model)) {
  if (sweep.site || !sweep.table.empty() || !sweep.over.empty() || sweep.stack != Stack::none ||
      !sweep.partial.empty())
    throw HookError(
        kRunCircuits,
        "circuits say what is left; expected neither `site`, `over`, `table`, `stack` nor `partial`");
  if (sweep.metric.size() != 1)
    throw HookError(kRunCircuits, fmt::format("expected one metric, got {}", sweep.metric.size()));
  require_source(sweep.from, model);
  n_rows_ = SweepInput(model, sweep.into).rows();
  if (kind == CircuitKind::nodes) {
    for (const ModelPart& node : nodes_) names_.push_back(node.name);
    return;
  }
  require_free_of(model.config(), kRunCircuits, obstacles::kCircuitsOfEdges);
  require_free_way(model, sweep.hooks, sweep.edits);
  space_.emplace(model);
  for (std::int64_t writer = 0; writer < static_cast<std::int64_t>(space_->writers().size()); ++writer) {
    for (std::int64_t reader = 0; reader < static_cast<std::int64_t>(space_->readers().size()); ++reader) {
      if (!space_->is_behind(reader, writer)) continue;
      edges_.emplace_back(writer, reader);
      names_.push_back(fmt::format("{} -> {}", space_->writers()[static_cast<std::size_t>(writer)],
                                   space_->readers()[static_cast<std::size_t>(reader)]));
    }
  }
}

PartSet KeptParts::parts_of(const Circuit& circuit) const {
  if (circuit.kind() != kind_)
    throw HookError(kRunCircuits, "the list mixes circuits of nodes and of edges; expected one kind");
  std::set<std::string> wanted;
  if (kind_ == CircuitKind::nodes) {
    wanted.insert(circuit.nodes().begin(), circuit.nodes().end());
  } else {
    for (const CircuitEdge& edge : circuit.edges())
      wanted.insert(fmt::format("{} -> {}", edge.writer, edge.reader));
  }
  PartSet parts(count());
  std::size_t found = 0;
  for (std::int64_t part = 0; part < count(); ++part) {
    if (!wanted.contains(name(part))) continue;
    parts.insert(part);
    ++found;
  }
  if (found != wanted.size())
    throw HookError(kRunCircuits, "the circuit is one of another model; expected names that this one has");
  return parts;
}

SetScores KeptParts::scores(const std::vector<PartSet>& sets) const {
  return kind_ == CircuitKind::nodes ? of_nodes(sets) : of_edges(sets);
}

SetScores KeptParts::of_nodes(const std::vector<PartSet>& sets) const {
  AblationOptions options{.sets = {}, .complement = false, .sweep = sweep_};
  for (const PartSet& kept : sets) {
    std::vector<Address>& ablated = options.sets.emplace_back();
    for (const std::int64_t part : kept.complement().members())
      ablated.push_back(nodes_[static_cast<std::size_t>(part)].place);
  }
  const SweepReport report = ablate_report(model_, options);
  if (!report.failed.empty()) throw HookError(kRunCircuits, report.failed.front().error);
  return {.kept = report.grid.values().view({n_rows_, std::ssize(sets)}),
          .whole = report.unpatched.values().view({n_rows_}),
          .complete = report.complete};
}

SetScores KeptParts::of_edges(const std::vector<PartSet>& sets) const {
  const ThreadLimit limit(sweep_.threads);
  const SweepInput into(model_, sweep_.into);
  const PointIndex& points = model_.points();
  const BoundMetric metric = bound_metrics(model_, sweep_.metric, into.all()).front();
  const StreamGraph& graph = space_->graph();
  std::vector<SweptRow> rows;
  for (std::int64_t row = 0; row < n_rows_; ++row) rows.push_back(into.row(row));
  RunOptions plain = metric.needs({.hooks = sweep_.hooks, .edits = sweep_.edits, .threads = sweep_.threads});
  for (const StreamGraph::Writer& writer : graph.writers)
    plain.capture = plain.capture | Selection(writer.written);
  const RunResult whole = model_.run(into.all(), plain);
  std::vector<at::Tensor> there;
  for (const StreamGraph::Writer& writer : graph.writers) {
    const ActivationName name = points.resolve(writer.written.name());
    for (const SweptRow& row : rows) require_same_columns(sweep_.from, into, {name, Axis::pos}, row);
    there.push_back(whole_values(sweep_.from, name, whole.cache[writer.written], rows));
  }
  const auto n_sets = static_cast<std::int64_t>(sets.size());
  const WriterEdits edits(model_, graph, sweep_.edits, into);
  SetScores scores{.kept = numberless({n_rows_, n_sets}),
                   .whole = metric(whole).detach().to(at::kCPU, at::kDouble)};
  const WorkClock clock;
  for (std::int64_t set = 0; set < n_sets && scores.complete; ++set) {
    // (In a parallel block heads have written when the MLP reads the stream from before them: no such edge.)
    at::Tensor dropped = at::zeros({static_cast<std::int64_t>(space_->readers().size()),
                                    static_cast<std::int64_t>(space_->writers().size())},
                                   at::kFloat);
    auto is_dropped = dropped.accessor<float, 2>();
    for (const std::int64_t part : sets[static_cast<std::size_t>(set)].complement().members()) {
      const auto& [writer, reader] = edges_[static_cast<std::size_t>(part)];
      is_dropped[reader][writer] = 1;
    }
    const auto goes_on = [&](std::int64_t sets_done) {
      return !sweep_.progress || sweep_.progress(clock.at(sets_done * n_rows_, n_sets * n_rows_));
    };
    EdgeRunHooks state(model_, graph, there, edits, dropped.to(model_.device()), [&] {
      if (!goes_on(set)) throw RunEnded();
    });
    RunOptions options =
        metric.needs({.hooks = sweep_.hooks, .edits = edits.others(), .threads = sweep_.threads});
    const Hooks hooks = state.hooks();
    options.hooks.insert(options.hooks.end(), hooks.begin(), hooks.end());
    try {
      scores.kept.select(1, set).copy_(metric(model_.run(into.all(), options)).detach());
      scores.complete = goes_on(set + 1) || set + 1 == n_sets;
    } catch (const RunEnded&) {
      scores.complete = false;
    }
  }
  return scores;
}

}  // namespace hooked
