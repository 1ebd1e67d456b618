#include <ATen/ops/cumsum.h>
#include <ATen/ops/logsumexp.h>

#include "tests/models/kernels_in_cpp/tables.h"
#include "tests/support/test.h"

namespace hooked::row_peak_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RowPeak : public testing::TestWithParam<kernels::NamedKernels> {
 protected:
  static kernels::RowPeak peak_of(const at::Tensor& row) {
    return GetParam().kernels.row_peak(row.const_data_ptr<float>(), row.numel());
  }
};

TEST_P(RowPeak, IsTheLargestNumberAndTheLogarithmOfTheSum) {
  for (const std::int64_t count : {1, 15, 16, 33, 2047, 2048, 2049, 50257}) {
    for (const double spread : {0.1, 10.0, 200.0}) {
      const at::Tensor row = at::randn({count}) * spread;
      const kernels::RowPeak peak = peak_of(row);
      EXPECT_EQ(peak.largest, row.max().item<float>()) << count;
      EXPECT_EQ(peak.place, row.argmax().item<std::int64_t>()) << count;
      const at::Tensor exact = at::logsumexp(row.to(at::kDouble), {0});
      EXPECT_NEAR(static_cast<double>(peak.largest) + std::log(peak.sum), exact.item<double>(),
                  2e-6 * std::max(1.0, spread))
          << count;
    }
  }
}

TEST_P(RowPeak, IsTheFirstOfEquals) {
  at::Tensor row = at::randn({5000});
  for (const std::int64_t place : {4999, 4000, 2048, 2047, 3, 0}) {
    row[place] = 50.0f;
    EXPECT_EQ(peak_of(row).place, place);
  }
}

TEST_P(RowPeak, SharesFallOnPlacesAsSumsInFloat64Do) {
  for (const std::int64_t count : {1, 40, 2048, 5000, 50257}) {
    at::Tensor row = at::randn({count}) * 3.0;
    if (count > 3000) row.narrow(0, 2000, 800).fill_(-kInfinity);  // ruled out
    if (count > 1) row[count - 1] = -kInfinity;
    const at::Tensor sums = at::cumsum(at::softmax(row.to(at::kDouble), 0), 0);
    const kernels::RowPeak peak = peak_of(row);
    for (int i = 0; i < 300; ++i) {
      const double share = i == 299 ? 1.0 - 0x1.0p-53 : i / 299.0;
      const std::int64_t place =
          GetParam().kernels.place_of_share(row.const_data_ptr<float>(), count, peak, share);
      ASSERT_NE(row[place].item<float>(), -kInfinity);
      EXPECT_LE(place == 0 ? 0.0 : sums[place - 1].item<double>(), share + 1e-6) << count;
      EXPECT_GE(sums[place].item<double>(), share - 1e-6) << count;
    }
  }
}

TEST_P(RowPeak, TellsOfNumbersThatAreNone) {
  at::Tensor row = at::randn({3000});
  for (const std::int64_t place : {0, 17, 2999}) {
    at::Tensor broken = row.clone();
    broken[place] = std::nanf("");
    EXPECT_TRUE(std::isnan(peak_of(broken).sum));
    broken[place] = kInfinity;
    EXPECT_EQ(peak_of(broken).largest, kInfinity);
    broken[place] = -kInfinity;  // a token that was ruled out
    EXPECT_NEAR(peak_of(broken).sum, (broken - broken.max()).to(at::kDouble).exp().sum().item<double>(),
                1e-3);
  }
  EXPECT_EQ(peak_of(at::full({40}, -kInfinity)).largest, -kInfinity);
}

INSTANTIATE_TEST_SUITE_P(Kernels, RowPeak, testing::ValuesIn(kernels::all_tables()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hooked::row_peak_test
