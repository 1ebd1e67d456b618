#include "hooked/harvest/harvest.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harvest/share_lock.h"
#include "hooked/core/error.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/harvest/activation_stream.h"
#include "hooked/harvest/reductions.h"
#include "hooked/hooks/act.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/harvest/folder_bytes.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::harvest_test {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int64_t>;

ModelConfig double_config() {
  ModelConfig config = small_config();
  config.dtype = at::kDouble;
  return config;
}

// Documents of 1 to 14 ids, in several units.
Corpus some_ids(const fs::path& file, std::int64_t documents = 40) {
  std::ofstream lines(file);
  for (std::int64_t i = 0; i < documents; ++i) {
    lines << "{\"text\": [";
    for (std::int64_t k = 0; k <= (i * 5) % 14; ++k) lines << (k > 0 ? ", " : "") << (i * 3 + k * 7) % 11;
    lines << "]}\n";
  }
  lines.close();
  return Corpus::open(file);
}

constexpr std::uint64_t kUnitTokens = 64;  // of some_ids(): about nine units

HarvestOptions packed_options(Selection names) {
  return {.names = std::move(names),
          .contexts = {.length = 5, .packing = Packing::packed, .begin_context = 0},
          .batch_tokens = 16};
}

class HarvestTest : public testing::Test {
 protected:
  TempFolder folder;
  HookedTransformer model = random_model(double_config());
  Corpus corpus = some_ids(folder / "corpus.jsonl");
};

// The rows of a store are what the model computes of each context alone.
void expect_rows_of_runs(const HookedTransformer& model, const fs::path& folder,
                         const std::vector<ActivationName>& names, bool packed) {
  const auto store = ActivationStore::open(folder);
  const ActivationRows rows = store.read(0, store.rows());
  const auto* context = rows.contexts.const_data_ptr<std::int32_t>();
  std::int64_t begin = 0, contexts = 0;
  while (begin < rows.rows()) {
    std::int64_t end = begin + 1;
    while (end < rows.rows() && context[end] == context[begin] &&
           rows.positions[end].item<int>() > rows.positions[end - 1].item<int>())
      ++end;
    const at::Tensor tokens = rows.tokens.slice(0, begin, end).to(at::kLong).unsqueeze(0);
    Selection all;
    for (const ActivationName& name : names) all = all | name;
    const auto run = model.run_with_cache(tokens, all);
    for (const ActivationName& name : names) {
      const at::Tensor expected = run.cache[name].movedim(sequence_dimension(name.site), 1)[0];
      EXPECT_TRUE(
          at::allclose(rows.activations.at(name.to_string()).slice(0, begin, end), expected, 1e-11, 1e-11))
          << name.to_string() << " from row " << begin;
    }
    if (packed) {
      EXPECT_EQ(end - begin, 5);
    }
    begin = end;
    ++contexts;
  }
  EXPECT_EQ(contexts, store_status(folder).contexts);
}

TEST_F(HarvestTest, RowsAreThoseOfRuns) {
  const std::vector<ActivationName> names = {act::resid_post(1).name(), act::z(0).name(),
                                             act::pattern(2).name()};
  Selection all;
  for (const ActivationName& name : names) all = all | name;
  const auto summary =
      harvest(model, corpus, folder / "acts", packed_options(all), {.unit_tokens = kUnitTokens});
  EXPECT_TRUE(summary.status.complete());
  EXPECT_TRUE(summary.status.joined);
  EXPECT_GE(summary.status.units, 5);
  EXPECT_EQ(summary.units_done, summary.status.units);
  const auto store = ActivationStore::open(folder / "acts");
  EXPECT_EQ(store.rows(), summary.status.rows);
  EXPECT_EQ(store.rows(), summary.status.tokens);
  expect_rows_of_runs(model, folder / "acts", names, true);
  ASSERT_EQ(store.activations().size(), 3U);
  EXPECT_EQ(store.activations()[0].axes, (std::vector<std::string>{"row", "head", "d_head"}));
  EXPECT_EQ(store.provenance().fingerprint, model.identity()->fingerprint);
}

TEST_F(HarvestTest, DocumentsAloneArePaddedAndTheirPaddingIsNotKept) {
  HarvestOptions options{.names = act::resid_post(2), .contexts = {.length = 6}, .batch_tokens = 40};
  harvest(model, corpus, folder / "acts", options, {.unit_tokens = kUnitTokens});
  const auto store = ActivationStore::open(folder / "acts");
  expect_rows_of_runs(model, folder / "acts", {act::resid_post(2).name()}, false);
  const ActivationRows rows = store.read(0, store.rows());
  std::int64_t at = 0, number = 0;
  for (const CorpusUnit& unit : corpus.units(kUnitTokens)) {
    for (const CorpusDocument& document : corpus.read(unit)) {
      const auto& ids = std::get<Ids>(document.content);
      for (std::size_t i = 0; i < ids.size(); ++i, ++at) {
        ASSERT_EQ(rows.tokens[at].item<std::int64_t>(), ids[i]);
        ASSERT_EQ(rows.documents[at].item<std::int64_t>(), number);
        ASSERT_EQ(rows.offsets[at].item<std::int64_t>(), static_cast<std::int64_t>(i));
        ASSERT_EQ(rows.positions[at].item<std::int64_t>(), static_cast<std::int64_t>(i % 6));
      }
      ++number;
    }
  }
  EXPECT_EQ(at, store.rows());
  options.names = act::pattern(0);
  EXPECT_TRUE(throws<HookError>([&] { ActivationStream(model, corpus, options); },
                                "blocks.0.attn.hook_pattern", {"packed"}));
}

TEST_F(HarvestTest, EndedAnywhereItGoesOnToTheSameBytes) {
  const auto options = packed_options(act::resid_post(1) | act::mlp_out(0));
  const StoreOptions store{.unit_tokens = kUnitTokens, .shard_bytes = 4000};
  std::int64_t calls = 0;
  auto counting = options;
  counting.progress = [&](const HarvestProgress& now) {
    EXPECT_GE(now.share_done, 0);
    EXPECT_LE(now.share_done, 1.0000001);
    ++calls;
    return true;
  };
  const auto whole = harvest(model, corpus, folder / "whole", counting, store);
  EXPECT_GT(whole.status.shards, whole.status.units);
  const auto expected = bytes_in(folder / "whole");
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(whole.status.shards + 1));
  for (std::int64_t step = 1; step < calls; step += std::max<std::int64_t>(1, calls / 12)) {
    const fs::path out = folder / fmt::format("ended{}", step);
    auto ending = options;
    std::int64_t left = 0;
    ending.progress = [&](const HarvestProgress&) { return --left > 0; };
    HarvestSummary summary;
    int times = 0;
    do {
      left = step + times;  // more each time, so that a unit of many runs ends at last
      summary = harvest(model, corpus, out, ending, store);
      ASSERT_LT(++times, 400);
      EXPECT_EQ(summary.ended_early, !summary.status.complete());
      EXPECT_EQ(store_status(out).missing, summary.status.missing);
    } while (summary.ended_early);
    EXPECT_TRUE(bytes_in(out) == expected) << step;
  }
}

TEST_F(HarvestTest, SharesMakeTheStoreOfOneProcess) {
  const auto options = packed_options(act::resid_pre(2));
  harvest(model, corpus, folder / "whole", options, {.unit_tokens = kUnitTokens});
  const fs::path out = folder / "shares";
  for (const std::int64_t share : {2, 0, 1}) {
    const auto summary =
        harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .share = {share, 3}});
    EXPECT_EQ(summary.status.joined, share == 1);
    if (share == 2) {
      EXPECT_TRUE(throws<CheckpointError>([&] { join_store(out); }, out.string(), {"missing: 0, 1, 3"}));
      const auto partial = ActivationStore::open(out);  // what is there can be read
      EXPECT_FALSE(partial.complete());
      EXPECT_EQ(partial.rows(), summary.status.rows);
    }
  }
  EXPECT_TRUE(bytes_in(out) == bytes_in(folder / "whole"));
  const fs::path units = folder / "units";
  harvest(model, corpus, units, options, {.unit_tokens = kUnitTokens, .units = Ids{3, 1}});
  EXPECT_EQ(store_status(units).missing.size(), static_cast<std::size_t>(store_status(out).units - 2));
  harvest(model, corpus, units, options, {.unit_tokens = kUnitTokens});
  EXPECT_TRUE(bytes_in(units) == bytes_in(out));
  EXPECT_THROW(harvest(model, corpus, units, options, {.unit_tokens = kUnitTokens, .units = Ids{99}}),
               ConfigError);
}

TEST_F(HarvestTest, AnotherProcessMayMakeTheStoreWhileTheCorpusIsRead) {
  const auto options = packed_options(act::resid_pre(2));
  const fs::path whole = folder / "whole", out = folder / "acts";
  harvest(model, corpus, whole, options, {.unit_tokens = kUnitTokens});
  StoreOptions store{.unit_tokens = kUnitTokens};
  bool done = false;
  store.planning = [&](std::uint64_t, std::uint64_t) {
    if (std::exchange(done, true)) return;
    harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens});
  };
  const auto summary = harvest(model, corpus, out, options, store);
  EXPECT_TRUE(done);
  EXPECT_EQ(summary.units_done, 0);
  EXPECT_TRUE(summary.status.complete());
  EXPECT_TRUE(bytes_in(out) == bytes_in(whole));
}

TEST_F(HarvestTest, OtherSettingsAreRefused) {
  const fs::path out = folder / "acts";
  const auto options = packed_options(act::resid_pre(2));
  harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .units = Ids{0}});
  const auto refused = [&](const HookedTransformer& by, const Corpus& of, const HarvestOptions& with,
                           std::string_view word) {
    return throws<IoError>([&] { harvest(by, of, out, with, {.unit_tokens = kUnitTokens}); }, out.string(),
                           {word});
  };
  auto other = options;
  other.contexts.length = 6;
  EXPECT_TRUE(refused(model, corpus, other, "contexts.length = 5, got 6"));
  other = options;
  other.names = act::resid_pre(1);
  EXPECT_TRUE(refused(model, corpus, other, "activations"));
  other = options;
  other.edits = zero(act::z(0).head(1));
  EXPECT_TRUE(refused(model, corpus, other, "edits"));
  other = options;
  other.rows.seed = 2;
  EXPECT_TRUE(refused(model, corpus, other, "rows.seed"));
  EXPECT_TRUE(refused(model_of(random_weights(double_config(), 8), double_config()), corpus, options,
                      "model.fingerprint"));
  const auto with_dictionary = [&](std::uint64_t seed) {
    return model.with_dictionary(
        fitted_to(random_autoencoder("blocks.0.hook_resid_post", 8, at::kDouble, seed), model.config()));
  };
  EXPECT_TRUE(refused(with_dictionary(1), corpus, options, "model.dictionaries"));
  const auto spliced = folder / "spliced";
  harvest(with_dictionary(1), corpus, spliced, options, {.unit_tokens = kUnitTokens});
  EXPECT_NO_THROW(harvest(with_dictionary(1), corpus, spliced, options, {.unit_tokens = kUnitTokens}));
  EXPECT_TRUE(throws<IoError>(
      [&] { harvest(with_dictionary(2), corpus, spliced, options, {.unit_tokens = kUnitTokens}); },
      spliced.string(), {"model.dictionaries", "fingerprint"}));
  EXPECT_TRUE(refused(model, some_ids(folder / "corpus.jsonl", 41), options, "corpus.files"));
  // The same file from another folder is the same corpus.
  fs::create_directories(folder / "moved");
  EXPECT_TRUE(
      harvest(model, some_ids(folder / "moved/corpus.jsonl"), out, options, {.unit_tokens = kUnitTokens})
          .status.complete());
}

TEST_F(HarvestTest, OtherThreadsAreLabelled) {
  const fs::path out = folder / "acts";
  auto options = packed_options(act::resid_pre(2));
  options.threads = 1;
  harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .units = Ids{0}});
  options.threads = 2;
  EXPECT_TRUE(throws<IoError>([&] { harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens}); },
                              out.string(), {"run.threads = 1, got 2", "--mixed"}));
  EXPECT_TRUE(
      harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .mixed = true}).status.complete());
  const std::string manifest = bytes_in(out).at("manifest.json");
  const auto first = manifest.find("\"unit\":0,"), second = manifest.find("\"unit\":1,");
  EXPECT_EQ(manifest.substr(first, second - first).find("\"threads\":2"), std::string::npos);
  EXPECT_NE(manifest.substr(second).find("\"threads\":2"), std::string::npos);
}

TEST_F(HarvestTest, WeightsThatStayAsTheyAreStoredAreNotMixedWithOthers) {
  const std::string file = HOOKED_SOURCE_DIR "/tests/golden/gguf/quantised.gguf";
  const auto expanded = HookedTransformer::load(file, {.processing = WeightProcessing::none()});
  const auto stored = HookedTransformer::load(
      file, {.processing = WeightProcessing::none(), .weights = WeightStorage::stored});
  const fs::path out = folder / "acts";
  const auto options = packed_options(act::resid_post(0));
  harvest(expanded, corpus, out, options, {.unit_tokens = kUnitTokens, .units = Ids{0}});
  EXPECT_TRUE(throws<IoError>([&] { harvest(stored, corpus, out, options, {.unit_tokens = kUnitTokens}); },
                              out.string(), {"run.weights", "--mixed"}));
  harvest(stored, corpus, out, options, {.unit_tokens = kUnitTokens, .mixed = true});
  EXPECT_NE(bytes_in(out).at("manifest.json").find("\"weights\":\"stored\""), std::string::npos);
}

TEST_F(HarvestTest, FoldersOfOthersAreNotTouched) {
  const auto options = packed_options(act::resid_pre(2));
  fs::create_directories(folder / "mine");
  write_file(folder / "mine/notes.txt", "x");
  EXPECT_TRUE(throws<IoError>([&] { harvest(model, corpus, folder / "mine", options); },
                              (folder / "mine").string(), {"notes.txt"}));
  EXPECT_TRUE(throws<IoError>([&] { harvest(model, corpus, folder / "corpus.jsonl", options); },
                              (folder / "corpus.jsonl").string(), {"a file"}));
  fs::create_directories(folder / "other");
  write_file(folder / "other/manifest.json", "{\"format\": \"else\"}");
  EXPECT_TRUE(throws<CheckpointError>([&] { harvest(model, corpus, folder / "other", options); },
                                      (folder / "other/manifest.json").string(), {"damaged"}));
  EXPECT_EQ(bytes_in(folder / "mine").size(), 1U);
}

TEST_F(HarvestTest, AShareHasOneProcess) {
  const fs::path out = folder / "acts";
  const auto options = packed_options(act::resid_pre(2));
  harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .units = Ids{0}});
  {
    const ShareLock other(out, {0, 2});
    EXPECT_TRUE(throws<IoError>(
        [&] {
          harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .share = {0, 2}});
        },
        out.string(), {"another process works on share 0 of 2"}));
    harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .share = {1, 2}});
  }
  write_file(out / "share-0-of-2.lock", "");  // of a process that has ended
  EXPECT_TRUE(
      harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .share = {0, 2}}).status.joined);
  EXPECT_FALSE(fs::exists(out / "share-0-of-2.lock"));
}

TEST_F(HarvestTest, DamageIsFound) {
  const fs::path out = folder / "acts";
  harvest(model, corpus, out, packed_options(act::resid_pre(2)), {.unit_tokens = kUnitTokens});
  const StoreStatus status = verify_store(out);
  EXPECT_TRUE(status.complete());
  const fs::path shard = out / "unit-000002-000.safetensors";
  std::string bytes = bytes_in(out).at(shard.filename().string());
  bytes[bytes.size() - 100] ^= 4;
  write_file(shard, bytes);
  EXPECT_TRUE(throws<CheckpointError>([&] { verify_store(out); }, shard.string(), {"CRC-32"}));
  write_file(shard, bytes.substr(0, bytes.size() - 8));
  const auto store = ActivationStore::open(out);
  EXPECT_THROW(store.read(0, store.rows()), CheckpointError);
  fs::remove(shard);
  EXPECT_THROW(store.read(0, store.rows()), IoError);
  EXPECT_NO_THROW(store.read(0, 1));
  std::string manifest = bytes_in(out).at("manifest.json");
  for (const char* wrong : {"", "{", "[]", "{\"format\": \"hooked activations\"}"}) {
    write_file(out / "manifest.json", wrong);
    EXPECT_THROW(ActivationStore::open(out), CheckpointError) << wrong;
  }
  const std::string version = "\"version\":1";
  write_file(out / "manifest.json",
             manifest.replace(manifest.find(version), version.size(), "\"version\":2"));
  EXPECT_TRUE(throws<CheckpointError>([&] { ActivationStore::open(out); }, (out / "manifest.json").string(),
                                      {"version is 2", "newer hooked"}));
}

TEST_F(HarvestTest, ACorpusThatChangesEndsIt) {
  const fs::path out = folder / "acts";
  const auto options = packed_options(act::resid_pre(2));
  harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens, .units = Ids{0}});
  std::string text = read_text_file(folder / "corpus.jsonl", 1 << 20);
  text[text.rfind('1')] = '2';  // of the same size
  write_file(folder / "corpus.jsonl", text);
  EXPECT_TRUE(
      throws<CheckpointError>([&] { harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens}); },
                              (folder / "corpus.jsonl").string(), {"not what it was"}));
  EXPECT_GT(store_status(out).units - static_cast<std::int64_t>(store_status(out).missing.size()), 1);
}

TEST_F(HarvestTest, HooksAndEditsAreInForce) {
  auto options = packed_options(act::resid_post(1));
  const auto first = [&] {
    return ActivationStream(model, corpus, options).next()->activations.at("blocks.1.hook_resid_post");
  };
  const at::Tensor plain = first();
  const Edit edit = add(act::resid_pre(0), 1.5);
  options.edits = edit;
  const at::Tensor edited = first();
  options.edits = {};
  const auto hook = model.hook(act::resid_pre(0), [](const at::Tensor& x) { return x + 1.5; });
  EXPECT_FALSE(at::allclose(plain, edited));
  EXPECT_TRUE(at::equal(first(), edited));
}

// Rows whose numbers are finite count as such even if their sum is not.
TEST_F(HarvestTest, RowsThatAreNotFiniteAreCounted) {
  using Limits = std::numeric_limits<double>;
  for (const auto& [dtype, largest] :
       {std::pair(at::kFloat, 3e38), {at::kHalf, 6.5e4}, {at::kBFloat16, 3e38}, {at::kDouble, 1.7e308}}) {
    auto options = packed_options(act::resid_post(1));
    options.dtype = dtype;
    for (const double value : {largest, Limits::infinity(), Limits::quiet_NaN()}) {
      const fs::path out = folder / fmt::format("{}-{}", c10::toString(dtype), value);
      options.edits = set(act::resid_post(1).pos(2), value);
      const auto status = harvest(model, corpus, out, options, {.unit_tokens = kUnitTokens}).status;
      EXPECT_EQ(status.not_finite, value == largest ? 0 : status.contexts) << out;
    }
  }
}

TEST_F(HarvestTest, AStreamGivesTheRowsOfTheStore) {
  auto options = packed_options(act::resid_post(1));
  options.dtype = at::kFloat;
  options.rows = {.skip_first = 1, .share = 0.5, .seed = 3};
  harvest(model, corpus, folder / "acts", options);
  const auto store = ActivationStore::open(folder / "acts");
  ActivationStream stream(model, corpus, options);
  std::int64_t rows = 0;
  while (const auto some = stream.next()) {
    const ActivationRows stored = store.read(rows, rows + some->rows());
    EXPECT_TRUE(at::equal(some->activations.at("blocks.1.hook_resid_post"),
                          stored.activations.at("blocks.1.hook_resid_post")));
    EXPECT_EQ(some->activations.at("blocks.1.hook_resid_post").scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(some->offsets, stored.offsets));
    rows += some->rows();
  }
  EXPECT_EQ(rows, store.rows());
  EXPECT_FALSE(stream.next());
}

TEST_F(HarvestTest, NamesWithoutARowForEachTokenAreRefused) {
  const HookedTransformer both = random_model(two_stack_config());
  const auto stream = [&](const HookedTransformer& of, Selection names) {
    return [&, names] { ActivationStream(of, corpus, packed_options(names)).next(); };
  };
  EXPECT_TRUE(throws<HookError>(stream(both, act::resid_post(0)), "decoder.0.hook_resid_post", {"decoder"}));
  EXPECT_NO_THROW(stream(both, "encoder.1.hook_resid_post")());
  EXPECT_THROW(stream(model, Selection())(), HookError);
  EXPECT_THROW(stream(model, "blocks.7.hook_resid_post")(), HookError);
}

TEST_F(HarvestTest, AnEstimateIsWhatAHarvestDoes) {
  const auto options = packed_options(act::resid_post(1));
  const auto estimate = estimate_harvest(model, corpus, options, {.unit_tokens = 200});
  const auto summary = harvest(model, corpus, folder / "acts", options, {.unit_tokens = 200});
  EXPECT_TRUE(estimate.exact);
  EXPECT_EQ(estimate.units, summary.status.units);
  EXPECT_EQ(estimate.rows, summary.status.rows);
  EXPECT_EQ(estimate.tokens, summary.status.tokens);
  EXPECT_EQ(estimate.shards, summary.status.shards);
  EXPECT_LT(estimate.bytes, summary.status.bytes);  // by the files' headers
  EXPECT_GT(estimate.bytes + 2000 * static_cast<std::uint64_t>(summary.status.shards), summary.status.bytes);
  EXPECT_GT(estimate.tokens_per_second, 0);
}

TEST_F(HarvestTest, MomentsAreThoseOfAllRows) {
  const auto options = packed_options(act::resid_post(1) | act::z(0));
  harvest(model, corpus, folder / "acts", options, {.unit_tokens = kUnitTokens});
  harvest(model, corpus, folder / "moments", options,
          {.unit_tokens = kUnitTokens, .reduce = {.moments = true}});
  const auto store = ActivationStore::open(folder / "acts");
  const ActivationRows rows = store.read(0, store.rows());
  const auto moments = ActivationMoments::load(folder / "moments");
  ASSERT_EQ(moments.size(), 2U);
  for (const auto& [name, found] : moments) {
    const at::Tensor x = rows.activations.at(name).flatten(1);
    EXPECT_EQ(found.rows, x.size(0));
    EXPECT_TRUE(at::allclose(found.mean().flatten(), x.mean(0), 1e-12, 1e-12));
    const at::Tensor centred = x - x.mean(0);
    EXPECT_TRUE(at::allclose(found.covariance(), centred.t().matmul(centred) / static_cast<double>(x.size(0)),
                             1e-10, 1e-12));
  }
  EXPECT_EQ(moments.at("blocks.0.attn.hook_z").mean().sizes().vec(), (std::vector<std::int64_t>{4, 6}));
  EXPECT_THROW(ActivationStore::open(folder / "moments"), CheckpointError);
  EXPECT_THROW(FeatureExamples::load(folder / "moments"), IoError);
}

// Whether an example is that row of contexts of five, with two tokens before it and one after.
bool is_example(const ActivationRows& rows, std::int64_t row, const FeatureExamples& found,
                std::int64_t feature, std::int64_t k) {
  if (found.documents[feature][k].item<std::int64_t>() != rows.documents[row].item<std::int64_t>())
    return false;
  if (found.offsets[feature][k].item<std::int64_t>() != rows.offsets[row].item<std::int64_t>()) return false;
  for (std::int64_t place = 0; place < 4; ++place) {
    const std::int64_t position = rows.positions[row].item<std::int64_t>() + place - 2;
    const bool there = position >= 0 && position < 5;
    const int token = there ? rows.tokens[row + place - 2].item<int>() : -1;
    if (found.tokens[feature][k][place].item<int>() != token) return false;
  }
  return true;
}

TEST_F(HarvestTest, ExamplesAreTheLargestCodes) {
  const ActivationName place = act::resid_post(1).name();
  const auto spliced =
      model.with_dictionary(fitted_to(random_autoencoder(place.to_string(), 8, at::kDouble), model.config()));
  const std::string codes = place.to_string() + ".hook_sae_acts_post";
  const auto options = packed_options(codes);
  const StoreOptions reduced{.unit_tokens = kUnitTokens,
                             .reduce = {.examples = 3, .example_before = 2, .example_after = 1}};
  harvest(spliced, corpus, folder / "acts", options, {.unit_tokens = kUnitTokens});
  harvest(spliced, corpus, folder / "examples", options, reduced);
  const auto store = ActivationStore::open(folder / "acts");
  const ActivationRows rows = store.read(0, store.rows());
  const at::Tensor values = rows.activations.at(codes);
  const auto found = FeatureExamples::load(folder / "examples").at(codes);
  EXPECT_EQ(found.rows, store.rows());
  EXPECT_TRUE(at::equal(found.fired, values.ne(0).sum(0)));
  const at::Tensor sorted = std::get<0>(values.sort(0, true));
  for (std::int64_t feature = 0; feature < values.size(1); ++feature) {
    for (std::int64_t k = 0; k < 3; ++k) {
      const double value = sorted[k][feature].item<double>();
      ASSERT_EQ(found.values[feature][k].item<double>(), value);
      if (value == 0) {
        EXPECT_EQ(found.documents[feature][k].item<std::int64_t>(), -1);
        EXPECT_TRUE(found.tokens[feature][k].eq(-1).all().item<bool>());
        continue;
      }
      // Equal contexts have equal codes: one of the rows with this value is the example.
      const at::Tensor rows_of_value = values.select(1, feature).eq(value).nonzero().flatten();
      bool matches = false;
      for (std::int64_t i = 0; i < rows_of_value.numel(); ++i)
        matches |= is_example(rows, rows_of_value[i].item<std::int64_t>(), found, feature, k);
      EXPECT_TRUE(matches) << feature << " " << k;
    }
  }
  EXPECT_THROW(harvest(model, corpus, folder / "none", packed_options(place), reduced), ConfigError);
}

TEST_F(HarvestTest, MinibatchesHoldEveryRowOnce) {
  harvest(model, corpus, folder / "acts", packed_options(act::resid_post(1)), {.unit_tokens = kUnitTokens});
  const auto store = ActivationStore::open(folder / "acts");
  const std::string name = "blocks.1.hook_resid_post";
  const ActivationRows all = store.read(0, store.rows());
  const auto number_of = [&](const ActivationRows& batch, std::int64_t i) {
    const at::Tensor same = all.activations.at(name).eq(batch.activations.at(name)[i]).all(1) &
                            all.documents.eq(batch.documents[i]) & all.contexts.eq(batch.contexts[i]) &
                            all.positions.eq(batch.positions[i]);
    EXPECT_EQ(same.sum().item<std::int64_t>(), 1);
    return same.nonzero()[0][0].item<std::int64_t>();
  };
  const auto drawn = [&](const MinibatchOptions& options) {
    std::vector<std::int64_t> numbers;
    auto batches = store.minibatches(options);
    while (const auto batch = batches.next()) {
      EXPECT_LE(batch->rows(), options.rows);
      for (std::int64_t i = 0; i < batch->rows(); ++i) {
        numbers.push_back(number_of(*batch, i));
        EXPECT_EQ(batch->tokens[i].item<int>(), all.tokens[numbers.back()].item<int>());
      }
    }
    return numbers;
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(store.rows()));
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(drawn({.rows = 7, .mixing_rows = 0}), order);
  for (const std::int64_t mixing : {1, 50, 100'000}) {
    auto numbers = drawn({.rows = 7, .seed = 5, .mixing_rows = mixing});
    EXPECT_EQ(drawn({.rows = 7, .seed = 5, .mixing_rows = mixing}), numbers);
    EXPECT_NE(drawn({.rows = 7, .seed = 6, .mixing_rows = mixing}), numbers);
    EXPECT_NE(numbers, order);
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers, order);
  }
  EXPECT_EQ(drawn({.rows = 7, .passes = 3}).size(), 3 * order.size());
  EXPECT_EQ(drawn({.rows = 7, .drop_last = true}).size(), order.size() / 7 * 7);
  const ActivationRows some = store.rows_at(at::tensor(Ids{30, 2, 30, 17}, at::kLong), {name});
  EXPECT_TRUE(at::equal(some.activations.at(name),
                        all.activations.at(name).index_select(0, at::tensor(Ids{30, 2, 30, 17}, at::kLong))));
  EXPECT_THROW(store.rows_at(at::tensor(Ids{store.rows()}, at::kLong)), ShapeError);
  EXPECT_THROW(store.read(3, 3), ShapeError);
  EXPECT_THROW(store.read(0, 1, {"else"}), HookError);
}

TEST(Launchers, GiveTheirProcessesShares) {
  const ScopedEnvironment none({"RANK", "WORLD_SIZE", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
                                "SLURM_ARRAY_TASK_MIN", "SLURM_PROCID", "SLURM_NTASKS",
                                "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"});
  EXPECT_TRUE(throws<ConfigError>([] { UnitShare::of_launcher(); }, "units", {"RANK"}));
  ScopedEnvironment::set("SLURM_ARRAY_TASK_ID", "7");
  ScopedEnvironment::set("SLURM_ARRAY_TASK_COUNT", "4");
  ScopedEnvironment::set("SLURM_ARRAY_TASK_MIN", "5");
  EXPECT_EQ(UnitShare::of_launcher().index, 2);
  ScopedEnvironment::set("RANK", "1");
  ScopedEnvironment::set("WORLD_SIZE", "3");
  EXPECT_EQ(UnitShare::of_launcher().of, 3);
  ScopedEnvironment::set("RANK", "3");
  EXPECT_TRUE(throws<ConfigError>([] { UnitShare::of_launcher(); }, "RANK", {"share 3 of 3"}));
  ScopedEnvironment::set("RANK", "one");
  EXPECT_TRUE(throws<ConfigError>([] { UnitShare::of_launcher(); }, "RANK", {"not a number"}));
}

}  // namespace
}  // namespace hooked::harvest_test
