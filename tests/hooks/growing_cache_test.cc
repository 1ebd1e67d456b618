#include "hooks/growing_cache.h"

#include "hooked/hooks/act.h"
#include "tests/support/test.h"

namespace hooked::growing_cache_test {
namespace {

at::Tensor random(at::IntArrayRef sizes) { return at::rand(sizes, at::kDouble); }

// Columns of the stream and of a pattern, whose rows end with the column.
ActivationCache stretch(const at::Tensor& stream, const at::Tensor& pattern, std::int64_t begin,
                        std::int64_t end) {
  ActivationCache made(1);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = begin; i < end; ++i) positions.push_back(i);
  made.insert({act::resid_post(0).name(), stream.narrow(1, begin, end - begin), positions});
  made.insert({act::pattern(0).name(), pattern.narrow(2, begin, end - begin).narrow(3, 0, end), positions});
  return made;
}

TEST(GrowingCache, IsTheSameHoweverManyStretchesAreCopiedTogether) {
  constexpr std::int64_t kColumns = 12;
  const at::Tensor stream = random({2, kColumns, 6}), pattern = random({2, 4, kColumns, kColumns}).tril();
  for (const std::size_t at_once : {1, 3, 50}) {
    GrowingCache growing(at_once);
    for (int time = 0; time < 2; ++time) {
      growing.append(stretch(stream, pattern, 0, 3));
      for (std::int64_t column = 3; column < kColumns; ++column) {
        growing.append(stretch(stream, pattern, column, column + 1));
      }
      const ActivationCache all = growing.take();
      EXPECT_TRUE(at::equal(all[act::resid_post(0)], stream)) << at_once;
      EXPECT_TRUE(at::equal(all[act::pattern(0)], pattern)) << at_once;
    }
  }
}

TEST(GrowingCache, FindsWhatWasWrittenIntoBeforeItWasCopied) {
  const at::Tensor stream = random({2, 5, 6}), pattern = random({2, 4, 5, 5});
  GrowingCache growing(8);
  growing.append(stretch(stream, pattern, 0, 3));
  growing.append(stretch(stream, pattern, 3, 4));
  stream.add_(1.0);
  EXPECT_THROW(growing.take(), HookError);
}

}  // namespace
}  // namespace hooked::growing_cache_test
