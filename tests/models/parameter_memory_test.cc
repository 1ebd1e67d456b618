#include "models/transformer/parameter_memory.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "tests/models/random_graph.h"

namespace hooked::parameter_memory_test {
namespace {

std::shared_ptr<std::byte> memory_of(std::size_t bytes) {
  return {static_cast<std::byte*>(std::aligned_alloc(kParameterAlignment, bytes)), std::free};
}

std::size_t room_for(const at::Tensor& parameter) {
  return (parameter.nbytes() + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

TEST(ParameterMemory, ViewsMadeBeforeSeeTheNewBytes) {
  const RandomGraph random(graph_config());
  const std::map<std::string, at::Tensor> before = [&] {
    std::map<std::string, at::Tensor> all;
    for (const WeightSlot& slot : random.graph.slots()) all.emplace(slot.name, slot.view.read().clone());
    return all;
  }();
  const WeightSlots slots = random.graph.slots();  // views
  const at::Tensor logits = random.run(random.tokens(), {}).logits;
  const std::vector<Parameter> parameters = parameters_as_they_lie(random.graph);
  std::size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) bytes += room_for(parameter);
  const std::shared_ptr<std::byte> memory = memory_of(bytes);
  std::uint64_t offset = 0;
  for (const auto& [name, parameter] : parameters) {
    const auto* old = static_cast<const std::byte*>(parameter.const_data_ptr());
    std::copy_n(old, parameter.nbytes(), memory.get() + offset);
    settle(parameter, memory, offset);
    EXPECT_EQ(parameter.const_data_ptr(), memory.get() + offset) << name;
    offset += room_for(parameter);
  }
  for (const WeightSlot& slot : slots)
    EXPECT_TRUE(at::equal(slot.view.read(), before.at(slot.name))) << slot.name;
  EXPECT_TRUE(at::equal(random.run(random.tokens(), {}).logits, logits));
}

TEST(ParameterMemory, BytesLiveAsLongAsTheParameters) {
  std::weak_ptr<const std::byte> watched;
  {
    const RandomGraph random(graph_config());
    const std::vector<Parameter> parameters = parameters_as_they_lie(random.graph);
    {
      const std::shared_ptr<std::byte> memory = memory_of(1 << 16);
      watched = memory;
      settle(parameters.front().second, memory, 0);
    }
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace hooked::parameter_memory_test
