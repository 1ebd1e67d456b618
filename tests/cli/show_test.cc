#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "hooked/core/version.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/golden_folder.h"
#include "tests/support/relative_difference.h"

namespace hooked::show_test {
namespace {

class Show : public CliTest {
 protected:
  /// `hooked cache` on three tokens.
  std::string cached(const std::vector<std::string>& more = {}) const {
    const std::string out = path("out.safetensors");
    std::vector<std::string> arguments = {"cache", model(), "--tokens", "1,2,3", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    succeed(arguments);
    return out;
  }
  std::string others() const {
    const std::string out = path("others.safetensors");
    save_safetensors(out, {{"wte.weight", at::ones({3, 2})}, {"hook_embed", at::ones({1, 3, 12})}},
                     {.metadata = {{"format", "pt"}, {"axes", "of evil"}}});
    return out;
  }
  static void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const auto& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
};

TEST_F(Show, SaysWhereACacheComesFrom) {
  const auto out =
      succeed({"show", cached({"--edit", "z0[head=1] zero", "--edit", "hook_embed scale 2"})}).out;
  expect_parts(
      out, {"out.safetensors: 42 tensors, ", "hooked version  " + std::string(version()) + "\n",
            "model           " + model() + "\n", "config          SHA-1 " + load().provenance().config_sha1,
            "dtype           float32\n", "processing      applied: fold_ln",
            "edits           z0[head=1] zero; hook_embed scale 2\n",
            "input           1,2,3 (1 x 3 tokens in all)\n", "layers 0-1      resid_pre, ",
            "outside them    embed, ", "other tensors   tokens, logits\n"});
  EXPECT_EQ(out.find("not recorded"), std::string::npos) << out;
  EXPECT_EQ(out.find("revision"), std::string::npos) << "the model came from no hub cache";
  expect_parts(succeed({"show", cached()}).out, {"edits           none\n"});
}

TEST_F(Show, ListsEveryTensorWithItsAxes) {
  const auto out = succeed({"show", cached(), "--list"}).out;
  expect_parts(out, {"\n  tokens ", "[batch 1, pos 3]", " int64\n", "[batch 1, pos 3, vocab 11]",
                     "[batch 1, head 3, query 3, key 3]", "blocks.1.attn.hook_z ", "float32\n"});
  const auto brief = succeed({"show", cached()}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n') - std::count(brief.begin(), brief.end(), '\n'), 43)
      << "a line each, and one of titles";
}

TEST_F(Show, JsonHasEverything) {
  const Json json = succeed({"show", cached({"--names", "blocks.1.attn.hook_pattern"}), "--json"}).json();
  EXPECT_EQ(json["model"], model());
  EXPECT_EQ(json["provenance"]["tokens"], parse_json("[[1, 2, 3]]", {}));
  EXPECT_EQ(json["provenance"]["edits"], Json::array());
  EXPECT_TRUE(json["provenance"]["texts"].is_null());
  EXPECT_TRUE(json["provenance"]["revision"].is_null());
  EXPECT_EQ(json["processing"]["fold_ln"], "applied");
  ASSERT_EQ(json["tensors"].size(), 3u);
  EXPECT_EQ(json["tensors"][2], parse_json(R"({"name": "blocks.1.attn.hook_pattern",
      "axes": ["batch", "head", "query", "key"], "shape": [1, 3, 3, 3], "dtype": "float32", "bytes": 108})",
                                           {}));
  EXPECT_EQ(json["bytes"], 3 * 8 + 3 * 11 * 4 + 108);
}

TEST_F(Show, TextIsShownAsItWasGiven) {
  write_tokenizer();
  const std::string out = path("text.safetensors");
  succeed({"cache", model(), "--text", "w2 w3", "--text", "w4", "--text", "w5", "--out", out});
  expect_parts(succeed({"show", out}).out, {"\"w2 w3\"; \"w4\"; and 1 more (3 x 3 tokens in all)\n"});
  EXPECT_EQ(succeed({"show", out, "--json"}).json()["provenance"]["texts"],
            Json::array({"w2 w3", "w4", "w5"}));
  // The file is an input: with the padding that its rows had.
  EXPECT_EQ(succeed({"run", model(), "--tokens-file", out, "--json"}).json()["rows"][1]["position"], 1);
}

TEST_F(Show, ARevisionOfAHubCacheIsNamed) {
  const auto snapshot = folder_ / "models--org--name" / "snapshots" / "c0ffee";
  std::filesystem::create_directories(snapshot.parent_path());
  std::filesystem::rename(model(), snapshot);
  const std::string out = path("out.safetensors");
  succeed({"cache", snapshot.string(), "--tokens", "1", "--out", out});
  expect_parts(succeed({"show", out}).out, {"revision        c0ffee\n"});
}

TEST_F(Show, FilesOfOthersSayWhatIsNotRecorded) {
  const auto out = succeed({"show", others()}).out;
  expect_parts(
      out, {"others.safetensors: 2 tensors, 168 bytes\n", "axes           of evil\n", "format         pt\n",
            "not recorded   hooked version, model, config, fingerprint, dtype, processing,\n"});
  expect_parts(succeed({"show", others(), "--list"}).out, {"wte.weight  [3, 2]      float32\n"});
  const Json json = succeed({"show", others(), "--json"}).json();
  EXPECT_TRUE(json["model"].is_null());
  EXPECT_EQ(json["provenance"]["more"]["format"], "pt");
  EXPECT_TRUE(json["tensors"][0]["axes"].is_null());
}

TEST_F(Show, CapturesOfAGenerationSayWhyTheyEnd) {
  const std::string out = path("made.safetensors");
  succeed({"generate", model(), "--tokens", "1,2", "--max-new-tokens", "3", "--greedy", "--no-stop-tokens",
           "--prompt-edit", "hook_embed scale 2", "--capture", "*.hook_resid_post", "--out", out});
  expect_parts(succeed({"show", out}).out,
               {"1,2 (1 x 5 tokens in all)\n", "stopped         [\"length\"]\n",
                "prompt_edits    [\"hook_embed scale 2\"]\n", "other tensors   tokens, attention_mask\n"});
  const auto cache = ActivationCache::load(out);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache["resid_post1[pos=last]"].sizes(), (at::IntArrayRef{1, 12}));
}

TEST_F(Show, OnlyTheHeaderIsRead) {
  const auto file = cached();
  const auto before = succeed({"show", file, "--json"}).out;
  std::string bytes = read("out.safetensors");
  std::fill(bytes.end() - 1000, bytes.end(), '\xFF');
  write("out.safetensors", bytes);
  EXPECT_EQ(succeed({"show", file, "--json"}).out, before);
}

TEST_F(Show, WrongFilesAreRefused) {
  expect_failure({"show", path("absent.safetensors")}, 1, "absent.safetensors");
  expect_failure({"show", model()}, 1, "folder");
  write("text.safetensors", "{\"no\": \"header\"}");
  expect_failure({"show", path("text.safetensors")}, 1, "plain JSON");
  std::string bytes = read(std::filesystem::path(cached()).filename().string());
  write("cut.safetensors", bytes.substr(0, bytes.size() - 1));
  expect_failure({"show", path("cut.safetensors")}, 1, "cut.safetensors");
  save_safetensors(path("damaged.safetensors"), {{"x", at::ones({1})}},
                   {.metadata = {{"hooked_version", "0.1.0"}, {"edits", "z0 zero"}}});
  expect_failure({"show", path("damaged.safetensors")}, 1, "'edits'");
  expect_failure({"show"}, 2, "FILE");
  expect_failure({"show", others(), "--list", "--json"}, 2, "--json");
}

TEST_F(Show, ACacheOfADecoderAndItsEncoderReadsBack) {
  const std::string t5 = golden_folder("cases/t5").string();
  save_safetensors(path("in.safetensors"),
                   {{"tokens", at::tensor({3, 4, 5, 0}, at::kLong).view({2, 2})},
                    {"attention_mask", at::tensor({1, 1, 1, 0}, at::kLong).view({2, 2})},
                    {"decoder_tokens", at::tensor({0, 6, 0, 7}, at::kLong).view({2, 2})}});
  const std::string out = path("t5.safetensors"), again = path("again.safetensors");
  succeed({"cache", t5, "--tokens-file", path("in.safetensors"), "--out", out});
  const auto file = SafetensorsFile::open(out);
  EXPECT_EQ(file.read("attention_mask").sum().item<std::int64_t>(), 3) << "the encoder's";
  EXPECT_FALSE(file.find("decoder_attention_mask"));
  succeed({"cache", t5, "--tokens-file", out, "--out", again});
  EXPECT_TRUE(at::equal(SafetensorsFile::open(again).read("logits"), file.read("logits")));
  EXPECT_EQ(ActivationCache::load(out)["encoder.0.hook_resid_pre[pos=last]"].size(0), 2);
  expect_parts(succeed({"show", out}).out, {"encoder layers 0-", "decoder layers 0-", "other tensors"});
}

TEST_F(Show, AGenerationOfADecoderIsAnInputToo) {
  const std::string t5 = golden_folder("cases/t5").string();
  const std::string made = path("made.safetensors");
  succeed({"generate", t5, "--tokens", "3,4,5", "--max-new-tokens", "3", "--greedy", "--no-stop-tokens",
           "--dtype", "float64", "--capture", "*.hook_resid_post", "--out", made});
  const auto file = SafetensorsFile::open(made);
  EXPECT_TRUE(at::equal(file.read("tokens"), at::tensor({3, 4, 5}, at::kLong).view({1, 3})));
  EXPECT_EQ(file.read("decoder_tokens").sizes(), (at::IntArrayRef{1, 4}));
  EXPECT_EQ(file.read("decoder_attention_mask").sizes(), (at::IntArrayRef{1, 4}));
  const auto cache = ActivationCache::load(made);
  const auto again = path("again.safetensors");
  succeed({"cache", t5, "--tokens-file", made, "--dtype", "float64", "--out", again});
  const auto rerun = ActivationCache::load(again);
  for (const auto& entry : cache)
    EXPECT_LT(relative_difference(entry.value(), rerun.entry(entry.name).value()), kDoubleTolerance);
  EXPECT_GT(cache.size(), 2u);
}

}  // namespace
}  // namespace hooked::show_test
