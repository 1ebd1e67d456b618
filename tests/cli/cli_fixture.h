#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"

namespace hooked {

/// The results of a call of the program.
struct CliResult {
  int exit_code;
  std::string out;
  std::string error;

  Json json() const { return parse_json(out, {.bytes = std::size_t{1} << 26}); }
};

/// A temp folder with a small random model in `model`, and the built program.
class CliTest : public ::testing::Test {
 protected:
  static ModelConfig config() {
    ModelConfig config;
    config.n_layers = 2;
    config.d_model = 12;
    config.n_ctx = 8;
    config.n_heads = config.n_kv_heads = 3;
    config.d_head = 4;
    config.d_mlp = 16;
    config.d_vocab = 11;
    config.unembedding = Unembedding{.d_vocab = config.d_vocab};
    config.attn_scale = 2.0;
    config.activation = Activation::gelu;
    return config;
  }

  CliTest() {
    HookedTransformer::create(config(), {.seed = 1, .initializer_range = 0.5}).save(folder_ / "model");
    // Like somebody else's checkpoint: without a record of its processing it is processed when it is loaded.
    const std::string record = "    \"processing\": [],\n";
    std::string text = read("model/config.json");
    text.erase(text.find(record), record.size());
    write("model/config.json", text);
  }

  /// Saves another model, of that context, whose positions are rotary.
  void save_longer(const std::string& name, std::int64_t context) const {
    ModelConfig longer = config();
    longer.n_ctx = context;
    longer.positions = RotaryPositions{.dim = 4};
    HookedTransformer::create(longer, {.seed = 1, .initializer_range = 0.5}).save(folder_ / name);
  }

  std::string model() const { return path("model"); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, std::string_view text) const { std::ofstream(folder_ / name) << text; }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Gives the model a word-level tokenizer of that many pieces: <bos>, <unk>, w2, w3, ….
  void write_tokenizer(const std::string& folder = "model", int pieces = 11) const {
    std::filesystem::create_directories(folder_ / folder);
    std::string vocab = R"("<bos>": 0, "<unk>": 1)";
    for (int id = 2; id < pieces; ++id) vocab += fmt::format(", \"w{}\": {}", id, id);
    write(
        folder + "/tokenizer.json",
        fmt::format(
            R"({{"version": "1.0", "added_tokens": [{{"id": 0, "content": "<bos>", "special": true}}], )"
            R"("normalizer": null, "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": )"
            R"({{"type": "TemplateProcessing", "single": [{{"SpecialToken": {{"id": "<bos>", "type_id": 0}}}}, )"
            R"({{"Sequence": {{"id": "A", "type_id": 0}}}}], "special_tokens": {{"<bos>": {{"ids": [0]}}}}}}, )"
            R"("decoder": null, "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "<unk>"}}}})",
            vocab));
    write(folder + "/tokenizer_config.json", R"({"bos_token": "<bos>"})");
  }

  /// Runs the program with these arguments.
  CliResult hooked(const std::vector<std::string>& arguments) const {
    std::string command = quoted(HOOKED_CLI);
    for (const auto& argument : arguments) command += " " + quoted(argument);
    command += fmt::format(" > {} 2> {} < /dev/null", quoted(path("stdout")), quoted(path("stderr")));
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }

  /// Runs the program, which must succeed without any output on stderr.
  CliResult succeed(const std::vector<std::string>& arguments) const {
    auto result = hooked(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return result;
  }

  /// Runs the program, which must fail with this exit code, one line on stderr that contains `what`, and no
  /// data.
  void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                      const std::string& what) const {
    const auto result = hooked(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.error.find('\n'), result.error.size() - 1) << result.error;
    EXPECT_NE(result.error.find(what), std::string::npos) << result.error;
  }

  HookedTransformer load() const { return HookedTransformer::load(model()); }

  TempFolder folder_;

 private:
  static std::string quoted(const std::string& argument) {
    std::string text = "'";
    for (const char c : argument) text += c == '\'' ? "'\\''" : std::string(1, c);
    return text + "'";
  }
};

}  // namespace hooked
