#include "analysis/stream/stream_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/stream/frozen_norm.h"
#include "analysis/work/obstacles.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

using Graph = StreamGraph;

/// Sorts the events on a model's streams into writers, readers and norms; with two stacks, one stream after
/// the other.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ModelConfig& config) : config_(config) {}

  Graph build() && {
    require_free_of(config_, "edges", obstacles::kEdges);
    graph_.writer_axis.name = "writer";
    graph_.reader_axis.name = "reader";
    for (const Stack stack : stacks_of(config_)) follow(stream_of(config_, stack));
    return std::move(graph_);
  }

 private:
  void follow(const std::vector<StreamStep>& steps) {
    using enum StreamStep::Kind;
    graph_.steps.push_back({Graph::Step::Kind::stream, graph_.writers.size()});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const StreamStep& step = steps[i];
      if (step.kind == write) add_writer(step);
      if (step.kind == scale) add_norm(step);
      if (step.kind == norm) {
        // Readers through latents are carried back past a norm on the stream, to resid_pre
        // (through_latents).
        const bool latents = config_.latent_attention() && steps[i + 1].part == Part::attention;
        if (latents && steps[i + 1].kind == read) add_reader(steps[++i]);
        add_norm(step);
      } else if (step.kind == read) {
        add_reader(step);
      }
    }
  }

  void add_norm(const StreamStep& step) {
    graph_.steps.push_back({Graph::Step::Kind::norm, graph_.norms.size()});
    graph_.norms.push_back(step.point);
  }

  void add_writer(const StreamStep& step) {
    GridAxis& axis = graph_.writer_axis;
    const std::vector<StreamWriter> parts = writers_of(config_, step);
    Graph::Writer writer{Address(step.of_heads() ? step.of_attention(Site::z) : step.point), step.of_heads(),
                         std::nullopt, std::ssize(axis.labels), std::ssize(parts)};
    if (writer.of_heads && !step.through.empty()) writer.norm = step.through.front();
    graph_.steps.push_back({Graph::Step::Kind::write, graph_.writers.size()});
    graph_.writers.push_back(std::move(writer));
    for (const StreamWriter& part : parts) {
      axis.labels.push_back(part.label);
      axis.places.emplace_back(part.place);
    }
  }

  void add_reader(Graph::Reader reader, const std::vector<std::string>& labels,
                  const std::vector<Address>& places) {
    GridAxis& axis = graph_.reader_axis;
    reader.first = std::ssize(axis.labels);
    reader.count = std::ssize(labels);
    graph_.steps.push_back({Graph::Step::Kind::read, graph_.readers.size()});
    graph_.readers.push_back(std::move(reader));
    axis.labels.insert(axis.labels.end(), labels.begin(), labels.end());
    axis.places.insert(axis.places.end(), places.begin(), places.end());
  }
  void add_reader(const Address& place, const std::string& label) {
    add_reader({Graph::Reader::Kind::stream, place, std::nullopt, 0, 0}, {label}, {place});
  }

  void add_reader(const StreamStep& step) {
    using enum Graph::Reader::Kind;
    if (step.reads_end()) {
      if (step.part == Part::unembedding) return add_reader(Address(step.point), step.label());
      // Cross-attention of every layer reads the end of the encoder's stream.
      for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
        StreamStep own = step;
        own.stack = config_.main_stack();
        own.point = {.site = Site::cross_attn_in, .stack = config_.main_stack(), .layer = layer};
        for (const auto kind : {keys, values}) add_heads(kind, own);
      }
      return;
    }
    if (!step.of_heads()) return add_reader(Address(step.point), in_stack(step.label(), step.stack));
    add_heads(queries, step);
    if (step.part == Part::cross_attention) return;
    for (const auto kind : {keys, values}) add_heads(kind, step);
  }

  /// Queries, keys or values of a layer, one reader per head.
  void add_heads(Graph::Reader::Kind kind, const StreamStep& step) {
    const bool of_queries = kind == Graph::Reader::Kind::queries;
    const Site site = of_queries ? Site::q : kind == Graph::Reader::Kind::keys ? Site::k : Site::v;
    const Address heads(step.of_attention(site));
    const std::int64_t count = of_queries ? config_.n_heads : config_.kv_heads(step.point.layer);
    const bool shared = count != config_.n_heads;
    std::vector<std::string> labels;
    std::vector<Address> places;
    for (std::int64_t head = 0; head < count; ++head) {
      const std::string label =
          fmt::format("{} {}", step.part_label(shared ? "kv head" : "head", head), row(site).word);
      labels.push_back(in_stack(label, step.stack));
      places.push_back(heads.head(head));
    }
    std::optional<ActivationName> norm;
    if (!step.through.empty()) norm = step.through.front();
    add_reader({kind, heads, norm, 0, 0}, labels, places);
  }

  const ModelConfig& config_;
  Graph graph_;
};

}  // namespace

bool is_of_cross_attention(Site site) {
  return site == Site::cross_q || site == Site::cross_k || site == Site::cross_v || site == Site::cross_z;
}

WeightView weights_around(const HookedTransformer& model, const ActivationName& name) {
  if (is_of_cross_attention(name.site)) return model.weights().cross_attention();
  return name.stack == Stack::encoder ? model.weights().encoder() : model.weights();
}

StreamGraph StreamGraph::of(const HookedTransformer& model) { return GraphBuilder(model.config()).build(); }

std::vector<ActivationName> StreamGraph::differentiated() const {
  std::vector<ActivationName> names;
  for (const Reader& reader : readers) names.push_back(reader.gradient.name());
  return names;
}

std::vector<ActivationName> StreamGraph::kept(const HookedTransformer& model) const {
  const ModelConfig& config = model.config();
  std::vector<ActivationName> names;
  const auto keep = [&](const ActivationName& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  const auto keep_norm = [&](const ActivationName& normalized) {
    if (normalized.site == Site::resid_sum) return;  // a weight is enough
    const StreamNorm norm = stream_norm_at(model, normalized);
    keep(norm.scale);
    keep(norm.normalized);
  };
  for (const Writer& writer : writers) {
    keep(writer.written.name());
    if (writer.norm) keep_norm(*writer.norm);
  }
  for (const ActivationName& norm : norms) keep_norm(norm);
  for (const Reader& reader : readers) {
    if (reader.norm) keep_norm(*reader.norm);
    const ActivationName& name = reader.gradient.name();
    if (config.latent_attention() && reader.kind != Reader::Kind::stream)
      keep({.site = Site::resid_pre, .stack = name.stack, .layer = name.layer});
  }
  return names;
}

}  // namespace hooked
