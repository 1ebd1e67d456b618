// Weights that are drawn: the numbers of tests/golden/makers/drawn.py, and its list.
#include "tests/support/drawn.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <stdexcept>

#include "hooked/io/safetensors.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"

namespace hooked::drawn_test {
namespace {

std::vector<double> numbers(const DrawnTensor& tensor) {
  const at::Tensor drawn = draw("cases/some", tensor).to(at::kDouble);
  return {drawn.const_data_ptr<double>(), drawn.const_data_ptr<double>() + drawn.numel()};
}

// As in Python.
TEST(DrawnWeights, AreThoseOfTheMakers) {
  const auto of = [](const char* dtype, const char* how) {
    return numbers({.name = "a.weight", .dtype = dtype, .shape = {3}, .how = how});
  };
  using Three = std::vector<double>;
  EXPECT_EQ(of("F64", "1"), (Three{-0x1.b20280afad6aep-1, 0x1.f2c3845cff591p+0, 0x1.8967557ca5b84p-2}));
  EXPECT_EQ(of("F32", "-1"), (Three{-0x1.b28p-3, 0x1.f2cp-2, 0x1.89p-4}));
  EXPECT_EQ(of("F16", "0"), (Three{-0x1.b28p-2, 0x1.f2cp-1, 0x1.89p-3}));
  EXPECT_EQ(of("BF16", "2"), (Three{-0x1.b4p+0, 0x1.f2p+1, 0x1.88p-1}));
  EXPECT_EQ(of("F32", "norm"), (Three{0x1.9p-1, 0x1.7cp+0, 0x1.18p+0}));
  EXPECT_EQ(of("F32", "=-inf"), Three(3, -std::numeric_limits<double>::infinity()));
}

TEST(DrawnWeights, NoneIsZero) {
  for (const char* dtype : {"F64", "F32", "F16", "BF16"}) {
    const DrawnTensor tensor{.name = "a", .dtype = dtype, .shape = {100, 100}, .how = "0"};
    const at::Tensor size = draw("cases/some", tensor).to(at::kDouble).abs();
    EXPECT_GT(size.min().item<double>(), 0) << dtype;
    EXPECT_LT(size.max().item<double>(), 1) << dtype;
  }
}

class DrawnList : public testing::Test {
 protected:
  std::map<std::string, std::vector<DrawnTensor>> read(const std::string& text) const {
    std::ofstream(folder_ / "tensors.txt") << text;
    return read_drawn(folder_ / "tensors.txt");
  }

  TempFolder folder_;
};

TEST_F(DrawnList, HasEachNumberOfARangeByItself) {
  const auto list = read("cases/a\nl.{0-1}.e.{2-3}.w F32 2,3 norm\nscale F16 - =0.5\ncases/b\nw F64 4 -1\n");
  ASSERT_EQ(list.size(), 2u);
  std::vector<std::string> names;
  for (const DrawnTensor& tensor : list.at("cases/a")) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"l.0.e.2.w", "l.0.e.3.w", "l.1.e.2.w", "l.1.e.3.w", "scale"}));
  EXPECT_EQ(list.at("cases/a")[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(list.at("cases/a")[4].shape.empty());
  EXPECT_EQ(list.at("cases/b")[0].how, "-1");
}

TEST_F(DrawnList, WhatItCannotReadIsAnError) {
  for (const char* text : {"w F32 3 norm\n", "cases/a\nw F32 3\n", "cases/a\nw F32 3 norm more\n"})
    EXPECT_THROW(read(text), std::runtime_error) << text;
  EXPECT_THROW(read_drawn(folder_ / "absent"), std::runtime_error);
  EXPECT_THROW(numbers({.name = "a", .dtype = "I8", .shape = {3}, .how = "1"}), std::runtime_error);
  EXPECT_THROW(numbers({.name = "a", .dtype = "F32", .shape = {3}, .how = "1.5"}), std::runtime_error);
}

TEST_F(DrawnList, AFolderIsItsFilesAndItsTensors) {
  for (const char* kind : {"cases", "models", "adapters"})
    std::filesystem::create_directories(folder_ / kind);
  std::filesystem::create_directories(folder_ / "cases/a");
  for (const char* name : {"config.json", "golden.safetensors"})
    std::ofstream(folder_ / "cases/a" / name) << "{}";
  std::ofstream(folder_ / "tensors.txt") << "cases/a\ncopy F32 2 @w\nw F32 2 1\n";
  std::filesystem::create_directories(folder_ / "out/cases/of an earlier list");
  write_model_folders(folder_.path(), folder_ / "out");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/cases/of an earlier list"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/cases/a/config.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/cases/a/golden.safetensors"));
  const NamedTensors tensors = read_tensors(folder_ / "out/cases/a/model.safetensors");
  ASSERT_EQ(tensors.size(), 2u);
  const DrawnTensor w{.name = "w", .dtype = "F32", .shape = {2}, .how = "1"};
  EXPECT_TRUE(tensors.at("w").equal(draw("cases/a", w)));
  EXPECT_TRUE(tensors.at("copy").equal(tensors.at("w")));
  std::ofstream(folder_ / "tensors.txt") << "cases/a\ncopy F32 2 @other\n";
  EXPECT_THROW(write_model_folders(folder_.path(), folder_ / "out"), std::runtime_error);
  std::ofstream(folder_ / "tensors.txt") << "cases/b\nw F32 2 1\n";
  EXPECT_THROW(write_model_folders(folder_.path(), folder_ / "out"), std::runtime_error) << "no such folder";
}

// Listed tensors are not stored as well.
TEST(DrawnWeights, AreNotStored) {
  const std::filesystem::path goldens = HOOKED_SOURCE_DIR "/tests/golden";
  for (const auto& [folder, tensors] : read_drawn(goldens / "tensors.txt")) {
    EXPECT_TRUE(std::filesystem::exists(goldens / folder / "config.json")) << folder;
    EXPECT_FALSE(std::filesystem::exists(goldens / folder / "model.safetensors")) << folder;
  }
}

}  // namespace
}  // namespace hooked::drawn_test
