// Views of a tensor of a file that are read in blocks: their contents, and which are not worth it.
#include "io/checkpoint/source_tensor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <functional>

#include "hooked/io/safetensors.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "tests/support/temp_folder.h"

namespace hooked::source_tensor_test {
namespace {

class Views : public testing::Test {
 protected:
  Views() {
    const at::Tensor all = at::arange(4 * 6 * 10, at::kFloat).view({4, 6, 10});
    save_safetensors(folder_ / "model.safetensors", {{"x", all}}, {});
  }

  using View = std::function<at::Tensor(const at::Tensor&)>;

  /// The view read in blocks of `count`, together with the view itself; nothing if it is not read in
  /// blocks.
  std::optional<bool> same_in_blocks(const View& view, std::int64_t count) const {
    const CheckpointReader reader = CheckpointReader::open(folder_.path());
    SourceTensors tensors = source_tensors(reader);
    const SourceTensor& source = tensors.at("x");
    const at::Tensor meta = source.meta();
    const auto stored = view_in_file(source, meta, view(meta));
    if (!stored) return std::nullopt;
    const at::Tensor whole = view(source.read());
    EXPECT_EQ(at::IntArrayRef(stored->shape), whole.sizes());
    const std::int64_t all = whole.size(stored->dimension);
    bool same = true;
    for (std::int64_t first = 0; first < all; first += count) {
      const std::int64_t some = std::min(count, all - first);
      same = same && at::equal(stored->read(first, some), whole.narrow(stored->dimension, first, some));
    }
    return same;
  }

  TempFolder folder_;
};

TEST_F(Views, RunsAreReadAsTheyLie) {
  for (const std::int64_t count : {1, 2, 3, 100}) {
    EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x; }, count), true);
    EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x.select(0, 2).t(); }, count), true);
    EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x.select(0, 1).narrow(0, 2, 3); }, count),
              true);
  }
}

// Gate and up in alternate columns or rows.
TEST_F(Views, HalfOfARunIsReadAsARun) {
  for (const std::int64_t count : {1, 2, 3, 100}) {
    for (const std::int64_t first : {0, 1}) {
      EXPECT_EQ(same_in_blocks(
                    [&](const at::Tensor& x) { return x.select(0, 3).slice(1, first, std::nullopt, 2).t(); },
                    count),
                true);
      EXPECT_EQ(
          same_in_blocks([&](const at::Tensor& x) { return x.select(0, 3).slice(0, first, std::nullopt, 2); },
                         count),
          true);
    }
  }
}

TEST_F(Views, LessOfARunIsNot) {
  EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x.slice(2, 0, std::nullopt, 3); }, 2),
            std::nullopt);
  EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x.narrow(1, 0, 2); }, 2), std::nullopt);
  EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x + 1; }, 2), std::nullopt);
}

TEST_F(Views, EmptyOnesAreRead) {
  EXPECT_EQ(same_in_blocks([](const at::Tensor& x) { return x.narrow(0, 0, 0); }, 1), true);
}

}  // namespace
}  // namespace hooked::source_tensor_test
