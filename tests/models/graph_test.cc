#include "models/graph/graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/weight_table.h"
#include "hooks/hook_point.h"
#include "tests/models/random_graph.h"
#include "tests/reference/option_table.h"
#include "tests/reference/pairwise.h"
#include "tests/support/random_config.h"

namespace hooked::graph_test {
namespace {

constexpr std::uint64_t kRandomConfigs = 150;

std::map<std::string, std::size_t> registered_points(const Transformer& graph) {
  std::map<std::string, std::size_t> points;
  for (const auto& item : graph.named_modules("", /*include_self=*/false)) {
    if (const auto* point = dynamic_cast<const HookPoint*>(item.value().get()))
      points[item.key()] = point->number();
  }
  return points;
}

/// Random models of one stack, and encoder-decoders.
std::vector<ModelConfig> configs() {
  std::vector<ModelConfig> configs = reference::two_stack_configs();
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) configs.push_back(random_config(seed));
  return configs;
}

TEST(Graph, EveryHookPointsPathIsItsTableRow) {
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE(reference::describe({.config = config}));
    const PointIndex points(config);
    const Transformer graph(config, points, at::TensorOptions(at::kFloat).device(at::kMeta));
    const auto registered = registered_points(graph);
    EXPECT_EQ(registered.size(), points.size());
    for (const auto& [path, number] : registered) {
      ASSERT_LT(number, points.size()) << path;
      EXPECT_EQ(path, points.name(number).to_string());
    }
  }
}

TEST(Graph, SlotsCoverEveryParameterOnce) {
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE(reference::describe({.config = config}));
    const PointIndex points(config);
    const Transformer graph(config, points, at::TensorOptions(at::kFloat).device(at::kMeta));
    std::int64_t held = 0, listed = 0;
    std::set<const void*> seen;
    for (const auto& parameter : graph.parameters()) {
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) held += parameter.numel();
    }
    std::set<std::string> names;
    for (const WeightSlot& slot : graph.slots()) {
      EXPECT_TRUE(names.insert(slot.name).second) << slot.name;
      listed += slot.view.pieces().numel();
    }
    EXPECT_EQ(listed, held);
    EXPECT_EQ(listed, config.parameter_count());
  }
}

// The modules know where weights are stored, the table which exist: both list the same names and shapes.
void expect_slots_of_the_table(const ModelConfig& config) {
  const PointIndex points(config);
  const Transformer graph(config, points, at::TensorOptions(at::kFloat).device(at::kMeta));
  std::map<std::string, std::vector<std::int64_t>> slots, rows;
  for (const WeightSlot& slot : graph.slots()) slots[slot.name] = slot.view.sizes();
  for (const WeightPart& part : weight_parts(config)) {
    for_each_weight(config, part, [&](const WeightRow& row, const std::string& local_name) {
      const std::string name = weight_name(part, local_name, config);
      EXPECT_TRUE(rows.emplace(name, weight_shape(row, config, part)).second) << name;
      EXPECT_EQ(find_weight_row(name), &row) << name;
      EXPECT_EQ(find_weight_row(local_name), &row) << local_name;
    });
  }
  EXPECT_EQ(slots, rows);
}

void expect_dtypes_of_the_table(ModelConfig config) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    config.dtype = dtype;
    const PointIndex points(config);
    const Transformer graph(config, points, at::TensorOptions(dtype).device(at::kMeta));
    for (const WeightSlot& slot : graph.slots()) {
      const WeightRow* row = find_weight_row(slot.name);
      EXPECT_EQ(slot.view.dtype(), weight_dtype(*row, config)) << slot.name;
    }
  }
}

TEST(Graph, WeightsHaveTheDtypesOfTheTable) {
  for (const ModelConfig& config : configs()) expect_dtypes_of_the_table(config);
}

TEST(Graph, SlotsAreThoseOfTheTableOfWeights) {
  for (const ModelConfig& config : configs()) {
    SCOPED_TRACE(reference::describe({.config = config}));
    expect_slots_of_the_table(config);
  }
  for (const reference::Case& pair : reference::pairwise_cover().cases) {
    SCOPED_TRACE(reference::describe(pair));
    expect_slots_of_the_table(pair.config);
  }
}

TEST(Graph, SlotsAreViewsOfTheParameters) {
  const RandomGraph graph(graph_config());
  std::set<const void*> storages;
  for (const auto& parameter : graph.graph.parameters()) storages.insert(parameter.storage().data());
  for (const WeightSlot& slot : graph.graph.slots()) {
    EXPECT_TRUE(storages.contains(slot.view.pieces().storage().data())) << slot.name;
  }
  EXPECT_EQ(graph.weight("blocks.0.attn.W_Q").sizes(), (at::IntArrayRef{4, 8, 6}));
  EXPECT_EQ(graph.weight("blocks.1.attn.W_O").sizes(), (at::IntArrayRef{4, 6, 8}));
  EXPECT_EQ(graph.weight("blocks.1.mlp.W_in").sizes(), (at::IntArrayRef{8, 10}));
  EXPECT_EQ(graph.weight("unembed.W_U").sizes(), (at::IntArrayRef{8, 9}));
}

// Every point fires once, with the axes that its row promises.
TEST(Graph, EveryPointFiresWithTheShapeOfItsRow) {
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.dtype = at::kDouble;
    const RandomGraph graph(config);
    const ActivationCache cache = graph.everything();
    ASSERT_EQ(cache.size(), graph.points.size());
    for (const auto& entry : cache) {
      const SiteRow& r = row(entry.name.site);
      ASSERT_EQ(entry.value().dim(), static_cast<std::int64_t>(r.axes.size())) << entry.name.to_string();
      for (std::size_t dim = 0; dim < r.axes.size(); ++dim) {
        if (r.axes[dim] == Axis::routed) continue;  // as many as the router sends
        const std::int64_t fixed = size_of(r.axes[dim], config, entry.name.layer);
        const std::int64_t expected = fixed >= 0 ? fixed : r.axes[dim] == Axis::batch ? 2 : 6;
        EXPECT_EQ(entry.value().size(static_cast<std::int64_t>(dim)), expected)
            << entry.name.to_string() << " " << axis_name(r.axes[dim]);
      }
    }
  }
}

TEST(ParameterStack, HoldsTheParametersOfAllModulesSideBySide) {
  ParameterStack stack(3);
  const at::TensorOptions options(at::kDouble);
  for (std::int64_t module = 0; module < 3; ++module) {
    stack.part("W", module, {2, 4}, options).fill_(module);
    stack.part("b", module, {2}, options).fill_(10 + module);
  }
  ASSERT_EQ(stack.whole("W").sizes(), (at::IntArrayRef{3, 2, 4}));
  for (std::int64_t module = 0; module < 3; ++module) {
    EXPECT_TRUE((stack.whole("W")[module] == module).all().item<bool>());
    EXPECT_TRUE((stack.whole("b")[module] == 10 + module).all().item<bool>());
  }
  EXPECT_FALSE(stack.whole("V").defined());
}

TEST(ParameterStack, GivesLeavesThatTakeGradientsOneByOne) {
  ParameterStack stack(2);
  at::Tensor first = stack.part("W", 0, {3}, at::TensorOptions(at::kDouble)).fill_(1.0);
  const at::Tensor second = stack.part("W", 1, {3}, at::TensorOptions(at::kDouble)).fill_(2.0);
  first.requires_grad_(true);
  EXPECT_TRUE(first.is_leaf());
  EXPECT_FALSE(first.is_view());
  (first * second).sum().backward();
  EXPECT_TRUE(first.grad().equal(second));
  EXPECT_FALSE(stack.whole("W").requires_grad());
}

}  // namespace
}  // namespace hooked::graph_test
