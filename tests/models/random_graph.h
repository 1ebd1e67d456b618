#pragma once

#include <c10/core/GradMode.h>

#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/point_index.h"
#include "models/storage/workspace.h"
#include "models/transformer/transformer.h"
#include "tests/support/tiny_config.h"

namespace hooked {

/// 2 layers, 4 heads, d_model 8, 9 tokens.
inline ModelConfig graph_config() {
  return tiny_config({.n_layers = 2, .d_model = 8, .d_head = 6, .d_mlp = 10});
}

/// A module graph with random weights, run without an engine.
struct RandomGraph {
  explicit RandomGraph(ModelConfig model_config, std::uint64_t seed = 1)
      : config(std::move(model_config)),
        points(config),
        graph(config, points, at::TensorOptions(config.dtype)) {
    const at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(seed);
    for (WeightSlot& slot : graph.slots()) {
      slot.view.write(at::rand(slot.view.sizes(), generator, at::TensorOptions(at::kDouble)) * 1.2 - 0.6);
      if (slot.name.ends_with(".w")) slot.view.pieces().add_(1.0);
    }
  }
  RandomGraph(const RandomGraph&) = delete;
  RandomGraph& operator=(const RandomGraph&) = delete;

  struct Outcome {
    at::Tensor logits;
    ActivationCache cache;
  };
  /// What a run is given: captures, edits, a mask, and what earlier runs left.
  struct Request {
    Selection capture = {};
    std::vector<Edit> edits = {};
    at::Tensor attention_mask = {};
    std::shared_ptr<const KvCache> prefix = nullptr;
    KvCache* cache = nullptr;
  };

  Outcome run(const at::Tensor& tokens, const Request& request) const {
    const at::NoGradGuard no_grad;
    const Reach reach = Reach::everything(points);
    auto plan = std::make_shared<WatchPlan>(points, reach);
    for (const Edit& edit : request.edits) plan->add_edit(edit);
    plan->add_capture(request.capture);
    Run run{.watch = Watch(std::move(plan), {}),
            .sequence = Sequence(config, Stack::blocks,
                                 {tokens.size(0), tokens.size(1), request.attention_mask, at::kCPU,
                                  request.prefix, nullptr, request.cache}),
            .workspace = &workspace};
    Outcome outcome{graph.forward({.tokens = tokens}, reach, run), {}};
    outcome.cache = run.watch.take_cache();
    return outcome;
  }
  /// Every point of a run on random tokens [batch 2, pos 6].
  ActivationCache everything() const { return run(tokens(), {.capture = act::everything}).cache; }
  at::Tensor tokens() const {
    return at::randint(config.d_vocab, {2, 6}, at::detail::createCPUGenerator(3),
                       at::TensorOptions(at::kLong));
  }
  /// A weight by its state-dict name.
  at::Tensor weight(const std::string& name) const {
    for (const WeightSlot& slot : graph.slots()) {
      if (slot.name == name) return slot.view.read();
    }
    ADD_FAILURE() << "no weight " << name;
    return {};
  }

  const ModelConfig config;
  const PointIndex points;
  Transformer graph;
  Workspace workspace;
};

}  // namespace hooked
