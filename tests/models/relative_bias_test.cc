#include "models/attention/relative_bias.h"

#include "models/sequence/run.h"
#include "tests/support/test.h"

namespace hooked::relative_bias_test {
namespace {

at::Tensor buckets(std::int64_t first, std::int64_t end, const RelativePositions& config,
                   bool bidirectional) {
  return relative_buckets(at::arange(first, end, at::TensorOptions(at::kLong)), config, bidirectional);
}

// By hand: 8 buckets, 4 of them exact, then ceil(4 (8/4)^(i/4)): 4 to 4.75 are the fifth, and so on.
TEST(RelativeBuckets, HalfAreExactAndTheOthersGrow) {
  EXPECT_TRUE(at::equal(buckets(-9, 3, {.buckets = 8, .max_distance = 8}, false),
                        at::tensor({7, 7, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0}, at::kLong)));
}

TEST(RelativeBuckets, KeysBehindTheQueryHaveBucketsOfTheirOwnWhereAttentionGoesBothWays) {
  EXPECT_TRUE(at::equal(buckets(-4, 5, {.buckets = 8, .max_distance = 8}, true),
                        at::tensor({3, 2, 2, 1, 0, 5, 6, 6, 7}, at::kLong)));
}

// transformers' T5 of the published sizes, where float32 decides the edges: first distance of each bucket.
TEST(RelativeBuckets, PublishedSizesHaveTheEdgesModelsWereTrainedWith) {
  const at::Tensor causal = buckets(-200, 1, {}, false).flip(0);
  std::vector<std::int64_t> edges;
  for (std::int64_t d = 1; d <= 200; ++d) {
    if (causal[d].item<std::int64_t>() != causal[d - 1].item<std::int64_t>()) edges.push_back(d);
  }
  EXPECT_EQ(edges, (std::vector<std::int64_t>{1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                              19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
}

}  // namespace
}  // namespace hooked::relative_bias_test
