// A harvest of millions of tokens and a sweep of tens of thousands of cells, in memory that does not grow
// with them.
#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include <random>

#include "hooked/analysis/sweep.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/harvest/harvest.h"
#include "tests/soak/soak.h"
#include "tests/support/tiny_model.h"

namespace hooked::soak_work_test {
namespace {

namespace fs = std::filesystem;
using soak::scaled;

constexpr std::int64_t kDocument = 512, kContext = 128;

std::int64_t id_at(std::int64_t document, std::int64_t offset) {
  return (document * 7 + offset * offset * 3 + offset) % 11;
}

/// A folder on the disk of the build, since a whole harvest takes 600 MB.
class DiskFolder {
 public:
  DiskFolder() { fs::remove_all(path), fs::create_directories(path.parent_path()); }
  ~DiskFolder() { fs::remove_all(path); }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  const fs::path path = fs::path(HOOKED_BINARY_DIR) / "soak" / "store";
};

TEST(Soak, AHarvestTakesAsMuchDiskAsItSaidAndNoMemory) {
  ModelConfig config = small_config();
  config.n_ctx = kContext;
  config.dtype = at::kFloat;
  const HookedTransformer model = random_model(config);
  const std::int64_t documents = scaled(10'000'000 / kDocument + 1, 40);
  const Corpus corpus = Corpus::of(
      [](std::int64_t begin, std::int64_t end) {
        std::vector<CorpusDocument> made;
        for (std::int64_t number = begin; number < end; ++number) {
          std::vector<std::int64_t> ids;
          for (std::int64_t offset = 0; offset < kDocument; ++offset) ids.push_back(id_at(number, offset));
          made.push_back({.number = number, .content = std::move(ids)});
        }
        return made;
      },
      documents, "ids by formula");
  const HarvestOptions options{.names = act::resid_post(1), .contexts = {.length = kContext}, .threads = 1};
  const StoreOptions store{.unit_tokens = 16'384, .shard_bytes = 1 << 20};
  const DiskFolder folder;
  const HarvestEstimate said = estimate_harvest(model, corpus, options, store);

  std::int64_t early = 0, most = 0;
  HarvestOptions watched = options;
  watched.progress = [&](const HarvestProgress& progress) {
    const std::int64_t now = process_status("VmRSS");
    if (progress.share_done < 0.2) early = std::max(early, now);
    most = std::max(most, now);
    return true;
  };
  const HarvestSummary made = harvest(model, corpus, folder.path, watched, store);
  soak::say(
      "{} tokens harvested: {:.1f} s, {:.1f} MiB of disk in {} files ({:.1f} predicted), resident {:.1f} MiB "
      "in "
      "the first fifth, at most {:.1f} MiB",
      made.tokens, made.seconds, soak::mebibytes(static_cast<std::int64_t>(made.status.bytes)),
      made.status.shards, soak::mebibytes(static_cast<std::int64_t>(said.bytes)), soak::mebibytes(early),
      soak::mebibytes(most));
  EXPECT_EQ(made.tokens, documents * kDocument);
  EXPECT_NEAR(static_cast<double>(said.bytes), static_cast<double>(made.status.bytes),
              0.01 * static_cast<double>(made.status.bytes));
  if (soak::memory_counts()) {
    EXPECT_LE(most - early, std::int64_t{16} << 20);
  }
  EXPECT_TRUE(verify_store(folder.path).complete());

  // Rows drawn at random are those of a run of their context alone.
  const auto rows = ActivationStore::open(folder.path);
  ASSERT_EQ(rows.rows(), documents * kDocument);
  std::mt19937_64 random(11);
  std::vector<std::int64_t> drawn;
  for (int i = 0; i < 50; ++i)
    drawn.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows.rows())));
  const ActivationRows got = rows.rows_at(at::tensor(drawn, at::kLong));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const auto document = got.documents[row].item<std::int64_t>(),
               offset = got.offsets[row].item<std::int64_t>();
    ASSERT_EQ(document * kDocument + offset, drawn[i]);
    std::vector<std::int64_t> context;
    for (std::int64_t at = offset / kContext * kContext; at <= offset; ++at)
      context.push_back(id_at(document, at));
    EXPECT_EQ(got.tokens[row].item<std::int64_t>(), context.back());
    const at::Tensor alone = model.run_with_cache(at::tensor(context, at::kLong), act::resid_post(1))
                                 .cache[act::resid_post(1)][0][-1];
    EXPECT_TRUE(at::allclose(got.activations.at("blocks.1.hook_resid_post")[row], alone, 1e-5, 1e-6))
        << drawn[i];
  }
}

// The numbers of cells drawn at random are those of one run each, which a hook patches.
TEST(Soak, ASweepOfThousandsOfCellsHasTheNumbersOfSingleRuns) {
  constexpr std::int64_t kLength = 45;
  const bool whole = soak::scale() >= 1;
  ModelConfig config = two_layer_config();
  config.n_ctx = kLength;
  config.n_layers = whole ? 4 : 1;
  config.dtype = at::kDouble;
  const HookedTransformer model = random_model(config);
  const at::Tensor clean = random_row(kLength, 11, 1), corrupted = random_row(kLength, 11, 2);
  const auto cache = model.run_with_cache(clean, act::everything).cache;
  const at::Tensor before = model(corrupted);
  const std::vector<SweptPlace> heads =
      whole ? std::vector<SweptPlace>{0, 1, 2, 3} : std::vector<SweptPlace>{2};
  std::int64_t calls = 0, early = 0, most = 0;
  SweepOptions options{.site = act::pattern,
                       .over = {Axis::layer, {Axis::head, heads}, Axis::query, Axis::key},
                       .from = cache,
                       .into = corrupted,
                       .metric = logit(3)};
  options.progress = [&](const SweepProgress&) {
    const std::int64_t now = process_status("VmRSS");
    if (++calls <= 40) early = std::max(early, now);
    most = std::max(most, now);
    return true;
  };
  const SweepReport report = sweep_report(model, options);
  const at::Tensor values = report.grid.values();
  const std::int64_t swept_heads = std::ssize(heads);
  ASSERT_EQ(values.sizes(), (at::IntArrayRef{config.n_layers, swept_heads, kLength, kLength}));
  soak::say("a sweep of {} cells: {:.1f} s, resident {:.1f} MiB in the first 40 runs, at most {:.1f} MiB",
            values.numel(), report.seconds, soak::mebibytes(early), soak::mebibytes(most));
  if (soak::memory_counts()) {
    EXPECT_LE(most - early, std::int64_t{64} << 20);
  }
  EXPECT_TRUE(at::equal(model(corrupted), before)) << "the model is as it was";

  std::mt19937_64 random(13);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  double largest = 0;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t layer = below(config.n_layers), place = below(swept_heads), query = below(kLength),
                       key = below(query + 1), head = whole ? place : 2;
    const at::Tensor other = cache[act::pattern(layer)];
    const auto patched =
        model.run_with_hooks(corrupted, {{act::pattern(layer), [&](const at::Tensor& pattern) {
                                            at::Tensor edited = pattern.clone();
                                            edited[0][head][query][key] = other[0][head][query][key];
                                            return edited;
                                          }}});
    const double alone = patched.logits()[0][-1][3].item<double>();
    EXPECT_NEAR(values[layer][place][query][key].item<double>(), alone, 1e-10);
    largest = std::max(largest, std::abs(alone - before[0][-1][3].item<double>()));
  }
  EXPECT_GT(largest, 1e-4) << "patches that change nothing say nothing";
}

}  // namespace
}  // namespace hooked::soak_work_test
