// Files of dictionaries that are damaged, hostile or of another kind than they say: a sentence that names the
// file and the field, never a crash or a large allocation.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.h"
#include "dictionaries/yaml.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/io/file.h"
#include "io/tensors/npz_tensors.h"
#include "tests/dictionaries/golden_dictionaries.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace hooked::hostile_dictionary_test {
namespace {

namespace fs = std::filesystem;

class HostileDictionary : public testing::Test {
 protected:
  /// A copy of a golden, to be damaged.
  fs::path copy(const std::string& golden) const {
    fs::copy(kDictionaryGoldens / golden, folder_ / "d", fs::copy_options::recursive);
    return folder_ / "d";
  }
  static std::string text_of(const fs::path& file) { return read_text_file(file, 1 << 20); }

  static std::string refusal(const fs::path& path) {
    return text_thrown_by<Error>([&] { static_cast<void>(Dictionary::load(path.native())); });
  }

  /// The error after `change`, a JSON merge patch, of the golden `standard`'s config, or of another's.
  std::string after(const std::string& change, const std::string& golden = "saelens/standard") const {
    const fs::path folder = copy(golden);
    const fs::path file = folder / "cfg.json";
    Json config = Json::parse(text_of(file));
    config.merge_patch(Json::parse(change));
    write_file(file, config.dump());
    const std::string text = refusal(folder);
    fs::remove_all(folder);
    return text;
  }

  /// The config as it is read after the change.
  DictionaryConfig config_after(const std::string& change,
                                const std::string& golden = "saelens/standard") const {
    const fs::path folder = copy(golden);
    Json config = Json::parse(text_of(folder / "cfg.json"));
    config.merge_patch(Json::parse(change));
    write_file(folder / "cfg.json", config.dump());
    DictionaryConfig read = describe_dictionary(folder.native()).members.front();
    fs::remove_all(folder);
    return read;
  }

  const TempFolder folder_;
};

TEST_F(HostileDictionary, ConfigsAreChecked) {
  EXPECT_THAT(after(R"({"architecture": "temporal"})"), HasSubstr("attention layers of its own"));
  EXPECT_THAT(after(R"({"architecture": "batchtopk"})"), HasSubstr("the form in training"));
  EXPECT_THAT(after(R"({"architecture": "sparse9000"})"),
              HasSubstr("is no architecture of SAELens that is read"));
  EXPECT_THAT(after(R"({"architecture": null})"), HasSubstr("architecture"));
  EXPECT_THAT(after(R"({"normalize_activations": "constant_scalar_rescale"})"),
              HasSubstr("is no normalisation"));
  EXPECT_THAT(after(R"({"reshape_activations": "hook_q"})"), HasSubstr("expected none or hook_z"));
  EXPECT_THAT(after(R"({"dtype": "int8"})"), HasSubstr("is no dtype of dictionaries"));
  EXPECT_THAT(after(R"({"d_in": "12"})"), HasSubstr("d_in"));
  EXPECT_THAT(after(R"({"d_in": 12.0})"), HasSubstr("d_in"));
  EXPECT_THAT(after(R"({"d_sae": -1})"), HasSubstr("d_sae"));
  EXPECT_THAT(after(R"({"d_sae": 4611686018427387905})"), HasSubstr("d_sae"));
  EXPECT_THAT(after(R"({"d_sae": 1000000})"),
              AllOf(HasSubstr("tensor 'W_enc'"), HasSubstr("[12, 1000000]"), HasSubstr("[12, 24]")));
  EXPECT_THAT(after(R"({"d_in": 0})"), HasSubstr("d_in is no size"));
  EXPECT_THAT(after(R"({"k": 25})", "saelens/topk"), HasSubstr("1 to 24, got 25"));
  EXPECT_THAT(after(R"({"k": 0})", "saelens/topk"), HasSubstr("k is not a number of features"));
  EXPECT_THAT(after(R"({"residual_threshold": "small"})", "saelens/matching_pursuit"),
              HasSubstr("residual_threshold"));
  EXPECT_THAT(after(R"({"apply_b_dec_to_input": true})", "saelens/transcoder"),
              HasSubstr("belongs to another activation"));
  EXPECT_THAT(after(R"({"metadata": [1]})"), HasSubstr("metadata"));
  EXPECT_THAT(after(R"({"metadata": {"exclude_special_tokens": "yes"}})"),
              HasSubstr("exclude_special_tokens"));
  EXPECT_THAT(after(R"({"activation_fn_str": "tanh-relu"})", "published/before_6"),
              HasSubstr("is no activation of dictionaries"));
  EXPECT_THAT(after(R"({"finetuning_scaling_factor": false})", "published/before_6_scaled"),
              HasSubstr("finetuning_scaling_factor is not true"));
  EXPECT_THAT(after(R"({"hook_name": "blocks.0.hook_embed"})", "published/before_6"),
              HasSubstr("under two names"));
  EXPECT_THAT(after(R"({"activation": "relu6"})", "published/sparsify/layers.4"),
              HasSubstr("expected topk or groupmax"));
  EXPECT_THAT(after(R"({"signed": true})", "published/sparsify/layers.4"), HasSubstr("signed"));
  EXPECT_THAT(after(R"({"num_latents": 13})", "published/sparsify/layers.4"),
              HasSubstr("expected 12 features"));
}

TEST_F(HostileDictionary, WhatMattersIsSaid) {
  EXPECT_EQ(config_after(R"({"d_hidden": 3})").ignored_keys, std::vector<std::string>{"d_hidden"});
  EXPECT_EQ(config_after(R"({"dtype": "torch.bfloat16"})").dtype, at::kBFloat16);
  const DictionaryConfig expected = config_after(R"({"normalize_activations": "expected_average_only_in"})");
  EXPECT_EQ(expected.input_norm, InputNorm::expected_average);
  ASSERT_EQ(expected.notes.size(), 1U);
  EXPECT_THAT(expected.notes.front(), HasSubstr("nothing in the folder says whether it was"));
  // Raw weights, unless the arguments turn a step on.
  EXPECT_EQ(config_after("{}").basis, DictionaryBasis{});
  const DictionaryConfig centred = config_after(
      R"({"metadata": {"model_from_pretrained_kwargs": {"center_writing_weights": true, "fold_ln": false, "revision": "x"}}})");
  EXPECT_EQ(centred.basis, (DictionaryBasis{.centred_writes = true}));
  EXPECT_THAT(centred.notes.front(), HasSubstr("revision"));
  EXPECT_EQ(config_after(R"({"metadata": {"exclude_special_tokens": true}})").excluded.special, true);
  EXPECT_EQ(config_after(R"({"metadata": {"exclude_special_tokens": [1, 2]}})").excluded.ids,
            (std::vector<std::int64_t>{1, 2}));
  // A transcoder's place is where it writes.
  const DictionaryConfig transcoder = config_after("{}", "saelens/transcoder");
  EXPECT_EQ(transcoder.input, "blocks.1.ln2.hook_normalized");
  EXPECT_EQ(transcoder.output, "blocks.1.hook_mlp_out");
  EXPECT_EQ(transcoder.d_out, 8);
}

TEST_F(HostileDictionary, WeightsAreChecked) {
  const fs::path folder = copy("saelens/standard");
  const auto weights = load_safetensors(folder / "sae_weights.safetensors");
  const auto with = [&](const std::string& name, const at::Tensor& tensor) {
    auto changed = weights;
    changed.erase(name);
    if (tensor.defined()) changed.emplace(name, tensor);
    save_safetensors(folder / "sae_weights.safetensors", {changed.begin(), changed.end()});
  };
  with("W_dec", {});
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("expected 'W_dec'"), HasSubstr("W_enc, b_dec, b_enc")));
  with("W_enc", weights.at("W_enc").t());
  EXPECT_THAT(refusal(folder), HasSubstr("looks transposed"));
  with("b_enc", at::zeros({24}, at::kLong));
  EXPECT_THAT(refusal(folder), HasSubstr("no floating-point numbers"));
  with("scaling_factor", at::full({24}, 2.0, at::kDouble));
  EXPECT_THAT(refusal(folder), HasSubstr("finetuning_scaling_factor is not true"));
  with("left_over", at::zeros({2}));
  EXPECT_THAT(Dictionary::load(folder.native()).config().notes.back(), HasSubstr("not read: left_over"));
  with("b_enc", at::full({24}, std::numeric_limits<double>::infinity(), at::kDouble));
  EXPECT_THAT(Dictionary::load(folder.native()).config().notes.back(),
              HasSubstr("24 of its numbers are not finite"));
  fs::resize_file(folder / "sae_weights.safetensors", 900);
  EXPECT_THAT(refusal(folder), HasSubstr("sae_weights.safetensors"));
  fs::remove(folder / "sae_weights.safetensors");
  fs::create_directory(folder / "sae_weights.safetensors");
  EXPECT_THAT(refusal(folder), HasSubstr("sae_weights.safetensors"));
}

// Every prefix of a config, and every byte of it changed, is read or refused with a sentence.
TEST_F(HostileDictionary, HalvesOfACrossLayerSetAreNamed) {
  for (const auto& [missing, there] : {std::pair<std::string, std::string>{"W_enc_0", "W_dec_0"},
                                       {"W_enc_2", "W_dec_2"},
                                       {"W_dec_1", "W_enc_1"}}) {
    const fs::path folder = copy("published/circuit_tracer_clt");
    fs::remove(folder / (missing + ".safetensors"));
    EXPECT_THAT(text_thrown_by<Error>([&] { static_cast<void>(DictionarySet::load(folder.native())); }),
                HasSubstr(missing + ".safetensors is missing; expected one next to " + there));
    fs::remove_all(folder);
  }
}

TEST_F(HostileDictionary, DamagedConfigsAreRefusedOrRead) {
  const fs::path folder = copy("saelens/standard");
  const std::string text = text_of(folder / "cfg.json");
  const auto attempt = [&](const std::string& damaged) {
    write_file(folder / "cfg.json", damaged);
    try {
      static_cast<void>(describe_dictionary(folder.native()));
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("["), std::string::npos);
    }
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    attempt(text.substr(0, i));
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x15);
    attempt(flipped);
  }
}

TEST_F(HostileDictionary, WhatIsNoDictionaryIsNamed) {
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("this is no dictionary that is read"));
  EXPECT_THAT(refusal(folder_ / "nothing here"), HasSubstr("there is no such folder"));
  fs::copy(kDictionaryGoldens / "saelens", folder_ / "many", fs::copy_options::recursive);
  EXPECT_THAT(refusal(folder_ / "many"), HasSubstr("holds several dictionaries"));
  EXPECT_TRUE(is_dictionary((folder_ / "many").native())) << "hooked info names those in it";
  fs::create_directory(folder_ / "model");
  write_file(folder_ / "model" / "config.yaml", "learning_rate: 1\n");
  EXPECT_FALSE(is_dictionary((folder_ / "model").native()));
  EXPECT_TRUE(is_dictionary((folder_ / "many" / "gated").native()));
  EXPECT_THAT(refusal(kDictionaryGoldens / "published" / "circuit_tracer_clt"),
              HasSubstr("expected the layer of one of its 3"));
  EXPECT_THAT(text_thrown_by<Error>([&] { static_cast<void>(Dictionary::load("../../etc/passwd:x")); }),
              HasSubstr("there is no such folder"));
}

TEST_F(HostileDictionary, CrosscodersAreRefusedInASentence) {
  const fs::path folder = copy("published/llamascopium_jumprelu");
  const fs::path config = folder / "config.json";
  const Json original = Json::parse(text_of(config));
  const auto with = [&](const std::string& change) {
    Json changed = original;
    changed.merge_patch(Json::parse(change));
    write_file(config, changed.dump());
    return refusal(folder);
  };
  EXPECT_THAT(with(R"({"sae_type": "crosscoder"})"), HasSubstr("reads several activations at once"));
  EXPECT_THAT(with(R"({"sae_type": "lorsa"})"), HasSubstr("expected sae, transcoder or clt"));
  EXPECT_THAT(with(R"({"act_fn": "batchtopk"})"), HasSubstr("depend on the other tokens"));
  EXPECT_THAT(with(R"({"norm_activation": "batch-wise"})"),
              HasSubstr("depend on the other tokens of a batch"));
  EXPECT_THAT(with(R"({"use_glu_encoder": true})"), HasSubstr("products of two encoders"));
}

TEST_F(HostileDictionary, ClassesOfDictionaryLearning) {
  const fs::path folder = copy("published/learning_standard");
  Json config = Json::parse(text_of(folder / "config.json"));
  config["trainer"]["dict_class"] = "CrossCoder";
  write_file(folder / "config.json", config.dump());
  EXPECT_THAT(refusal(folder), HasSubstr("a crosscoder reads several activations at once"));
  config["trainer"]["dict_class"] = "os.system";
  write_file(folder / "config.json", config.dump());
  EXPECT_THAT(refusal(folder), HasSubstr("is no class that is read"));
}

TEST_F(HostileDictionary, QwenScopeNeedsItsRepositorysName) {
  const fs::path folder = copy("published/SAE-Res-Qwen3-1.7B-Base-W1K-L0_5");
  EXPECT_THAT(refusal(folder), HasSubstr("keep the repository's name"));
  fs::rename(folder, folder_ / "SAE-Res-M-W2K-L0_5");
  EXPECT_THAT(refusal(folder_ / "SAE-Res-M-W2K-L0_5"), HasSubstr("expected 2048, got 1024"));
  fs::rename(folder_ / "SAE-Res-M-W2K-L0_5", folder_ / "SAE-Res-M-W1K-L0_7");
  fs::copy_file(folder_ / "SAE-Res-M-W1K-L0_7" / "layer13.sae.pt",
                folder_ / "SAE-Res-M-W1K-L0_7" / "layer2.sae.pt");
  EXPECT_EQ(DictionarySet::load((folder_ / "SAE-Res-M-W1K-L0_7").native()).layers(),
            (std::vector<std::int64_t>{2, 13}));
}

/// A set whose transcoders are in a hub cache.
class HubTranscoders : public HostileDictionary {
 protected:
  HubTranscoders() { ScopedEnvironment::set("HF_HUB_CACHE", (folder_ / "cache").native()); }

  void entries(const std::string& list, const std::string& more = "") const {
    fs::create_directories(folder_ / "set");
    write_file(folder_ / "set" / "config.yaml",
               "model_kind: transcoder_set\nfeature_input_hook: ln2.hook_normalized\n"
               "feature_output_hook: hook_mlp_out\n" +
                   more + "transcoders:\n" + list);
  }
  std::string refusal_of_set() const {
    return text_thrown_by<Error>([&] { static_cast<void>(DictionarySet::load((folder_ / "set").native())); });
  }
  const ScopedEnvironment environment_{kHubSettings};
};

TEST_F(HubTranscoders, AreFoundInTheCache) {
  const fs::path model = folder_ / "cache" / "models--google--gemma-scope-2b-pt-transcoders";
  const fs::path snapshot = model / "snapshots" / "abcdef1";
  fs::create_directories(snapshot / "layer_0");
  fs::create_directories(model / "refs");
  write_file(model / "refs" / "main", "abcdef1");
  fs::copy(kDictionaryGoldens /
               "published/google/gemma-scope-2b-pt-transcoders/layer_1/width_12/average_l0_4/params.npz",
           snapshot / "layer_0" / "params.npz");
  entries(
      "  - \"hf://google/gemma-scope-2b-pt-transcoders/layer_0/params.npz\"\n"
      "- hf://google/gemma-scope-2b-pt-transcoders/layer_0/params.npz@abcdef1  # again\n");
  const DictionarySet set = DictionarySet::load((folder_ / "set").native(), {.dtype = at::kDouble});
  ASSERT_EQ(set.layers(), (std::vector<std::int64_t>{0, 1}));
  const DictionaryConfig config = set.at(1).config();
  EXPECT_EQ(config.input, "blocks.1.ln2.hook_normalized");
  EXPECT_EQ(config.output, "blocks.1.hook_mlp_out");
  EXPECT_FALSE(config.rectified);  // as circuit-tracer computes it
  // Without the set, by its name on the hub.
  EXPECT_EQ(Dictionary::load("google/gemma-scope-2b-pt-transcoders:layer_0").config().input,
            "blocks.0.ln2.hook_normalized");
}

TEST_F(HubTranscoders, MissingAndHostileEntriesAreNamed) {
  entries("- hf://org/name/layer_0/params.npz\n");
  EXPECT_THAT(refusal_of_set(), AllOf(HasSubstr("1 of its 1 transcoders"),
                                      HasSubstr("`hf download org/name --include 'layer_0/params.npz'`")));
  entries("- ../../../etc/passwd\n");
  EXPECT_THAT(refusal_of_set(), HasSubstr("leads out of the folder"));
  entries("- /etc/passwd\n");
  EXPECT_THAT(refusal_of_set(), HasSubstr("leads out of the folder"));
  entries("- hf://org/../../x\n");
  EXPECT_THAT(refusal_of_set(), HasSubstr("is not a file of the hub"));
  entries("", "model_kind: replacement\n");
  EXPECT_THAT(refusal_of_set(), HasSubstr("is there twice"));
  EXPECT_THAT(text_thrown_by<Error>([&] { static_cast<void>(Dictionary::load("org/name@v2:sae/layer_3")); }),
              HasSubstr("`hf download org/name --revision v2 --include 'sae/layer_3*'` downloads it"));
}

TEST(FlatYaml, ReadsWhatConfigsHave) {
  EXPECT_EQ(
      parse_flat_yaml("---\na: 1 # one\n'b c': \"x # y\"\nlist:\n  - p\n  - 'q: r'\nflow: [1, 'a, b', "
                      "c]\nnone:\nyes: true\n"),
      Json::parse(
          R"({"a": 1, "b c": "x # y", "list": ["p", "q: r"], "flow": [1, "a, b", "c"], "none": null, "yes": true})"));
}

TEST(FlatYaml, RefusesTheRest) {
  for (const std::string text :
       {"a: {b: 1}", "a: &x 1", "a: *x", "a: !!python/object/apply:os.system x", "a: |\n  text", "a:\n  b: 1",
        "a: 1\na: 2", "- 1", "a: [1", "a: \"x", "just text", "a: - b: c", "a:\n  - b: c", "\xff: 1"}) {
    try {
      const Json read = parse_flat_yaml(text);
      EXPECT_EQ(text, "a: - b: c") << read.dump();
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
}

/// A .npy file: a header of that text, and bytes.
std::string npy(std::string header, const std::string& data, char version = 1) {
  header += std::string((64 - (10 + header.size() + 1) % 64) % 64, ' ') + "\n";
  std::string text = std::string("\x93NUMPY") + version + '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  return text + header + data;
}

class Npz : public testing::Test {
 protected:
  std::string refusal(const std::string& member, const std::string& name = "W_enc.npy",
                      std::uint16_t method = 0) const {
    write_file(folder_ / "a.npz", zip_bytes({{.name = name, .content = member, .method = method}}));
    return text_thrown_by<CheckpointError>([&] { describe_npz(InputFile::open(folder_ / "a.npz")); });
  }
  const TempFolder folder_;
};

TEST_F(Npz, HeadersAreChecked) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  write_file(folder_ / "a.npz", zip_bytes({{.name = "x.npy", .content = npy(good, std::string(8, '\0'))}}));
  const auto file = describe_npz(InputFile::open(folder_ / "a.npz"));
  EXPECT_EQ(file->tensors().front().shape, (std::vector<std::int64_t>{2, 1}));
  const auto with = [&](const std::string& header) { return refusal(npy(header, std::string(8, '\0'))); };
  EXPECT_THAT(refusal(npy(good, std::string(7, '\0'))), HasSubstr("expected 8 bytes of numbers, got 7"));
  EXPECT_THAT(with("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("its numbers cannot be read"));
  EXPECT_THAT(with("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("lowest byte first"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4), }"),
              HasSubstr("sizes that fit memory"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }"), HasSubstr("malformed"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"),
              HasSubstr("malformed"));
  EXPECT_THAT(with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("malformed"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("malformed"));
  EXPECT_THAT(with("__import__('os').system('x')"), HasSubstr("malformed"));
  EXPECT_THAT(refusal(npy(good, std::string(8, '\0'), 9)), HasSubstr("version"));
  EXPECT_THAT(refusal("short"), HasSubstr("it is no array"));
  EXPECT_THAT(refusal(npy(good, std::string(8, '\0')), "../x.npy"), HasSubstr("leads out of the archive"));
  EXPECT_THAT(refusal(npy(good, std::string(8, '\0')), "x.txt"), HasSubstr("it is no array"));
  EXPECT_THAT(refusal(npy(good, std::string(8, '\0')), "x.npy", 8), HasSubstr("it is compressed"));
}

}  // namespace
}  // namespace hooked::hostile_dictionary_test
