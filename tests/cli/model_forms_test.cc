// Every command with every form of MODEL. The commands are those of the program's table; they run in this
// process, on models of a few thousand numbers.
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <regex>
#include <string_view>
#include <variant>

#include "cli/actions.h"
#include "core/json.h"
#include "hooked/loading/describe.h"
#include "options/command.h"
#include "options/command_line.h"
#include "tests/cli/cli_fixture.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/golden_folder.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/zip_writer.h"

namespace hooked::model_forms_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// A command that takes MODEL, and what follows it. OUT is a new path, SAE and TRANSCODERS are dictionaries
/// for the model.
struct Call {
  Words after_model;
  bool same;  ///< forms of the same numbers give the same output; others name the form, or tell times
};

const std::map<std::string_view, Call> kCalls = {
    {"info", {{"--json"}, false}},
    {"names", {{"--tokens-length", "3", "--json"}, true}},
    {"tokenize", {{"--text", "w3", "--json"}, true}},
    {"run", {{"--tokens", "1,2,3", "--json"}, true}},
    {"cache", {{"--text", "w3", "--out", "OUT.safetensors", "--json"}, false}},
    {"generate", {{"--text", "w3", "--max-new-tokens", "2", "--greedy", "--json"}, false}},
    {"lens", {{"--tokens", "1,2,3", "--json"}, true}},
    {"attribute", {{"--tokens", "1,2,3", "--answer-token", "4", "--json"}, true}},
    {"heads", {{"--tokens", "1,2,1,2", "--json"}, true}},
    {"patch",
     {{"--clean-tokens", "1,2,3", "--corrupted-tokens", "1,5,3", "--answer-token", "2", "--against-token",
       "5", "--sweep", "resid_pre", "--json"},
      false}},
    {"circuits",
     {{"--clean-tokens", "1,2,3", "--corrupted-tokens", "1,5,3", "--answer-token", "2", "--against-token",
       "5", "--json"},
      true}},
    {"weights", {{"--composition", "q", "--draws", "2", "--json"}, true}},
    {"sae", {{"--tokens", "1,2,3", "--dictionary", "SAE", "--no-processing", "--json"}, true}},
    {"graph", {{"--tokens", "1,2,3", "--dictionary", "TRANSCODERS", "--no-processing", "--json"}, true}},
    {"harvest",
     {{"--corpus", "CORPUS", "--names", "resid_post", "--context", "3", "--out", "OUT", "--json"}, false}},
    {"report", {{"--tokens", "1,2,3", "--out", "OUT.html", "--json"}, false}},
    {"save", {{"--out", "OUT", "--json"}, false}},
    {"bench", {{"--length", "4", "--iterations", "1", "--json"}, false}},
};

/// A Llama in a GGUF file with a tokenizer of single characters.
std::string gguf_llama() {
  constexpr std::uint64_t kWidth = 8, kHidden = 16;
  constexpr std::string_view kCharacters = "abcdw0123456789 .,!?";
  GgufBytes file;
  file.text("general.architecture", "llama").uint32("llama.context_length", 32);
  file.uint32("llama.embedding_length", kWidth).uint32("llama.feed_forward_length", kHidden);
  file.uint32("llama.block_count", 2).uint32("llama.attention.head_count", 2);
  file.float32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  std::string pieces, types;
  for (const char character : kCharacters) {
    pieces += gguf_text(character == ' ' ? "\u0120" : std::string(1, character));
    types += little(1, 4);
  }
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "llama-bpe");
  file.array("tokenizer.ggml.tokens", GgufType::text, kCharacters.size(), pieces);
  file.array("tokenizer.ggml.token_type", GgufType::int32, kCharacters.size(), types);
  file.array("tokenizer.ggml.merges", GgufType::text, 0, "");
  const auto tensor = [&](const std::string& name, const std::vector<std::uint64_t>& sizes) {
    file.tensor(name, sizes, 0, file.data.size());
    std::uint64_t count = 1;
    for (const auto size : sizes) count *= size;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto number = static_cast<float>(std::sin(static_cast<double>(file.data.size() + 1)));
      file.data += little(std::bit_cast<std::uint32_t>(number), 4);
    }
    file.data.resize((file.data.size() + 31) / 32 * 32);
  };
  tensor("token_embd.weight", {kWidth, kCharacters.size()});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm", "ffn_norm"}) tensor(block + norm + ".weight", {kWidth});
    for (const char* matrix : {"attn_q", "attn_k", "attn_v", "attn_output"})
      tensor(block + matrix + ".weight", {kWidth, kWidth});
    for (const char* matrix : {"ffn_gate", "ffn_up"}) tensor(block + matrix + ".weight", {kWidth, kHidden});
    tensor(block + "ffn_down.weight", {kHidden, kWidth});
  }
  tensor("output_norm.weight", {kWidth});
  tensor("output.weight", {kWidth, kCharacters.size()});
  return file.bytes();
}

/// The tensors of a safetensors file as torch.save writes them.
std::string saved_by_torch(const fs::path& weights) {
  const auto file = SafetensorsFile::open(weights);
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<std::string> storages;
  for (const auto& info : file.tensors()) {
    const auto tensor = file.read(info.name).to(at::kDouble).contiguous();
    const auto storage =
        pickled_storage("DoubleStorage", std::to_string(storages.size()), pickled(tensor.numel()));
    entries.emplace_back(info.name, pickled_tensor(storage, {.sizes = tensor.sizes().vec(),
                                                             .strides = tensor.strides().vec()}));
    storages.emplace_back(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return checkpoint_bytes(pickle_of(pickled_dict(entries)), storages);
}

class ModelFormsTest : public CliTest {
 protected:
  ModelFormsTest() {
    ScopedEnvironment::set("HF_HUB_CACHE", path("cache"));
    fs::create_directories(folder_ / "base");
    for (const char* file : {"config.json", "model.safetensors"})
      fs::copy_file(golden_folder("cases/llama") / file, folder_ / "base" / file);
    write_tokenizer("base", 23);
    write("corpus.txt", "w3 w3 w3\n");
  }

  /// What it prints.
  std::string answer(const Words& arguments) const {
    std::vector<const char*> words = {"hooked"};
    for (const auto& argument : arguments) words.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::string problem;
    try {
      const auto line = cli::read_command_line(static_cast<int>(words.size()), words.data());
      if (const auto* options = std::get_if<cli::CommandLine>(&line))
        std::visit([](const auto& each) { cli::perform(each); }, options->options);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    const auto output = testing::internal::GetCapturedStdout();
    const auto error = testing::internal::GetCapturedStderr();
    EXPECT_EQ(problem, "") << error;
    return output;
  }

  /// Puts a copy of these files into the cache as the only revision of a model.
  void put_in_cache(const std::string& name, const std::map<std::string, std::string>& files) const {
    const auto model = folder_ / "cache" / ("models--" + name);
    fs::create_directories(model / "refs");
    std::ofstream(model / "refs/main") << "c0ffee";
    for (const auto& [file, from] : files) {
      const auto link = model / "snapshots/c0ffee" / file;
      fs::create_directories(link.parent_path());
      fs::create_symlink(folder_ / from, link);
    }
  }

  /// An adapter of a model's first queries [queries, width].
  std::string adapter_of(const std::string& base, std::int64_t width, std::int64_t queries) const {
    const std::string query = "base_model.model.model.layers.0.self_attn.q_proj.";
    const auto folder = "adapter_of_" + base;
    fs::create_directories(folder_ / folder);
    write(folder + "/adapter_config.json",
          fmt::format(R"({{"peft_type": "LORA", "base_model_name_or_path": "../{}", "r": 2}})", base));
    save_safetensors(folder_ / folder / "adapter_model.safetensors",
                     {{query + "lora_A.weight", at::full({2, width}, 0.5)},
                      {query + "lora_B.weight", at::full({queries, 2}, 0.25)}});
    return path(folder);
  }

  /// MODEL in every form for the weights of `base`, the folder first.
  Words forms_of_base() const {
    fs::create_directories(folder_ / "torch");
    for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(folder_ / "base" / file, folder_ / "torch" / file);
    std::ofstream(folder_ / "torch/step_1.pth", std::ios::binary)
        << saved_by_torch(folder_ / "base/model.safetensors");
    fs::copy_file(folder_ / "base/model.safetensors", folder_ / "torch/sha256-0123");
    std::map<std::string, std::string> files;
    for (const auto& file : fs::directory_iterator(folder_ / "base"))
      files[file.path().filename()] = "base/" + file.path().filename().native();
    put_in_cache("org--base", files);
    return {path("base"),
            path("base/model.safetensors"),
            path("torch"),
            path("torch/step_1.pth"),
            path("torch/sha256-0123"),
            "org/base",
            "org/base@c0ffee",
            "org/base:model.safetensors"};
  }

  /// The same for a GGUF file.
  Words forms_of_gguf() const {
    fs::create_directories(folder_ / "gguf");
    std::ofstream(folder_ / "gguf/m.gguf", std::ios::binary) << gguf_llama();
    fs::create_directories(folder_ / "blobs");
    fs::copy_file(folder_ / "gguf/m.gguf", folder_ / "blobs/sha256-4567");
    put_in_cache("org--one", {{"m.gguf", "gguf/m.gguf"}, {"config.json", "base/config.json"}});
    put_in_cache("org--two", {{"m.F16.gguf", "gguf/m.gguf"}, {"Q8/m.gguf", "gguf/m.gguf"}});
    return {path("gguf/m.gguf"), path("gguf"),         path("blobs/sha256-4567"), "org/one",
            "org/one:m.gguf",    "org/two:m.F16.gguf", "org/two:Q8/m.gguf",       "org/two@c0ffee:Q8/m.gguf"};
  }

  /// Adapters, native and packed folder: each is a model of its own.
  Words other_forms() const {
    forms_of_gguf();
    answer({"save", path("base"), "--out", path("native")});
    answer({"save", path("base"), "--out", path("packed"), "--packed"});
    return {adapter_of("base", 12, 32), adapter_of("gguf", 8, 8), path("native"), path("packed")};
  }

  /// Saves random dictionaries that were fitted to the model as its files have it.
  std::string dictionaries_for(const std::string& form, bool autoencoder) {
    const ModelConfig config = read_model_config(form);
    auto dictionaries = random_transcoders(config, {});
    if (autoencoder) dictionaries = {random_autoencoder("blocks.0.hook_resid_post", config.d_model)};
    const std::string folder = path("dictionaries" + std::to_string(++written_));
    for (std::size_t i = 0; i < dictionaries.size(); ++i)
      fitted_to(dictionaries[i], config).save(fmt::format("{}/{}", folder, i));
    return folder;
  }

  /// Each command answers each of the forms. If they are `same`, so are the answers that name no form.
  void expect_answers(const Words& forms, bool same) {
    for (const auto& [command, call] : kCalls) {
      std::string first;
      for (const auto& form : forms) {
        SCOPED_TRACE(std::string(command) + " " + form);
        Words arguments = {std::string(command), form};
        for (auto word : call.after_model) {
          if (word.starts_with("OUT")) word.replace(0, 3, path("out" + std::to_string(++written_)));
          if (word == "CORPUS") word = path("corpus.txt");
          if (word == "SAE" || word == "TRANSCODERS") word = dictionaries_for(form, word == "SAE");
          arguments.push_back(word);
        }
        auto output = answer(arguments);
        ASSERT_NE(output, "");
        EXPECT_NO_THROW(parse_json(output, {.bytes = std::size_t{1} << 26})) << output;
        // What names the model or one of its files.
        for (const std::string& name : {form, std::string("sha256-4567"), std::string("m.F16.gguf")}) {
          for (auto at = output.find(name); at != std::string::npos; at = output.find(name, at))
            output.replace(at, name.size(), name == form ? "MODEL" : "m.gguf");
        }
        if (first.empty()) first = output;
        if (same && call.same) {
          EXPECT_EQ(output, first);
        }
      }
    }
  }

  int written_ = 0;  // outputs
  const ScopedEnvironment environment_{kHubSettings};
};

TEST_F(ModelFormsTest, TheTableHasEveryCommandThatTakesAModel) {
  std::vector<std::string_view> takes, tried;
  for (const auto& command : cli::commands()) {
    const auto help = answer({std::string(command.name), "--help"});
    const auto usage = help.substr(0, help.find("\n\n"));
    if (std::regex_search(usage, std::regex(fmt::format("hooked {} .*MODEL", command.name))))
      takes.push_back(command.name);
  }
  for (const auto& [command, call] : kCalls) tried.push_back(command);
  std::ranges::sort(takes);
  EXPECT_EQ(takes, tried);
}

TEST_F(ModelFormsTest, AFolderItsFilesAndItsNamesInTheCache) { expect_answers(forms_of_base(), true); }

TEST_F(ModelFormsTest, AGgufFileAsItIsInAFolderAndInTheCache) { expect_answers(forms_of_gguf(), true); }

TEST_F(ModelFormsTest, AdaptersANativeAndAPackedFolder) { expect_answers(other_forms(), false); }

}  // namespace
}  // namespace hooked::model_forms_test
