#include "hooked/engine/hooked_transformer.h"

#include <ATen/Context.h>
#include <c10/util/hash.h>
#include <dlfcn.h>

#include <filesystem>

#include "hooked/core/tensor_text.h"
#include "hooked/engine/trainable_transformer.h"
#include "hooked/io/file.h"
#include "tests/support/compare.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::hooked_transformer_test {
namespace {

TEST(HookedTransformer, NamesAreTheTablesInOrder) {
  const HookedTransformer model = random_model();
  EXPECT_EQ(model.names(), activation_names(model.config()));
  EXPECT_EQ(model.family(), "hooked_transformer");
  EXPECT_TRUE(model.notes().empty());
  EXPECT_TRUE(model.ignored_keys().empty());
}

TEST(HookedTransformer, RunWithCacheKeepsTheDefaultPoints) {
  const HookedTransformer model = random_model();
  const auto run = model.run_with_cache(random_tokens(model.config(), {2, 6}));
  for (const ActivationName& name : model.names())
    EXPECT_EQ(run.cache.contains(name), !row(name.site).wide) << name.to_string();
}

TEST(HookedTransformer, CaptureOfTheOptionsAndOfTheCallJoin) {
  const HookedTransformer model = random_model();
  const auto run =
      model.run_with_cache(random_tokens(model.config(), {2, 6}), act::z(0), {.capture = act::embed});
  EXPECT_EQ(run.cache.size(), 2u);
}

TEST(HookedTransformer, CopiesShareWeightsAndOutliveTheOriginal) {
  std::optional<HookedTransformer> model = random_model();
  const at::Tensor tokens = random_tokens(model->config(), {2, 6});
  const at::Tensor logits = (*model)(tokens);
  const HookedTransformer copy = *model;
  EXPECT_TRUE(copy.weights().W_E().is_alias_of(model->weights().W_E()));
  model.reset();
  EXPECT_TRUE(at::equal(copy(tokens), logits));
}

TEST(HookedTransformer, RunsAreRepeatableToTheBit) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  const at::Tensor first = model(tokens);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(model(tokens), first));
}

TEST(HookedTransformer, StateDictIsACopy) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6}), before = model(tokens);
  for (auto& [name, value] : model.state_dict()) at::Tensor(value).zero_();
  EXPECT_TRUE(at::equal(model(tokens), before));
}

TEST(HookedTransformer, KnowsWhereItComesFrom) {
  const TempFolder folder;
  const auto made = HookedTransformer::create(small_config(), {.seed = 1});
  EXPECT_EQ(made.provenance().model, "");
  std::uint64_t written = 0, size = 0;
  made.save(folder / "made", {.progress = [&](std::uint64_t done, std::uint64_t total) {
              written = done;
              size = total;
            }});
  std::filesystem::create_directories(folder / "models--org--name/snapshots");
  std::filesystem::rename(folder / "made", folder / "models--org--name/snapshots/c0ffee");
  EXPECT_EQ(written, size);
  EXPECT_GT(size, 0u);
  const std::string place = (folder / "models--org--name/snapshots/c0ffee").string();
  const auto model = HookedTransformer::load(place);
  const Provenance from = model.provenance();
  EXPECT_EQ(from.model, place);
  EXPECT_EQ(from.revision, "c0ffee");
  EXPECT_EQ(from.dtype, std::string(dtype_text(model.dtype())));
  EXPECT_EQ(from.processing.front(), (std::pair<std::string, std::string>{"fold_ln", "not requested"}));
  EXPECT_FALSE(from.edits) << "a model does not know what is done to it";
  EXPECT_EQ(from.config_sha1, made.provenance().config_sha1);
  EXPECT_EQ(from.config_sha1.size(), 40u);
  // The `sha1sum` of the saved config.json.
  const std::string config =
      read_text_file(folder / "models--org--name/snapshots/c0ffee/config.json", 1 << 20);
  EXPECT_EQ(from.config_sha1, c10::sha1(config).str());
  EXPECT_NE(HookedTransformer::load(place, {.dtype = at::kHalf}).provenance().config_sha1, from.config_sha1);
}

TEST(HookedTransformer, DoesNotSaveOverWhatItWasReadFrom) {
  const TempFolder folder;
  random_model().save(folder / "m");
  const auto place = (folder / "m").string();
  const auto model = HookedTransformer::load(place);
  const std::string said = "from which the model was read";
  // Copies that are models of their own, and a model trained from it, have the same origin.
  for (const auto& copy : {model, HookedTransformer(model), TrainableTransformer::from(model).freeze()}) {
    EXPECT_NE(text_thrown_by<IoError>([&] { copy.save(folder / "m"); }).find(said), std::string::npos);
  }
  EXPECT_NE(
      text_thrown_by<IoError>([&] { HookedTransformer::require_can_save(place, folder / "m"); }).find(said),
      std::string::npos);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto relative = HookedTransformer::load("./m");
  std::filesystem::current_path(before);
  EXPECT_THROW(relative.save(folder / "m"), IoError) << "wherever the program goes";
  for (int i = 0; i < 2; ++i) model.save(folder / "again");
  HookedTransformer::load(place, {.dtype = at::kDouble}).save(folder / "again");
  EXPECT_EQ(HookedTransformer::load((folder / "again").string()).dtype(), at::kDouble);
}

TEST(HookedTransformer, ResultsOutliveTheModel) {
  RunResult run;
  at::Tensor copy;
  {
    const HookedTransformer model = random_model();
    run = model.run_with_cache(random_tokens(model.config(), {2, 6}), act::everything);
    copy = run.cache[act::resid_post(2)].clone();
  }
  EXPECT_TRUE(at::equal(run.cache[act::resid_post(2)], copy));
}

class OnDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cpu") return;
    // With a driver, every failure to open the device is an error of ours.
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver == nullptr) GTEST_SKIP() << "no NVIDIA driver (" << dlerror() << ")";
    dlclose(driver);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

TEST_P(OnDevice, EveryPointAgreesWithTheCpu) {
  const HookedTransformer here = random_model(),
                          there = model_of(random_weights(small_config()), small_config(), GetParam());
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  const auto expected = here.run_with_cache(tokens, act::everything);
  const auto got = there.run_with_cache(tokens, act::everything, {.keep = {.device = "cpu"}});
  EXPECT_TRUE(agree(by_name(got.cache), by_name(expected.cache), {.tolerance = 1e-10}));
  EXPECT_LT(relative_difference(got.logits(), expected.logits()), 1e-10);
}

TEST_P(OnDevice, HooksEditsAndGradientsStayThere) {
  const HookedTransformer here = random_model(),
                          there = model_of(random_weights(small_config()), small_config(), GetParam());
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  const auto run = [&](const HookedTransformer& model) {
    return model.run(
        tokens,
        {.hooks = {{act::resid_pre(1), [](const at::Tensor& x) { return x * 0.5; }}},
         .edits = {zero(act::z(2).head(1).pos(AxisIndex::Last{})), scale(act::pattern(0).head(3), 0.5)},
         .gradients = GradientRequest{act::everything,
                                      [](const at::Tensor& logits) { return logits.square().sum(); }}});
  };
  const auto expected = run(here), got = run(there);
  EXPECT_LT(relative_difference(got.logits(), expected.logits()), 1e-10);
  EXPECT_TRUE(agree(by_name(got.gradients), by_name(expected.gradients), {.tolerance = 1e-9}));
}

}  // namespace
}  // namespace hooked::hooked_transformer_test
