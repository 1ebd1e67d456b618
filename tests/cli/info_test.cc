// hooked info: what a model is, what its files hold, what is missing or not read.
#include <map>

#include "tests/cli/cli_fixture.h"
#include "tests/support/golden_folder.h"
#include "tests/support/processor_time.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/sparse_checkpoint.h"

namespace hooked::info_test {
namespace {

class InfoTest : public CliTest {};

TEST_F(InfoTest, JsonHasTheContractsFields) {
  const auto json = succeed({"info", model(), "--json"}).json();
  EXPECT_EQ(json["family"], "hooked_transformer");
  EXPECT_EQ(json["config"]["n_layers"], 2);
  EXPECT_EQ(json["config"]["d_model"], 12);
  EXPECT_EQ(json["parameters"], config().parameter_count());
  EXPECT_EQ(json["bytes"], 4 * config().parameter_count());
  EXPECT_EQ(json["processing"]["fold_ln"], "applied");
  EXPECT_EQ(json["processing"]["refactor_factored_attn_matrices"], "not requested");
  EXPECT_TRUE(json["notes"].is_array());
  EXPECT_TRUE(json["ignored_keys"].is_array());
  EXPECT_EQ(json["context"], 8);
  EXPECT_EQ(json["storage"], Json::array({{{"dtype", "F32"},
                                           {"form", "numbers"},
                                           {"tensors", json["storage"][0]["tensors"]},
                                           {"bytes", json["stored_bytes"]}}}));
  EXPECT_GE(json["stored_bytes"], json["bytes"]);
  EXPECT_EQ(json["tokenizer"]["kind"], nullptr);
  EXPECT_EQ(json["tokenizer"]["pieces"], nullptr);
  EXPECT_NE(json["tokenizer"]["problem"].get<std::string>().find("--tokens"), std::string::npos);
  for (const auto* empty : {"missing_files", "unread_parts", "ignored_files"})
    EXPECT_EQ(json[empty], Json::array()) << empty;
  for (const auto* nothing : {"stated_bytes", "fetch", "adapter", "chat_template"})
    EXPECT_EQ(json[nothing], nullptr) << nothing;
  EXPECT_EQ(json["model"], model());
  EXPECT_EQ(json["fingerprint"], nullptr) << "no weights are read";
}

std::string golden(const std::string& name) { return golden_folder(name).string(); }

TEST_F(InfoTest, SaysHowWeightsAreStored) {
  const auto fp8 = succeed({"info", golden("cases/llama_fp8_rows"), "--json"}).json()["storage"];
  ASSERT_EQ(fp8.size(), 3u) << fp8.dump();
  std::map<std::string, Json> rows;
  for (const auto& each : fp8)
    rows[each["dtype"].get<std::string>() + " " + each["form"].get<std::string>()] = each;
  EXPECT_EQ(rows.at("F8_E4M3 fp8 (e4m3)")["tensors"], 14);
  EXPECT_EQ(rows.at("F32 numbers")["tensors"], 7);
  const auto mxfp4 = succeed({"info", golden("cases/gpt_oss_mxfp4"), "--json"}).json();
  std::int64_t tensors = 0, bytes = 0;
  for (const auto& each : mxfp4["storage"]) {
    EXPECT_EQ(each["dtype"], each["form"] == "MXFP4" ? "U8" : "F32");
    tensors += each["form"] == "MXFP4" ? each["tensors"].get<std::int64_t>() : 0;
    bytes += each["bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(tensors, 4) << "blocks and scales of two weights";
  EXPECT_EQ(bytes, mxfp4["stored_bytes"]);
  EXPECT_EQ(succeed({"info", golden("cases/gpt2_bfloat16"), "--json"}).json()["storage"][0]["dtype"], "BF16");
  const auto text = succeed({"info", golden("cases/llama_fp8_rows")}).out;
  EXPECT_NE(text.find("quantised weights, fp8 (e4m3)"), std::string::npos) << text;
  for (const auto& [name, form, parts] :
       {std::tuple{"llama_gptq", "GPTQ int4", 4 * 7}, std::tuple{"llama_awq", "AWQ int4", 3 * 7},
        std::tuple{"llama_packed", "int4 (packed)", 4 * 7},
        std::tuple{"llama_nf4", "bitsandbytes nf4", 6 * 7},
        std::tuple{"gpt2_int8", "bitsandbytes int8", 3 * 4},
        std::tuple{"qwen2_int8", "int8 (a byte each)", 2 * 7}}) {
    const auto json = succeed({"info", golden(std::string("cases/") + name), "--json"}).json();
    std::int64_t in_form = 0;
    for (const auto& each : json["storage"]) in_form += each["form"] == form ? each["tensors"].get<int>() : 0;
    EXPECT_EQ(in_form, parts) << name << json["storage"].dump();
    EXPECT_NE(json["notes"].dump().find(std::string("stored as ") + form), std::string::npos)
        << json["notes"].dump();
    EXPECT_NE(json["notes"].dump().find("the numbers of the quantised model"), std::string::npos)
        << json["notes"].dump();
  }
}

TEST_F(InfoTest, SaysWhatIsNotRead) {
  const auto parts =
      succeed({"info", golden("cases/gemma3_text_in_gemma3"), "--json"}).json()["unread_parts"];
  ASSERT_FALSE(parts.empty());
  bool tower = false;
  for (const auto& part : parts) {
    EXPECT_GT(part["tensors"], 0);
    EXPECT_GT(part["bytes"], 0);
    tower = tower || part["name"] == "vision_tower";
  }
  EXPECT_TRUE(tower) << parts.dump();
  std::filesystem::create_directories(folder_ / "model/original/deep");
  for (const auto* file : {"consolidated.safetensors", "model.gguf", "original/consolidated.00.pth",
                           "original/deep/x.bin", "training_args.bin", "notes.txt"})
    write(fmt::format("model/{}", file), "x");
  EXPECT_EQ(succeed({"info", model(), "--json"}).json()["ignored_files"],
            Json::array({"consolidated.safetensors", "model.gguf", "original/consolidated.00.pth",
                         "training_args.bin"}));
  const auto text = succeed({"info", model()}).out;
  EXPECT_NE(text.find("not read"), std::string::npos) << text;
  EXPECT_NE(text.find("consolidated.safetensors, model.gguf"), std::string::npos) << text;
}

/// Gemma 2: what changes its scores and logits.
TEST_F(InfoTest, SaysWhatChangesScoresAndLogits) {
  const auto line = [](const std::string& text, const std::string& begin) {
    const auto at = text.find("\n  " + begin);
    return at == std::string::npos ? std::string() : text.substr(at + 3, text.find('\n', at + 1) - at - 3);
  };
  const auto text = succeed({"info", golden("cases/gemma2")}).out;
  EXPECT_TRUE(line(text, "soft cap of scores").ends_with(" 50")) << text;
  EXPECT_TRUE(line(text, "soft cap of logits").ends_with(" 30")) << text;
  EXPECT_TRUE(line(text, "window layers").ends_with(" 0, 2 (2 of 4 layers)")) << text;
  // query_pre_attn_scalar is 7, and heads are 8 wide.
  EXPECT_TRUE(line(text, "attn_scale").ends_with(" 2.64575: what scores are divided by")) << text;
  const auto plain = succeed({"info", golden("cases/gpt2")}).out;
  for (const char* none : {"soft cap", "window layers", "attn_scale"})
    EXPECT_EQ(plain.find(none), std::string::npos) << plain;
}

TEST_F(InfoTest, SaysWhatTheTokenizerIsOrLacks) {
  write_tokenizer();
  Json said = succeed({"info", model(), "--json"}).json()["tokenizer"];
  EXPECT_EQ(said["around"]["before"], Json::parse(R"([{"id": 0, "token": "<bos>"}])"));
  EXPECT_EQ(said["around"]["after"], Json::array());
  EXPECT_EQ(said["around"]["why"], "post_processor of tokenizer.json");
  said.erase("around");
  EXPECT_EQ(said,
            Json({{"kind", "WordLevel"}, {"form", "tokenizer.json"}, {"pieces", 11}, {"problem", nullptr}}));
  EXPECT_NE(succeed({"info", model()}).out.find("around a text: <bos> before it (post_processor of"),
            std::string::npos);
  write("model/tokenizer.json", "{}");
  const auto broken = succeed({"info", model(), "--json"}).json()["tokenizer"];
  EXPECT_EQ(broken["kind"], nullptr);
  EXPECT_NE(broken["problem"].get<std::string>().find("tokenizer.json"), std::string::npos);
  EXPECT_NE(succeed({"info", model()}).out.find("no tokenizer"), std::string::npos);
}

TEST_F(InfoTest, AnAdapterIsItsBaseAndSaysSo) {
  const auto json = succeed({"info", golden("adapters/llama_patterns"), "--json"}).json();
  EXPECT_EQ(json["family"], "llama");
  EXPECT_EQ(json["adapter"]["base"], "../../cases/llama");
  EXPECT_GT(json["adapter"]["tensors"], 0);
  const auto text = succeed({"info", golden("adapters/llama_patterns")}).out;
  EXPECT_NE(text.find("adapter, merged into its base model"), std::string::npos) << text;
  EXPECT_EQ(succeed({"run", golden("adapters/llama_patterns"), "--tokens", "1,2,3"}).exit_code, 0);
}

/// A folder with the headers of a published size.
class PublishedSize : public InfoTest {
 protected:
  // DeepSeek-V3 as it is published, fp8 with blocks; without the layer that predicts further tokens.
  static std::vector<SparseTensor> deepseek_v3() {
    std::vector<SparseTensor> tensors;
    const auto plain = [&](const std::string& name, std::vector<std::int64_t> shape,
                           const char* dtype = "BF16") {
      tensors.push_back({name, dtype, std::move(shape)});
    };
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      plain(name + ".weight", {out, in}, "F8_E4M3");
      plain(name + ".weight_scale_inv", {(out + 127) / 128, (in + 127) / 128}, "F32");
    };
    const auto gated = [&](const std::string& name, std::int64_t width) {
      linear(name + "gate_proj", width, 7168);
      linear(name + "up_proj", width, 7168);
      linear(name + "down_proj", 7168, width);
    };
    plain("model.embed_tokens.weight", {129280, 7168});
    for (int layer = 0; layer < 61; ++layer) {
      const std::string at = fmt::format("model.layers.{}.", layer);
      plain(at + "input_layernorm.weight", {7168});
      plain(at + "post_attention_layernorm.weight", {7168});
      linear(at + "self_attn.q_a_proj", 1536, 7168);
      plain(at + "self_attn.q_a_layernorm.weight", {1536});
      linear(at + "self_attn.q_b_proj", 128 * 192, 1536);
      linear(at + "self_attn.kv_a_proj_with_mqa", 576, 7168);
      plain(at + "self_attn.kv_a_layernorm.weight", {512});
      linear(at + "self_attn.kv_b_proj", 128 * 256, 512);
      linear(at + "self_attn.o_proj", 7168, 128 * 128);
      if (layer < 3) {
        gated(at + "mlp.", 18432);
        continue;
      }
      plain(at + "mlp.gate.weight", {256, 7168});
      plain(at + "mlp.gate.e_score_correction_bias", {256}, "F32");
      gated(at + "mlp.shared_experts.", 2048);
      for (int expert = 0; expert < 256; ++expert) gated(fmt::format("{}mlp.experts.{}.", at, expert), 2048);
    }
    plain("model.norm.weight", {7168});
    plain("lm_head.weight", {129280, 7168});
    return tensors;
  }

  void write_config() const {
    write("big/config.json", R"({"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
      "num_attention_heads": 128, "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256,
      "routed_scaling_factor": 2.5, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "qk_nope_head_dim": 128, "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8,
      "first_k_dense_replace": 3, "moe_layer_freq": 1, "norm_topk_prob": true, "scoring_func": "sigmoid",
      "topk_method": "noaux_tc", "hidden_act": "silu", "max_position_embeddings": 163840, "rms_norm_eps": 1e-06,
      "rope_theta": 10000, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
      "attention_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
      "weight_block_size": [128, 128]}})");
  }
};

TEST_F(PublishedSize, HeadersOf700BillionAreReadWithoutTheirNumbers) {
  std::filesystem::create_directories(folder_ / "big");
  write_config();
  const auto shards = write_sparse_checkpoint(folder_ / "big", deepseek_v3(), 200);
  const double before = child_seconds();
  const auto json = succeed({"info", path("big"), "--json"}).json();
  const double seconds = child_seconds() - before;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(seconds, kSecondsForHeaders);
#endif
  RecordProperty("seconds", fmt::format("{:.2f}", seconds));
  EXPECT_EQ(json["parameters"], 671026419200);
  EXPECT_EQ(json["context"], 163840);
  EXPECT_GT(json["stored_bytes"], 670000000000);
  EXPECT_EQ(json["storage"][0]["dtype"], "F8_E4M3");
  EXPECT_EQ(json["storage"][0]["form"], "fp8 (e4m3)");
  EXPECT_EQ(json["stated_bytes"], nullptr);

  // The same while most of it is still to be downloaded.
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (i % 10 != 3) std::filesystem::remove(folder_ / "big" / shards[i]);
  }
  const double between = child_seconds();
  const auto part = succeed({"info", path("big"), "--json"}).json();
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(child_seconds() - between, kSecondsForHeaders);
#endif
  EXPECT_EQ(part["parameters"], json["parameters"]);
  EXPECT_EQ(part["stated_bytes"], json["stored_bytes"]);
  EXPECT_LT(part["stored_bytes"], json["stored_bytes"]);
  EXPECT_EQ(part["missing_files"].size(), 180u);
  EXPECT_EQ(part["missing_files"][0], shards[0]);
  const auto text = succeed({"info", path("big")}).out;
  EXPECT_NE(text.find("missing: "), std::string::npos) << text;
  expect_failure({"run", path("big"), "--tokens", "1"}, 1, "180 of 200 shards are missing");
}

TEST_F(InfoTest, OfAPartlyDownloadedModelSaysWhatFetchesTheRest) {
  const ScopedEnvironment environment(kHubSettings);
  ScopedEnvironment::set("HF_HUB_CACHE", path("cache"));
  const auto snapshot = folder_ / "cache/models--org--name/snapshots/c0ffee";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(snapshot / "../../refs");
  write("cache/models--org--name/refs/main", "c0ffee");
  const std::string sharded = golden("cases/gpt2_sharded");
  std::string shard;
  for (const auto& file : std::filesystem::directory_iterator(sharded)) {
    const auto name = file.path().filename().string();
    if (name.ends_with(".safetensors")) shard = std::max(shard, name);
    std::filesystem::copy_file(file.path(), snapshot / name);
  }
  ASSERT_FALSE(shard.empty());
  std::filesystem::remove(snapshot / shard);
  std::filesystem::create_symlink("../../blobs/gone", snapshot / shard);
  const auto json = succeed({"info", "org/name", "--json"}).json();
  EXPECT_EQ(json["missing_files"], Json::array({shard}));
  EXPECT_EQ(json["fetch"], "hf download org/name");
  EXPECT_EQ(json["parameters"], succeed({"info", sharded, "--json"}).json()["parameters"]);
  const auto text = succeed({"info", "org/name"}).out;
  EXPECT_NE(text.find("`hf download org/name` fetches them"), std::string::npos) << text;
  expect_failure({"run", "org/name", "--tokens", "1"}, 1, "fetch them with `hf download org/name`");
}

TEST_F(InfoTest, SaysWhichStepsWouldBeApplied) {
  const auto some =
      succeed({"info", model(), "--json", "--process", "fold_ln,center_unembed"}).json()["processing"];
  EXPECT_EQ(some["fold_ln"], "applied");
  EXPECT_EQ(some["center_unembed"], "applied");
  EXPECT_NE(succeed({"info", model()}).out.find("Logits are centred"), std::string::npos);
  EXPECT_EQ(succeed({"info", model(), "--process", "fold_ln"}).out.find("centred"), std::string::npos);
  EXPECT_EQ(some["center_writing_weights"], "not requested");
  const auto none = succeed({"info", model(), "--json", "--no-processing"}).json()["processing"];
  for (const auto& [step, outcome] : none.items()) EXPECT_EQ(outcome, "not requested") << step;
}

TEST_F(InfoTest, TheDtypeSetsTheBytes) {
  const auto json = succeed({"info", model(), "--json", "--dtype", "float64"}).json();
  EXPECT_EQ(json["bytes"], 8 * config().parameter_count());
}

TEST_F(InfoTest, ListsKeysThatNothingReads) {
  auto text = read("model/config.json");
  text.insert(text.find('{') + 1, "\"favourite_colour\": \"green\", ");
  write("model/config.json", text);
  EXPECT_EQ(succeed({"info", model(), "--json"}).json()["ignored_keys"], Json::array({"favourite_colour"}));
  EXPECT_NE(succeed({"info", model()}).out.find("favourite_colour"), std::string::npos);
}

TEST_F(InfoTest, TheTableNamesSizesStepsAndTokenizer) {
  const auto without = succeed({"info", model()}).out;
  for (const auto* part : {"family hooked_transformer", "d_model", "fold_ln", "applied", "with --tokens"}) {
    EXPECT_NE(without.find(part), std::string::npos) << without;
  }
  write_tokenizer();
  EXPECT_NE(succeed({"info", model()}).out.find("11 pieces"), std::string::npos);
  EXPECT_NE(succeed({"info", model()}).out.find("no chat template"), std::string::npos);
  write("model/chat_template.jinja", "{{ messages }}");
  EXPECT_NE(succeed({"info", model()}).out.find("chat template in"), std::string::npos);
  EXPECT_EQ(succeed({"info", model(), "--json"}).json()["chat_template"], path("model/chat_template.jinja"));
}

}  // namespace
}  // namespace hooked::info_test
