// Lenses as their packages save them, against what plain torch reads through them in float64
// (tests/golden/README.md).

#include <filesystem>
#include <numeric>

#include "hooked/analysis/logit_lens.h"
#include "tests/support/golden_model.h"

namespace hooked::lens_golden_test {
namespace {

constexpr double kTolerance = 1e-9;
const std::filesystem::path kGolden = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden";

struct Case {
  const char *lens, *model, *file;
};

class LensGolden : public testing::TestWithParam<Case> {};

TEST_P(LensGolden, ReadsWhatPlainTorchReads) {
  const auto& [lens, name, file] = GetParam();
  const auto tensors = read_tensors(kGolden / "lenses/expected.safetensors");
  const auto& theirs = tensors.at(std::string(lens) + ".logits");  // [point, row, pos, vocab]
  const auto model = load_golden(golden_case(name));
  const auto cache = model.run_with_cache(tensors.at(std::string(lens) + ".tokens")).cache;
  std::vector<std::int64_t> vocabulary(static_cast<std::size_t>(model.config().d_vocab));
  std::iota(vocabulary.begin(), vocabulary.end(), 0);
  for (const auto& path : {kGolden / "lenses" / lens, kGolden / "lenses" / lens / file}) {
    const auto maps = LensMaps::load(path);
    EXPECT_EQ(maps.target_depth.has_value(), path != kGolden / "lenses/tuned/params.pt") << path;
    const auto read = logit_lens(model, cache, {.positions = {}, .tokens = vocabulary, .maps = maps});
    const auto ours = read.logits.values().permute({2, 0, 3, 1});  // [point, row, pos, vocab]
    ASSERT_EQ(ours.size(0), theirs.size(0) + 1) << "the maps' points, and the end as it is";
    EXPECT_LE((ours.narrow(0, 0, theirs.size(0)) - theirs).abs().max().item<double>(), kTolerance) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LensGolden,
                         testing::Values(Case{"tuned", "gpt2", "params.pt"},
                                         Case{"jacobian", "smollm3", "lens.pt"}),
                         [](const auto& info) { return std::string(info.param.lens); });

}  // namespace
}  // namespace hooked::lens_golden_test
