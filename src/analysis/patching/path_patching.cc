#include "hooked/analysis/path_patching.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "analysis/patching/path_sets.h"
#include "analysis/patching/sweep_grid.h"
#include "analysis/places/row_columns.h"
#include "analysis/work/as_memory_allows.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

constexpr const char* kPathPatching = "path_patching";

/// Paths as cells.
class PatchedPaths : public std::enable_shared_from_this<PatchedPaths> {
 public:
  PatchedPaths(const HookedTransformer& model, const PathPatchingOptions& options, const SweepInput& into)
      : config_(model.config()),
        points_(config_),
        sets_(config_, options),
        device_(model.device()),
        into_(into),
        options_(options) {}

  CellPlan plan() const;

 private:
  using Set = PathSets::Set;

  CellPatches patches(const Set& sender_sets, const PatchedRuns& runs, SweptRow row) const;
  /// What some sets of senders send, one row per set, and what stays as it is.
  struct Sent {
    const PatchedRuns& runs;
    std::map<ActivationName, SourceReader>& readers;  ///< of the values that senders get
    std::int64_t rows;
    std::optional<std::int32_t> first;               ///< as from sets_.first_layer()
    std::map<ActivationName, at::Tensor> held = {};  ///< activations that are given whole, for all rows
    Edits edits = {};                                ///< for others, only what is sent

    /// A held activation; it has the run's own values until something is written there.
    at::Tensor& rows_of(const ActivationName& name);
  };
  /// Stores what a sender sends in the i-th row.
  void send(Sent& sent, std::int64_t i, const PathSender& sender, SweptRow row) const;
  /// The receivers' new values.
  ActivationCache reach(Sent sent) const;
  /// The new values of some receivers in the i-th row, as a patch.
  Patch received(const Set& receivers, const ActivationCache& seen, std::int64_t i,
                 std::optional<std::int32_t> first) const;
  /// What distinguishes these paths from others.
  std::string record() const;
  /// A block of what a sender writes, and its new value.
  struct SentBlock {
    AxisIndices indices;
    at::Tensor value;
  };
  std::vector<SentBlock> blocks(const PathSender& sender, const SourceReader& from, SweptRow row) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> columns(const ActivationName& name, SweptRow row) const;

  ModelConfig config_;
  PointIndex points_;
  PathSets sets_;
  c10::Device device_;
  SweepInput into_;
  PathPatchingOptions options_;
};

/// Where senders are patched, in `into` and in `from`; empty: everywhere.
std::vector<std::pair<std::int64_t, std::int64_t>> PatchedPaths::columns(const ActivationName& name,
                                                                         SweptRow row) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  const TokenColumns here = into_.columns(config_.has_encoder() && counts_source(name, Axis::pos));
  const auto from = SourceReader::columns(options_.sweep.from, {name, Axis::pos}, row);
  for (const SweptPlace& place : options_.positions) all.push_back(columns_of_place(place, row, here, from));
  return all;
}

std::vector<PatchedPaths::SentBlock> PatchedPaths::blocks(const PathSender& sender, const SourceReader& from,
                                                          SweptRow row) const {
  std::vector<SentBlock> blocks;
  const auto add = [&](PatchedPlace place) {
    for (const auto& [axis, index] : sender.place.indices().entries()) {
      place.into.add(axis, index);
      place.from.add(axis, index);
    }
    const at::Tensor value = from.block(place);
    blocks.push_back({std::move(place.into), value});
  };
  if (options_.positions.empty()) add({});
  for (const auto& [into, there] : columns(sender.place.name(), row)) {
    PatchedPlace place;
    place.into.add(Axis::pos, into);
    place.from.add(Axis::pos, there);
    add(std::move(place));
  }
  return blocks;
}

at::Tensor& PatchedPaths::Sent::rows_of(const ActivationName& name) {
  const auto found = held.find(name);
  if (found != held.end()) return found->second;
  const at::Tensor unpatched = runs.value(name);
  std::vector<std::int64_t> sizes = unpatched.sizes().vec();
  sizes.front() = rows;
  return held.emplace(name, unpatched.expand(sizes).clone()).first->second;
}

void PatchedPaths::send(Sent& sent, std::int64_t i, const PathSender& sender, SweptRow row) const {
  const ActivationName& name = sender.place.name();
  const auto reader =
      sent.readers.try_emplace(name, options_.sweep.from, name, sent.runs.value(name), row).first;
  const bool frozen = sets_.is_frozen(name);
  // What a resumed run begins with is given for all rows.
  const bool held = frozen || (sent.first && sender.begins_stream);
  for (const auto& [indices, value] : blocks(sender, reader->second, row)) {
    if (held) {
      const std::string where = sender.place.to_string();
      write_block(sent.rows_of(name).narrow(0, i, 1), indices, {name.site, where, {}}, value);
      continue;
    }
    Address place = Address(name).row(AxisIndex::Range{i, i + 1});
    for (const auto& [axis, index] : indices.entries()) place = place.at(axis, index);
    sent.edits.push_back(set(place, value));
  }
}

ActivationCache PatchedPaths::reach(Sent sent) const {
  for (const ActivationName& name : sets_.frozen()) {
    if (!sent.first || (sets_.in_main_blocks(name) && name.layer >= *sent.first)) sent.rows_of(name);
  }
  at::Tensor stream;
  if (sent.first) {
    const ActivationName entry = points_.resolve(act::resid_pre(*sent.first).name());
    stream = sent.rows_of(entry);
    sent.held.erase(entry);
  }
  for (const auto& [name, value] : sent.held) sent.edits.push_back(set(Address(name), value));
  Selection reached;
  for (const Address& receiver : sets_.receivers()) {
    if (sets_.is_behind(receiver, sent.first)) reached = reached | Selection(receiver.name());
  }
  if (reached.empty()) return {};
  return sent.first ? sent.runs.resume(*sent.first, stream, std::move(sent.edits), reached)
                    : sent.runs.whole(sent.rows, std::move(sent.edits), reached);
}

Patch PatchedPaths::received(const Set& receivers, const ActivationCache& seen, std::int64_t i,
                             std::optional<std::int32_t> first) const {
  Patch patch;
  for (const std::size_t number : receivers) {
    const Address& receiver = sets_.receivers()[number];
    if (!sets_.is_behind(receiver, first)) continue;
    const std::string where = receiver.to_string();
    const at::Tensor own = seen[Address(receiver.name())].narrow(0, i, 1);
    patch.push_back({receiver, take_block(own, receiver.indices(), {receiver.name().site, where, {}})});
  }
  return patch;
}

CellPatches PatchedPaths::patches(const Set& sender_sets, const PatchedRuns& runs, SweptRow row) const {
  CellPatches made;
  std::map<ActivationName, SourceReader> readers;
  const std::int64_t most = std::max<std::int64_t>(1, options_.sweep.tokens_per_run / into_.all().length());
  const auto count = static_cast<std::int64_t>(sender_sets.size());
  const auto first =
      sets_.first_layer(sets_.sender_sets()[sender_sets.front()]);  // the same for all of these sets
  as_memory_allows(device_, kPathPatching, count, most, [&](std::int64_t begin, std::int64_t end) {
    const auto senders = [&](std::int64_t i) { return sender_sets[static_cast<std::size_t>(begin + i)]; };
    Sent sent{.runs = runs, .readers = readers, .rows = end - begin, .first = first};
    for (std::int64_t i = 0; i < sent.rows; ++i) {
      for (const std::size_t number : sets_.sender_sets()[senders(i)])
        send(sent, i, sets_.senders()[number], row);
    }
    const ActivationCache seen = reach(std::move(sent));
    for (std::int64_t i = 0; i < end - begin; ++i) {
      for (std::size_t set = 0; set < sets_.receiver_sets().size(); ++set) {
        if (!sets_.leads(sets_.sender_sets()[senders(i)], sets_.receiver_sets()[set])) continue;
        made.cells.push_back(static_cast<std::int64_t>(senders(i) * sets_.receiver_sets().size() + set));
        made.patches.push_back(received(sets_.receiver_sets()[set], seen, i, first));
      }
    }
  });
  return made;
}

namespace {

/// The end of a path as edges are named: `head 0.2`, `head 1.3 q`, `mlp 1`, `logits`. Everything else is its
/// word and layer: `z 0`.
std::string end_label(const ModelConfig& config, const Address& place) {
  for (const StreamWriter& writer : sublayers(config)) {
    if (writer.place == place) return writer.label;
  }
  const ActivationName name = place.name();
  if (name == end_of_stream(config)) return "logits";
  std::string_view word = row(name.site).word;
  const bool crosses = word.starts_with("cross_");
  if (crosses) word.remove_prefix(std::string_view("cross_").size());
  std::string label = crosses ? "cross " : "";
  if (place.indices().empty()) {
    label += name.site == Site::mlp_in ? "mlp" : std::string(word);
    if (name.layer >= 0) label += fmt::format(" {}", name.layer);
  } else {
    const bool shared =
        axis_on(name.site, Axis::head) == Axis::kv_head && config.kv_heads(name.layer) != config.n_heads;
    const auto& [axis, head] = place.indices().entries().front();
    label += fmt::format("{} {}.{} {}", shared ? "kv head" : "head", name.layer, head.to_string(), word);
  }
  return in_stack(label, name.stack);
}

/// An axis with one place per address.
GridAxis axis_of_ends(const char* name, const ModelConfig& config, const std::vector<Address>& places) {
  GridAxis axis{.name = name, .labels = {}, .places = {}};
  for (const Address& place : places) {
    axis.labels.push_back(end_label(config, place));
    axis.places.emplace_back(place);
  }
  return axis;
}

}  // namespace

std::string PatchedPaths::record() const {
  std::vector<std::string> texts;
  for (const PathSender& sender : sets_.senders()) texts.push_back(sender.place.to_string());
  texts.emplace_back("to");
  for (const Address& receiver : sets_.receivers()) texts.push_back(receiver.to_string());
  for (const SweptPlace& place : options_.positions)
    texts.push_back(fmt::format("{}<-{}", place.into.label(), place.from.label()));
  return fmt::format("paths {} {} {}", static_cast<int>(options_.through), static_cast<int>(options_.cells),
                     fmt::join(texts, " "));
}

CellPlan PatchedPaths::plan() const {
  CellPlan plan{.patched = sets_.frozen(), .title = "Patching paths", .record = record()};
  std::vector<Address> senders;
  for (const PathSender& sender : sets_.senders()) senders.push_back(sender.place);
  if (options_.cells == PathCells::each_sender || options_.cells == PathCells::each)
    plan.axes.push_back(axis_of_ends("sender", config_, senders));
  if (options_.cells == PathCells::each_receiver || options_.cells == PathCells::each)
    plan.axes.push_back(axis_of_ends("receiver", config_, sets_.receivers()));
  const auto keep = [&](const ActivationName& name) {
    if (std::find(plan.patched.begin(), plan.patched.end(), name) == plan.patched.end())
      plan.patched.push_back(name);
  };
  for (const PathSender& sender : sets_.senders()) keep(sender.place.name());
  for (const Address& receiver : sets_.receivers()) keep(receiver.name());

  const auto self = shared_from_this();
  plan.check = [self](SweptRow row) {
    for (const PathSender& sender : self->sets_.senders()) {
      const ActivationName& name = sender.place.name();
      if (self->options_.positions.empty())
        require_same_columns(self->options_.sweep.from, self->into_, {name, Axis::pos}, row);
      self->columns(name, row);
    }
  };
  // Sets that begin in the same layer are rows of one run.
  std::map<std::optional<std::int32_t>, Set> by_layer;
  for (std::size_t set = 0; set < sets_.sender_sets().size(); ++set)
    by_layer[sets_.first_layer(sets_.sender_sets()[set])].push_back(set);
  const auto n_receivers = static_cast<std::int64_t>(sets_.receiver_sets().size());
  for (const auto& [layer, sets] : by_layer) {
    std::vector<std::int64_t> cells;
    for (const std::size_t set : sets) {
      for (std::int64_t receiver = 0; receiver < n_receivers; ++receiver)
        cells.push_back(static_cast<std::int64_t>(set) * n_receivers + receiver);
    }
    plan.groups.push_back({std::move(cells), [self, own = sets](const PatchedRuns& runs, SweptRow row) {
                             return self->patches(own, runs, row);
                           }});
  }
  return plan;
}

SweepReport report_of(const HookedTransformer& model, const PathPatchingOptions& options,
                      OnFailure on_failure) {
  const SweepOptions& sweep = options.sweep;
  require_own_places(sweep, kPathPatching, "senders and receivers say what is patched");
  const SweepInput into(model, sweep.into);
  return swept(model, sweep, into, std::make_shared<const PatchedPaths>(model, options, into)->plan(),
               on_failure);
}

}  // namespace

Grid path_patching(const HookedTransformer& model, const PathPatchingOptions& options) {
  return report_of(model, options, OnFailure::throws).grid;
}

SweepReport path_patching_report(const HookedTransformer& model, const PathPatchingOptions& options) {
  return report_of(model, options, OnFailure::is_listed);
}

}  // namespace hooked
