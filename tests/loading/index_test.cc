// Shards and an index that disagree: needed tensors are read from where the index says, or refused; the rest
// is a note.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/loading/describe.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/thrown_by.h"

namespace hooked::index_test {
namespace {

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";
constexpr const char* kMoved = "model.layers.0.mlp.up_proj.weight";  // in the first shard

class Sharded : public CheckpointTensors {
 protected:
  void SetUp() override {
    take("llama");
    for (const auto& [name, tensor] : tensors_) {
      const bool first = name.find("layers.0.") != std::string::npos;
      (first ? first_ : second_)[name] = tensor;
      map_[name] = first ? kFirst : kSecond;
    }
  }

  std::string folder() const {
    save_safetensors(folder_.path() / kFirst, {first_.begin(), first_.end()}, {});
    save_safetensors(folder_.path() / kSecond, {second_.begin(), second_.end()}, {});
    write_file(folder_.path() / "model.safetensors.index.json", json_text({{"weight_map", map_}}));
    return folder_.path().string();
  }

  std::string notes_of(const HookedTransformer& model) const {
    return fmt::format("{}", fmt::join(model.notes(), "\n"));
  }

  void expect_original_with(std::string_view note) const {
    const HookedTransformer model = load_raw(folder());
    EXPECT_LT(difference(model), 1e-12);
    EXPECT_NE(notes_of(model).find(note), std::string::npos) << notes_of(model);
    const auto described = describe(folder());
    EXPECT_NE(fmt::format("{}", fmt::join(described.notes, "\n")).find(note), std::string::npos);
  }

  StateDict first_, second_;
  std::map<std::string, std::string> map_;
};

TEST_F(Sharded, NamesThatNobodyNeedsAreANote) {
  map_["mtp.fc.weight"] = kSecond;
  expect_original_with(
      "1 tensors are not where the index says, so that none of them is read: 'mtp.fc.weight'");
}

TEST_F(Sharded, ACopyInAnotherShardIsNotRead) {
  second_[kMoved] = at::full_like(first_.at(kMoved), 7.0);
  expect_original_with(fmt::format(
      "1 copies of tensors in other shards than the index names were not read: '{}' in {}", kMoved, kSecond));
  // In the opposite case the index means the other copy.
  map_[kMoved] = kSecond;
  EXPECT_GT(difference(load_raw(folder())), 1e-3);
}

TEST_F(Sharded, ATensorThatTheIndexForgetsIsReadFromTheOneShardThatHasIt) {
  map_.erase(kMoved);
  expect_original_with(
      fmt::format("1 tensors of the shards are not in the index: '{}' in {}", kMoved, kFirst));
}

TEST_F(Sharded, ANeededTensorThatItsShardLacksIsRefusedAndInfoSaysSo) {
  map_[kMoved] = kSecond;
  const std::string where =
      fmt::format("'{}' is not in {}, where the index says, but in {}", kMoved, kSecond, kFirst);
  const std::string text = text_thrown_by<CheckpointError>([&] { load_raw(folder()); });
  EXPECT_NE(text.find("1 tensors that the config asks for are missing: " + std::string(kMoved)),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(where), std::string::npos) << text;
  const auto described = fmt::format("{}", fmt::join(describe(folder()).notes, "\n"));
  EXPECT_NE(described.find("the model does not load: "), std::string::npos) << described;
  EXPECT_NE(described.find(where), std::string::npos) << described;
}

TEST_F(Sharded, ANeededTensorOfTwoShardsThatTheIndexForgetsIsRefused) {
  map_.erase(kMoved);
  second_[kMoved] = at::full_like(first_.at(kMoved), 7.0);
  const std::string text = text_thrown_by<CheckpointError>([&] { load_raw(folder()); });
  EXPECT_NE(text.find("is in 2 shards and not in the index"), std::string::npos) << text;
}

}  // namespace
}  // namespace hooked::index_test
