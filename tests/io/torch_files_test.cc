// Checkpoints that torch.save wrote (tests/golden/make.py pickles), against their values as safetensors.
#include <ATen/ops/equal.h>

#include "core/json.h"
#include "tests/io/file_bytes.h"
#include "tests/support/zip_checkpoint.h"

namespace hooked::torch_files_test {
namespace {

const std::filesystem::path kFiles = HOOKED_SOURCE_DIR "/tests/io/files";

/// Bit for bit, so that NaN would count too.
void expect_same(const at::Tensor& got, const at::Tensor& wanted, const std::string& name) {
  EXPECT_EQ(got.dtype(), wanted.dtype()) << name;
  EXPECT_EQ(got.sizes(), wanted.sizes()) << name;
  EXPECT_TRUE(at::equal(got, wanted)) << name;
}

class TorchFile : public testing::TestWithParam<const char*> {};

TEST_P(TorchFile, HasTheValuesThatWereSaved) {
  const auto wanted = SafetensorsFile::open(kFiles / "expected.safetensors");
  const auto file = ZipCheckpoint::open(kFiles / GetParam());
  ASSERT_EQ(file.tensors().size(), 19U);
  ASSERT_EQ(wanted.tensors().size(), 19U);
  for (const auto& info : file.tensors()) {
    const auto expected = wanted.read(info.name);
    expect_same(file.read(info.name), expected, info.name);
    if (expected.dim() == 0) continue;
    for (std::int64_t row = 0; row < expected.size(0); ++row) {
      expect_same(file.read_rows(info.name, row, 1), expected.narrow(0, row, 1), info.name);
    }
  }
  EXPECT_EQ(file.tensors().front().name, "float64");
  EXPECT_EQ(file.find("tied")->begin, file.find("base")->begin);
  EXPECT_FALSE(file.read("transposed").is_contiguous());
  EXPECT_TRUE(file.notes().empty());
  EXPECT_EQ(file.values(), "{}");
}

INSTANTIATE_TEST_SUITE_P(Files, TorchFile,
                         testing::Values("protocol2.pt", "protocol3.pt", "protocol4.pt", "protocol5.pt",
                                         "repacked.pt"));

TEST(TorchFiles, WithoutChecksums) {
  const auto file = ZipCheckpoint::open(kFiles / "unchecked.pt");
  expect_same(file.read("float32"), SafetensorsFile::open(kFiles / "expected.safetensors").read("float32"),
              "");
  ASSERT_EQ(file.notes().size(), 1U);
}

TEST(TorchFiles, OfATrainingScript) {
  const auto file = ZipCheckpoint::open(kFiles / "training.pt");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.read("weight").sizes(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(file.read("bias").sizes(), (std::vector<std::int64_t>{1}));
  ASSERT_EQ(file.notes().size(), 1U);
  EXPECT_NE(file.notes()[0].find("_orig_mod."), std::string::npos);

  auto values = Json::parse(file.values());
  EXPECT_FALSE(values.contains("optimizer"));  // it holds tensors
  EXPECT_FALSE(values.contains("best_val_loss"));
  EXPECT_EQ(values["iter_num"], std::int64_t{1} << 40);
  auto& args = values["model_args"];
  EXPECT_EQ(args["n_embd"], 6);
  EXPECT_EQ(args["bias"], false);
  EXPECT_EQ(args["dropout"], 0.25);
  EXPECT_TRUE(args.contains("vocab_size") && args["vocab_size"].is_null());
  auto& config = values["config"];
  EXPECT_EQ(config["out_dir"], "out");
  EXPECT_EQ(config["betas"][1], 0.95);
  EXPECT_EQ(config["seed"], -(std::int64_t{1} << 33));
}

TEST(TorchFiles, ThatIsNoStateDict) {
  const auto refused = [](const std::string& name, std::initializer_list<std::string_view> parts) {
    expect_refused<CheckpointError>([&] { ZipCheckpoint::open(kFiles / name); }, (kFiles / name).native(),
                                    parts);
  };
  refused("module.pt", {"the global 'torch.nn.modules.linear.Linear' is not allowed"});
  refused("legacy.pt", {"Python pickle", "torch.save(torch.load(f), f)"});
  refused("expected.safetensors", {"looks like a safetensors file"});
}

}  // namespace
}  // namespace hooked::torch_files_test
