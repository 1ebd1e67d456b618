#include "analysis/edge_walk.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/cell_estimates.h"
#include "analysis/gradient_run.h"
#include "analysis/stream_path.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

using Graph = StreamGraph;

bool has_output_norm(const ModelConfig& config) {
  return config.norm != NormKind::none &&
         (config.norm_place == NormPlace::output || config.norm_place == NormPlace::both);
}

bool reads_through_norm(const ModelConfig& config) {
  return config.norm != NormKind::none &&
         (config.norm_place == NormPlace::pre || config.norm_place == NormPlace::both);
}

/// Follows the stream from the embedding to its end.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ModelConfig& config) : config_(config), stack_(config.main_stack()) {}

  Graph build() && {
    graph_.writer_axis.name = "writer";
    graph_.reader_axis.name = "reader";
    embedding();
    for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) block(layer);
    const ActivationName end = end_of_stream(config_);
    read(Graph::Reader::Kind::stream, end, {"logits"}, {Address(end)});
    return std::move(graph_);
  }

 private:
  void write(const Address& written, bool of_heads, const std::vector<std::string>& labels,
             const std::vector<Address>& places) {
    GridAxis& axis = graph_.writer_axis;
    graph_.steps.push_back({Graph::Step::Kind::write, graph_.writers.size()});
    graph_.writers.push_back({written, of_heads, static_cast<std::int64_t>(axis.labels.size()),
                              static_cast<std::int64_t>(labels.size())});
    axis.labels.insert(axis.labels.end(), labels.begin(), labels.end());
    axis.places.insert(axis.places.end(), places.begin(), places.end());
  }
  void write(const Address& part, std::string label) { write(part, false, {std::move(label)}, {part}); }

  void read(Graph::Reader::Kind kind, const Address& gradient, const std::vector<std::string>& labels,
            const std::vector<Address>& places) {
    GridAxis& axis = graph_.reader_axis;
    graph_.steps.push_back({Graph::Step::Kind::read, graph_.readers.size()});
    graph_.readers.push_back({kind, gradient, static_cast<std::int64_t>(axis.labels.size()),
                              static_cast<std::int64_t>(labels.size())});
    axis.labels.insert(axis.labels.end(), labels.begin(), labels.end());
    axis.places.insert(axis.places.end(), places.begin(), places.end());
  }

  void norm(ActivationName normalized) {
    graph_.steps.push_back({Graph::Step::Kind::norm, graph_.norms.size()});
    graph_.norms.push_back(normalized);
  }
  void norm(Site normalized, std::int32_t layer) {
    norm({.site = normalized, .stack = stack_, .layer = layer});
  }

  Address in(const act::BlockSite& site, std::int32_t layer) const { return site.in(stack_, layer); }

  void embedding() {
    if (!config_.embedding_sum_norm) {
      write(act::embed, "embed");
      if (config_.learned_positions()) write(act::pos_embed, "pos_embed");
      return;
    }
    write(act::token_embed, "embed");
    if (config_.learned_positions()) write(act::position_embed, "pos_embed");
    if (config_.token_types > 0) write(act::token_type_embed, "token_type_embed");
    norm({.site = Site::embed_ln_normalized});
  }

  void read_attention(std::int32_t layer) {
    struct Branch {
      Graph::Reader::Kind kind;
      act::BlockSite site;
      char letter;
    };
    for (const Branch& branch :
         {Branch{Graph::Reader::Kind::queries, act::q, 'q'}, Branch{Graph::Reader::Kind::keys, act::k, 'k'},
          Branch{Graph::Reader::Kind::values, act::v, 'v'}}) {
      const bool queries = branch.kind == Graph::Reader::Kind::queries;
      const bool shared = !queries && config_.n_kv_heads != config_.n_heads;
      std::vector<std::string> labels;
      std::vector<Address> places;
      for (std::int64_t head = 0; head < (queries ? config_.n_heads : config_.n_kv_heads); ++head) {
        labels.push_back(fmt::format("{}head {}.{} {}", shared ? "kv " : "", layer, head, branch.letter));
        places.push_back(in(branch.site, layer).head(head));
      }
      read(branch.kind, in(branch.site, layer), labels, places);
    }
  }
  void read_mlp(std::int32_t layer) {
    read(Graph::Reader::Kind::stream, in(act::mlp_in, layer), {fmt::format("mlp {}", layer)},
         {in(act::mlp_in, layer)});
  }
  void write_attention(std::int32_t layer) {
    std::vector<std::string> labels;
    std::vector<Address> places;
    for (std::int64_t head = 0; head < config_.n_heads; ++head) {
      labels.push_back(fmt::format("head {}.{}", layer, head));
      places.push_back(in(act::z, layer).head(head));
    }
    write(in(act::z, layer), true, labels, places);
  }
  void write_mlp(std::int32_t layer) { write(in(act::mlp_out, layer), fmt::format("mlp {}", layer)); }

  void block(std::int32_t layer) {
    const bool on_stream = config_.norms_stream();
    const bool post = on_stream && config_.norm_place == NormPlace::post;
    const bool parallel = config_.parallel() && config_.has_mlp();
    if (on_stream && !post) norm(Site::ln1_normalized, layer);
    read_attention(layer);
    if (parallel) read_mlp(layer);
    write_attention(layer);
    if (post) norm(Site::ln1_normalized, layer);
    if (!config_.has_mlp()) return;
    if (!parallel) {
      if (on_stream && !post) norm(Site::ln2_normalized, layer);
      read_mlp(layer);
    }
    write_mlp(layer);
    if (post) norm(Site::ln2_normalized, layer);
  }

  const ModelConfig& config_;
  Stack stack_;
  Graph graph_;
};

/// Carries what was written along the stream, and reads it.
class EdgeWalk {
 public:
  EdgeWalk(const EdgeRun& run, const std::vector<at::Tensor>& deltas)
      : run_(run), config_(run.model.config()), deltas_(deltas) {}

  at::Tensor walk() {
    const auto writers = static_cast<std::int64_t>(run_.graph.writer_axis.labels.size());
    const auto readers = static_cast<std::int64_t>(run_.graph.reader_axis.labels.size());
    const at::Tensor& first = deltas_.front();  // [row, pos, d_model]
    const std::int64_t rows = first.size(0), columns = first.size(1);
    std::vector<std::int64_t> sizes{rows, writers, readers};
    if (run_.by_position) sizes.push_back(columns);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    edges_ = at::full(sizes, nan, first.options().dtype(at::kDouble));
    written_ = at::empty({writers, rows, columns, config_.d_model}, float32_at_least(first).options());
    for (const Graph::Step& step : run_.graph.steps) {
      if (step.kind == Graph::Step::Kind::write) write(step.number);
      if (step.kind == Graph::Step::Kind::read) read(run_.graph.readers[step.number]);
      if (step.kind == Graph::Step::Kind::norm && count_ > 0) {
        const at::Tensor all = written_.narrow(0, 0, count_);
        all.copy_(norm_at(run_.graph.norms[step.number]).of(all));
      }
    }
    return edges_.to(at::kCPU);
  }

 private:
  at::Tensor value(const Address& address) const {
    return float32_at_least(run_.values[address]).to(written_.scalar_type());
  }
  at::Tensor as_here(const at::Tensor& weight) const {
    return weight.defined() ? weight.to(written_.options()) : weight;
  }

  FrozenNorm norm_at(const ActivationName& normalized) const {
    const StreamNorm norm = stream_norm_at(run_.model, normalized);
    return {.centres = norm.centres(),
            .scale = value(Address(norm.scale)),
            .weight = as_here(norm.weight),
            .normalized = run_.norms_held ? at::Tensor() : value(Address(norm.normalized))};
  }

  void write(std::size_t number) {
    const Graph::Writer& writer = run_.graph.writers[number];
    const at::Tensor to = written_.narrow(0, writer.first, writer.count);
    const at::Tensor delta = float32_at_least(deltas_[number]).to(written_.scalar_type());
    if (!writer.of_heads) {
      to[0].copy_(delta);
    } else {
      const ActivationName& z = writer.written.name();
      const at::Tensor W_O = as_here(run_.model.weights().W_O(z.layer));  // [head, d_value, d_model]
      const at::Tensor heads = at::einsum("rphw,hwm->hrpm", {delta, W_O});
      to.copy_(
          has_output_norm(config_)
              ? norm_at({.site = Site::ln1_post_normalized, .stack = z.stack, .layer = z.layer}).of(heads)
              : heads);
    }
    count_ = writer.first + writer.count;
  }

  void read(const Graph::Reader& reader) {
    const at::Tensor directions = this->directions(reader);  // [row, pos, reader, d_model]
    const at::Tensor before = written_.narrow(0, 0, count_);
    const at::Tensor numbers =
        at::einsum(run_.by_position ? "urpm,rpnm->runp" : "urpm,rpnm->run", {before, directions});
    edges_.narrow(1, 0, count_).narrow(2, reader.first, reader.count).copy_(numbers);
  }

  at::Tensor directions(const Graph::Reader& reader) const {
    const at::Tensor gradient = float32_at_least(run_.gradients[reader.gradient]).to(written_.scalar_type());
    if (reader.kind == Graph::Reader::Kind::stream) return gradient.unsqueeze(2);
    const ActivationName& name = reader.gradient.name();
    if (config_.latent_attention()) return through_latents(reader, gradient);
    const WeightView weights = run_.model.weights();
    const at::Tensor weight = reader.kind == Graph::Reader::Kind::queries ? weights.W_Q(name.layer)
                              : reader.kind == Graph::Reader::Kind::keys  ? weights.W_K(name.layer)
                                                                          : weights.W_V(name.layer);
    const at::Tensor read = at::einsum("rphd,hmd->rphm", {gradient, as_here(weight)});
    if (!reads_through_norm(config_)) return read;
    return norm_at({.site = Site::ln1_normalized, .stack = name.stack, .layer = name.layer}).before(read);
  }

  /// Between the stream and queries, keys and values stand norms of latents: the model itself says what
  /// reaches the stream, in runs of its layer with a head for each row.
  at::Tensor through_latents(const Graph::Reader& reader, const at::Tensor& gradient) const {
    const ActivationName& name = reader.gradient.name();
    const Address stream = act::resid_pre.in(name.stack, name.layer);
    const at::Tensor before = run_.values[stream];
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
          run_.model.run(from_stream(run_.input, name.layer, before), options).gradients[stream]));
    }
    return at::stack(heads, 2).to(gradient.scalar_type());
  }

  const EdgeRun& run_;
  const ModelConfig& config_;
  const std::vector<at::Tensor>& deltas_;
  at::Tensor written_;      // [writer, row, pos, d_model]: as it stands in the stream now
  std::int64_t count_ = 0;  // of the writers so far
  at::Tensor edges_;
};

}  // namespace

StreamGraph StreamGraph::of(const HookedTransformer& model, const char* where) {
  if (model.config().has_encoder()) {
    throw HookError(where, "edges between two stacks are not there; expected a model with one stack");
  }
  return GraphBuilder(model.config()).build();
}

std::vector<ActivationName> StreamGraph::differentiated() const {
  std::vector<ActivationName> names;
  for (const Reader& reader : readers) names.push_back(reader.gradient.name());
  return names;
}

std::vector<ActivationName> StreamGraph::kept(const HookedTransformer& model) const {
  const ModelConfig& config = model.config();
  std::vector<ActivationName> names;
  const auto keep_norm = [&](const ActivationName& normalized) {
    const StreamNorm norm = stream_norm_at(model, normalized);
    names.insert(names.end(), {norm.scale, norm.normalized});
  };
  for (const Writer& writer : writers) names.push_back(writer.written.name());
  for (const ActivationName& norm : norms) keep_norm(norm);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    const auto in_block = [&](Site site) {
      return ActivationName{.site = site, .stack = config.main_stack(), .layer = layer};
    };
    if (reads_through_norm(config)) keep_norm(in_block(Site::ln1_normalized));
    if (has_output_norm(config)) keep_norm(in_block(Site::ln1_post_normalized));
    if (config.latent_attention()) names.push_back(in_block(Site::resid_pre));
  }
  return names;
}

at::Tensor edges_of(const EdgeRun& run, const std::vector<at::Tensor>& deltas) {
  return EdgeWalk(run, deltas).walk();
}

}  // namespace hooked
