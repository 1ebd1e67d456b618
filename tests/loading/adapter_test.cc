// Adapters: where their base model is found, which of their settings and tensors are refused, and what a
// model made of one says of itself.
#include "loading/adapter/adapter.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/model_folder.h"
#include "hooked/loading/describe.h"
#include "tests/loading/load_in_its_size.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/golden_folder.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/thrown_by.h"
#include "tests/support/zip_writer.h"

namespace hooked::adapter_test {
namespace {

namespace fs = std::filesystem;

const std::string kQuery = "base_model.model.model.layers.0.self_attn.q_proj.";
const std::string kBaseQuery = "model.layers.0.self_attn.q_proj.weight";

/// A Llama in `base` and an adapter of its first queries in `adapter`, which tests may change.
class AdapterTest : public testing::Test {
 protected:
  AdapterTest() {
    fs::create_directories(folder_ / "base");
    for (const char* file : {"config.json", "model.safetensors"})
      fs::copy_file(golden_folder("cases/llama") / file, folder_ / "base" / file);
    const SafetensorsFile file = SafetensorsFile::open(folder_ / "base/model.safetensors");
    const at::Tensor query = file.read(kBaseQuery);
    tensors_[kQuery + "lora_A.weight"] = at::full({2, query.size(1)}, 0.5);
    tensors_[kQuery + "lora_B.weight"] = at::full({query.size(0), 2}, 0.25);
    tokens_ = read_golden(golden_case("llama")).tokens;
  }

  static Json small_config() {
    return {{"peft_type", "LORA"}, {"base_model_name_or_path", "../base"}, {"r", 2}, {"lora_alpha", 4}};
  }

  std::string write(const std::string& name = "adapter") const {
    const fs::path folder = folder_ / name;
    fs::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << config_.dump();
    save_safetensors(folder / "adapter_model.safetensors", {tensors_.begin(), tensors_.end()}, {});
    return folder.string();
  }

  static HookedTransformer load(const std::string& model) {
    return HookedTransformer::load(model, {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }

  at::Tensor logits(const std::string& model) const { return load(model).run(tokens_).logits(); }

  /// The adapter as it is now must be refused by an error of that class about `where` with these words.
  template <class Expected>
  void refused(const std::string& where, const std::vector<std::string>& said) {
    const std::string folder = write();
    const auto error = thrown_by<Expected>([&] { load(folder); });
    ASSERT_TRUE(error) << said.front();
    EXPECT_EQ(error->where(), where.empty() ? folder : folder + "/" + where);
    const std::string text = error->what();
    EXPECT_NE(text.find("; expected "), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const auto& words : said) EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
    EXPECT_THROW(describe(folder), Expected);
  }
  void config_refused(const std::string& key, const Json& value, const std::vector<std::string>& said) {
    const Json before = config_;
    config_[key] = value;
    refused<ConfigError>("adapter_config.json: " + key, said);
    config_ = before;
  }
  void tensors_refused(const std::vector<std::string>& said) {
    refused<CheckpointError>("adapter_model.safetensors", said);
  }

  TempFolder folder_;
  Json config_ = small_config();
  StateDict tensors_;
  at::Tensor tokens_;
};

TEST_F(AdapterTest, AddsItsProductToTheWeight) {
  const auto weights = [](const std::string& model) { return load(model).weights()["blocks.0.attn.W_Q"]; };
  const at::Tensor before = weights((folder_ / "base").string()), after = weights(write());
  // alpha / r times two products of 0.5 and 0.25, in each place.
  EXPECT_LT((after - before - 0.5).abs().max().item<double>(), 1e-15);
  config_["use_rslora"] = true;
  EXPECT_LT((weights(write()) - before - 0.5 * std::sqrt(2.0)).abs().max().item<double>(), 1e-15);
}

TEST_F(AdapterTest, SaysWhatItIs) {
  const std::string adapter = write();
  const auto model = load(adapter);
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_EQ(
      model.notes()[0],
      fmt::format("[{}] is an adapter of '../base' ({}) and was merged into it: 1 weights have its low-rank "
                  "products (rank 2) added",
                  adapter, adapter + "/../base"));
  const ModelDescription said = describe(adapter);
  ASSERT_TRUE(said.adapter);
  EXPECT_EQ(said.adapter->base, "../base");
  EXPECT_EQ(said.adapter->base_folder, adapter + "/../base");
  EXPECT_EQ(said.adapter->tensors, 2);
  EXPECT_EQ(said.adapter->bytes, (12 + 32) * 2 * 4);
  EXPECT_TRUE(said.ignored_files.empty());
  EXPECT_FALSE(describe((folder_ / "base").string()).adapter);
}

TEST_F(AdapterTest, TheBaseIsAFolderOrInTheCache) {
  const at::Tensor wanted = logits(write());
  config_["base_model_name_or_path"] = (folder_ / "base").string();
  EXPECT_TRUE(at::equal(logits(write()), wanted)) << "by its whole path";
  const auto before = fs::current_path();
  fs::create_directories(folder_ / "work");
  fs::current_path(folder_ / "work");
  config_["base_model_name_or_path"] = "../base";
  fs::rename(folder_ / "adapter", folder_ / "work/inner");
  EXPECT_TRUE(at::equal(logits(write("work/deep/er")), wanted)) << "from where the program runs";
  fs::current_path(before);

  const ScopedEnvironment environment(kHubSettings);
  ScopedEnvironment::set("HF_HUB_CACHE", (folder_ / "cache").string());
  config_["base_model_name_or_path"] = "org/base";
  const auto error = thrown_by<CheckpointError>([&] { load(write()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), (folder_ / "adapter/adapter_config.json: base_model_name_or_path").string());
  for (const char* said : {"base model 'org/base'", "not found", "`hf download org/base`"})
    EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << said << ": " << error->what();

  const fs::path cached = folder_ / "cache/models--org--base";
  fs::create_directories(cached / "snapshots");
  fs::create_directories(cached / "refs");
  fs::create_directory_symlink(folder_ / "base", cached / "snapshots/c0ffee");
  std::ofstream(cached / "refs/main") << "c0ffee";
  EXPECT_TRUE(at::equal(logits(write()), wanted));
  config_["revision"] = "v2";
  EXPECT_THROW(load(write()), CheckpointError);
  std::ofstream(cached / "refs/v2") << "c0ffee";
  EXPECT_TRUE(at::equal(logits(write()), wanted));
}

TEST_F(AdapterTest, TheTokenizerIsItsOwnOrTheBasesAndFilesAreFound) {
  const auto tokenizer = [](int id) {
    return fmt::format(
        R"({{"model": {{"type": "WordLevel", "vocab": {{"word": {}}}, "unk_token": "word"}}}})", id);
  };
  std::ofstream(folder_ / "base/tokenizer.json") << tokenizer(3);
  const std::string adapter = write();
  EXPECT_EQ(load(adapter).to_token("word"), 3);
  EXPECT_EQ(load_tokenizer(adapter).encode("word").ids, std::vector<std::int64_t>{3});
  std::ofstream(fs::path(adapter) / "tokenizer.json") << tokenizer(5);
  EXPECT_EQ(load(adapter).to_token("word"), 5);
  EXPECT_EQ(load_tokenizer(adapter).encode("word").ids, std::vector<std::int64_t>{5});
}

TEST_F(AdapterTest, AZipCheckpointOfItIsRead) {
  const at::Tensor wanted = logits(write());
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<std::string> storages;
  for (const auto& [name, tensor] : tensors_) {
    const auto storage =
        pickled_storage("FloatStorage", std::to_string(storages.size()), pickled(tensor.numel()));
    entries.emplace_back(
        name, pickled_tensor(storage, {.sizes = tensor.sizes().vec(), .strides = {tensor.size(1), 1}}));
    storages.emplace_back(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  std::ofstream(folder_ / "adapter/adapter_model.bin", std::ios::binary)
      << checkpoint_bytes(pickle_of(pickled_dict(entries)), storages);
  fs::remove(folder_ / "adapter/adapter_model.safetensors");
  EXPECT_TRUE(at::equal(logits((folder_ / "adapter").string()), wanted));
}

TEST_F(AdapterTest, BesideAWholeModelItIsNotedAndNotRead) {
  const std::string adapter = write();
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(folder_ / "base" / file, fs::path(adapter) / file);
  EXPECT_TRUE(at::equal(logits(adapter), logits((folder_ / "base").string())));
  ASSERT_EQ(load(adapter).notes().size(), 1u);
  EXPECT_NE(load(adapter).notes()[0].find("was not merged"), std::string::npos);
}

TEST_F(AdapterTest, KeysThatAreNotHonouredAreRefused) {
  config_refused("peft_type", "LOHA", {"expected LORA"});
  config_refused("r", 0, {"rank"});
  config_refused("bias", "some", {"lora_only"});
  for (const char* kind : {"pissa", "pissa_niter_16", "olora", "loftq", "corda", "lora_ga", "something"})
    config_refused("init_lora_weights", kind, {kind, "path_initial_model_for_weight_conversion"});
  for (const char* key : {"alora_invocation_tokens", "arrow_config", "ensure_weight_tying", "kasa_config",
                          "layer_replication", "megatron_config", "monteclora_config", "target_parameters",
                          "trainable_token_indices", "use_bdlora", "use_qalora", "velora_config"}) {
    config_refused(key, Json::array({1}), {"is not supported"});
    for (const Json& unset : {Json(nullptr), Json(false), Json::array(), Json::object()}) {
      config_[key] = unset;
      EXPECT_NO_THROW(load(write())) << key;
    }
  }
  config_["alpha_pattern"] = Json{{"q_(proj", 3}};
  refused<ConfigError>("adapter_config.json: alpha_pattern.q_(proj", {"regular expression"});
  config_.erase("alpha_pattern");
  config_refused("lora_alpha", "4", {"number"});
  config_["favourite_colour"] = "green";
  refused<ConfigError>("adapter_config.json: favourite_colour", {"favourite_colour"});
  config_.erase("favourite_colour");
  for (const Json& base : {Json(nullptr), Json("")})
    config_refused("base_model_name_or_path", base, {"names no base model"});
}

TEST_F(AdapterTest, KeysThatEachPeftWritesAreKnown) {
  for (const auto& entry : fs::directory_iterator(HOOKED_SOURCE_DIR "/tests/golden/adapters")) {
    std::ifstream file(entry.path() / "adapter_config.json", std::ios::binary);
    const Json recorded = parse_json(std::string(std::istreambuf_iterator<char>(file), {}), {});
    for (const auto& [key, value] : recorded.items()) {
      if (!small_config().contains(key) && (value.is_null() || value == false)) config_[key] = value;
    }
  }
  EXPECT_GT(config_.size(), 10u);
  EXPECT_NO_THROW(load(write()));
}

TEST_F(AdapterTest, PatternsThatBacktrackForEverEndInAnError) {
  config_["alpha_pattern"] = Json{{R"((?:\w|.)*\d)", 3}};
  refused<ConfigError>("adapter_config.json", {"pattern of modules"});
}

TEST_F(AdapterTest, AnAdapterOfAnAdapterIsRefused) {
  write("first");
  config_["base_model_name_or_path"] = "../first";
  refused<CheckpointError>("adapter_config.json: base_model_name_or_path", {"'../first'", "adapter itself"});
  config_["base_model_name_or_path"] = ".";
  refused<CheckpointError>("adapter_config.json: base_model_name_or_path", {"adapter itself"});
}

TEST_F(AdapterTest, EveryTensorMustFit) {
  const StateDict good = tensors_;
  const auto with = [&](const std::string& name, const at::Tensor& tensor) {
    tensors_ = good;
    tensors_[name] = tensor;
  };
  with("base_model.model.model.layers.7.mlp.up_proj.lora_A.weight", at::ones({2, 12}));
  refused<CheckpointError>("", {"1 tensors of the adapter fit no weight", "'../base'", "layers.7.mlp"});
  with("base_model.model.score.weight", at::ones({2, 12}));
  refused<CheckpointError>("", {"base_model.model.score.weight"});
  with("model.layers.0.self_attn.q_proj.weight", at::ones({12, 12}));
  tensors_refused({"'model.layers.0.self_attn.q_proj.weight'", "base_model.model."});
  with("base_model.model.model.norm.weight", at::ones({13}));
  tensors_refused({"norm.weight", "[12]", "[13]", "vocabulary"});
  with("base_model.model.model.norm.weight", at::ones({12}, at::kLong));
  tensors_refused({"norm.weight", "I64", "floating point"});
  with(kQuery + "lora_A.weight", at::ones({2, 13}));
  tensors_refused({"lora_A", "lora_B", "[32, 12]", "[2, 13]"});
  with(kQuery + "lora_A.weight", at::ones({24}));
  tensors_refused({"lora_A", "[24]"});
  with(kQuery + "lora_A.weight", at::ones({3, 12}));
  tensors_refused({"lora_A", "two matrices"});
  tensors_[kQuery + "lora_B.weight"] = at::ones({32, 3});
  tensors_refused({"lora_A", "another rank", "expected 2, got 3"});
  config_["rank_pattern"] = Json{{"layers.0.self_attn.q_proj", 3}};
  EXPECT_NO_THROW(load(write()));
  config_.erase("rank_pattern");
  for (const char* part : {"A", "B"}) {
    tensors_ = good;
    tensors_.erase(fmt::format("{}lora_{}.weight", kQuery, part));
    refused<CheckpointError>("", {"q_proj' lacks lora_", part});
  }
  tensors_ = {};
  refused<CheckpointError>("", {"no tensors"});
}

TEST_F(AdapterTest, TensorsAndConfigMustSpeakOfTheSame) {
  const StateDict good = tensors_;
  tensors_[kQuery + "lora_magnitude_vector"] = at::ones({32});
  refused<CheckpointError>("", {"has a lora_magnitude_vector", "use_dora"});
  config_["use_dora"] = true;
  EXPECT_NO_THROW(load(write()));
  tensors_[kQuery + "lora_magnitude_vector"] = at::ones({1, 32});
  tensors_refused({"lora_magnitude_vector", "[32]", "[1, 32]"});
  tensors_ = good;
  refused<CheckpointError>("", {"lacks a lora_magnitude_vector", "use_dora"});
  config_ = small_config();
  tensors_[kQuery + "lora_B.bias"] = at::ones({32});
  refused<CheckpointError>("", {"has a bias of lora_B", "lora_bias"});
  config_["lora_bias"] = true;
  tensors_refused({"lora_B.bias", "bias that the base model does not have"});
}

TEST_F(AdapterTest, WithoutWeightsItIsRefused) {
  const std::string adapter = write();
  fs::remove(fs::path(adapter) / "adapter_model.safetensors");
  const auto error = thrown_by<CheckpointError>([&] { load(adapter); });
  ASSERT_TRUE(error);
  for (const char* said : {"no weights", "adapter_model.safetensors", "adapter_model.bin"})
    EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << error->what();
}

// Weights that are stored in eight bits are changed after decoding.
TEST_F(AdapterTest, AQuantisedBaseIsChangedInNumbers) {
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(golden_folder("cases/llama_fp8_rows") / file, folder_ / "base" / file,
                  fs::copy_options::overwrite_existing);
  }
  const auto weights = [](const std::string& model) { return load(model).weights()["blocks.0.attn.W_Q"]; };
  const at::Tensor before = weights((folder_ / "base").string());
  tensors_[kQuery + "lora_A.weight"] = at::full({2, before.size(1)}, 0.5);
  tensors_[kQuery + "lora_B.weight"] = at::full({before.size(0) * before.size(2), 2}, 0.25);
  EXPECT_LT((weights(write()) - before - 0.5).abs().max().item<double>(), 1e-15);
}

TEST_F(AdapterTest, LoadingTakesHardlyMoreMemoryThanTheModel) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  constexpr int kWidth = 1024, kLayers = 8, kRank = 8;
  std::ifstream file(folder_ / "base/config.json", std::ios::binary);
  Json config = parse_json(std::string(std::istreambuf_iterator<char>(file), {}), {});
  config.update({{"hidden_size", kWidth},
                 {"intermediate_size", kWidth},
                 {"num_hidden_layers", kLayers},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 8},
                 {"vocab_size", 16},
                 {"head_dim", kWidth / 8}});
  std::ofstream(folder_ / "base/config.json") << config.dump();
  const auto random = [](at::IntArrayRef sizes) { return at::full(sizes, 0.01, at::kBFloat16); };
  std::map<std::string, at::Tensor> base{{"model.embed_tokens.weight", random({16, kWidth})},
                                         {"lm_head.weight", random({16, kWidth})},
                                         {"model.norm.weight", random({kWidth})}};
  tensors_.clear();
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    for (const char* name :
         {"self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"}) {
      base[fmt::format("{}{}_proj.weight", at, name)] = random({kWidth, kWidth});
      tensors_[fmt::format("base_model.model.{}{}_proj.lora_A.weight", at, name)] = random({kRank, kWidth});
      tensors_[fmt::format("base_model.model.{}{}_proj.lora_B.weight", at, name)] = random({kWidth, kRank});
    }
    for (const char* norm : {"input", "post_attention"})
      base[fmt::format("{}{}_layernorm.weight", at, norm)] = random({kWidth});
  }
  save_safetensors(folder_ / "base/model.safetensors", {base.begin(), base.end()}, {});
  base.clear();
  config_["r"] = kRank;
  const std::string adapter = write();
  tensors_.clear();
  const std::int64_t weights =
      load_in_its_size(adapter, {.dtype = at::kBFloat16, .processing = WeightProcessing::none()});
  EXPECT_GT(weights, std::int64_t{100} << 20);
}

}  // namespace
}  // namespace hooked::adapter_test
