// hooked info of GGUF files: storage, missing files, and how long it takes.
#include <filesystem>
#include <map>

#include "io/gguf/ggml_types.h"
#include "tests/cli/cli_fixture.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/processor_time.h"

namespace hooked::gguf_info_test {
namespace {

const std::string kQuantised = HOOKED_SOURCE_DIR "/tests/golden/gguf/quantised.gguf";

/// A GGUF file of a Llama with a header only: its numbers are a hole.
class GgufInfo : public CliTest {
 protected:
  struct Sizes {
    std::uint64_t layers, d_model, d_mlp, heads, vocabulary;
  };

  GgufInfo& tensor(const std::string& name, const std::vector<std::uint64_t>& sizes, std::uint32_t type = 0) {
    const GgmlType& stored = *find_ggml_type(type);
    std::uint64_t numbers = 1;
    for (const std::uint64_t size : sizes) numbers *= size;
    data_ = (data_ + 31) / 32 * 32;
    file_.tensor(name, sizes, type, data_);
    data_ += numbers / static_cast<std::uint64_t>(stored.elements) * stored.bytes;
    parameters_ += numbers;
    return *this;
  }

  void metadata(const Sizes& sizes) {
    file_.text("general.architecture", "llama").uint32("llama.context_length", 131072);
    file_.uint32("llama.embedding_length", static_cast<std::uint32_t>(sizes.d_model));
    file_.uint32("llama.block_count", static_cast<std::uint32_t>(sizes.layers));
    file_.uint32("llama.feed_forward_length", static_cast<std::uint32_t>(sizes.d_mlp));
    file_.uint32("llama.attention.head_count", static_cast<std::uint32_t>(sizes.heads));
    file_.uint32("llama.attention.head_count_kv", static_cast<std::uint32_t>(sizes.heads / 4));
    file_.float32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    std::string texts, types;
    for (std::uint64_t i = 0; i < sizes.vocabulary; ++i) {
      texts += gguf_text(i < 26 ? std::string(1, static_cast<char>('a' + i)) : fmt::format("<{}>", i));
      types += little(i < 26 ? 1 : 3, 4);
    }
    file_.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "llama-bpe");
    file_.array("tokenizer.ggml.tokens", GgufType::text, sizes.vocabulary, texts);
    file_.array("tokenizer.ggml.token_type", GgufType::int32, sizes.vocabulary, types);
    file_.array("tokenizer.ggml.merges", GgufType::text, 0, "").uint32("tokenizer.ggml.bos_token_id", 30);
    file_.text("tokenizer.chat_template", "{{ messages[0].content }}");
  }

  void ends(const Sizes& sizes) {
    tensor("token_embd.weight", {sizes.d_model, sizes.vocabulary}, kQ4K);
    tensor("output_norm.weight", {sizes.d_model})
        .tensor("output.weight", {sizes.d_model, sizes.vocabulary}, kQ6K);
  }

  void block(std::uint64_t number, const Sizes& sizes) {
    const std::string at = fmt::format("blk.{}.", number);
    const std::uint64_t width = sizes.d_model, keys = sizes.d_model / 4;
    tensor(at + "attn_norm.weight", {width}).tensor(at + "ffn_norm.weight", {width});
    tensor(at + "attn_q.weight", {width, width}, kQ4K).tensor(at + "attn_k.weight", {width, keys}, kQ4K);
    tensor(at + "attn_v.weight", {width, keys}, kQ6K).tensor(at + "attn_output.weight", {width, width}, kQ4K);
    for (const char* name : {"ffn_gate", "ffn_up"}) tensor(at + name + ".weight", {width, sizes.d_mlp}, kQ4K);
    tensor(at + "ffn_down.weight", {sizes.d_mlp, width}, kQ6K);
  }

  // And begins another one.
  void put(const std::string& name) {
    const std::string header = file_.header();
    std::ofstream(folder_ / name, std::ios::binary) << header;
    std::filesystem::resize_file(folder_ / name, (header.size() + 31) / 32 * 32 + data_);
    file_ = GgufBytes();
    data_ = 0;
  }

  static constexpr std::uint32_t kQ4K = 12, kQ6K = 14;
  GgufBytes file_;
  std::uint64_t data_ = 0;
  std::uint64_t parameters_ = 0;
};

TEST_F(GgufInfo, SaysHowAFileIsStored) {
  const auto json = succeed({"info", kQuantised, "--json"}).json();
  EXPECT_EQ(json["family"], "llama");
  EXPECT_EQ(json["config"]["d_model"], 256);
  std::map<std::string, std::int64_t> tensors;
  std::int64_t bytes = 0;
  for (const auto& row : json["storage"]) {
    const bool plain = row["dtype"] == "F32" || row["dtype"] == "F16";
    EXPECT_EQ(row["form"], plain ? "numbers" : "blocks") << row.dump();
    tensors[row["dtype"].get<std::string>()] = row["tensors"].get<std::int64_t>();
    bytes += row["bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(tensors.at("Q6_K"), 2);
  EXPECT_EQ(bytes, json["stored_bytes"]);
  EXPECT_LT(bytes, json["bytes"].get<std::int64_t>() / 2) << "a few bits a number";
  EXPECT_NE(json["notes"].dump().find("2 as Q6_K"), std::string::npos) << json["notes"].dump();
  EXPECT_GT(json["context"], 0);
  EXPECT_EQ(json["tokenizer"]["kind"], nullptr);
  EXPECT_NE(json["tokenizer"]["problem"].get<std::string>().find("--tokens"), std::string::npos);
  for (const auto* empty : {"missing_files", "unread_parts", "ignored_files", "ignored_keys"})
    EXPECT_EQ(json[empty], Json::array()) << empty;
  const auto text = succeed({"info", kQuantised}).out;
  EXPECT_NE(text.find("Q6_K"), std::string::npos) << text;
  EXPECT_NE(text.find("a run reads at most"), std::string::npos) << text;
  const auto end_of = [&](const std::string& dtype) {
    const auto at = text.find("\n  " + dtype + " ");
    const auto row = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    return row.substr(row.rfind("  ") + 2);
  };
  EXPECT_EQ(end_of("F32"), "plain numbers") << text;
  tensors.erase("F32");
  tensors.erase("F16");
  for (const auto& [dtype, count] : tensors) EXPECT_EQ(end_of(dtype), "blocks of quantised numbers") << text;
}

TEST_F(GgufInfo, OfAPartOfASplitDescribesWhatIsThere) {
  const Sizes sizes{.layers = 2, .d_model = 256, .d_mlp = 512, .heads = 4, .vocabulary = 40};
  const auto split = [&](std::uint32_t no) {
    file_.number("split.no", GgufType::uint16, no, 2).number("split.count", GgufType::uint16, 2, 2);
  };
  metadata(sizes);
  split(0);
  ends(sizes);
  block(0, sizes);
  put("m-00001-of-00002.gguf");
  split(1);
  block(1, sizes);
  put("m-00002-of-00002.gguf");
  const auto first = path("m-00001-of-00002.gguf");
  const auto whole = succeed({"info", first, "--json"}).json();
  EXPECT_EQ(whole["parameters"], parameters_);
  EXPECT_EQ(whole["missing_files"], Json::array());
  EXPECT_EQ(whole["tokenizer"], Json({{"kind", "BPE"},
                                      {"form", "metadata of the GGUF file"},
                                      {"pieces", 40},
                                      {"problem", nullptr},
                                      {"around", whole["tokenizer"]["around"]}}));
  EXPECT_EQ(whole["tokenizer"]["around"]["before"][0]["id"], 30);
  EXPECT_TRUE(whole["chat_template"].is_string());
  EXPECT_EQ(whole["context"], 131072);

  std::filesystem::remove(folder_ / "m-00002-of-00002.gguf");
  const auto part = succeed({"info", first, "--json"}).json();
  EXPECT_EQ(part["missing_files"], Json::array({"m-00002-of-00002.gguf"}));
  EXPECT_EQ(part["parameters"], parameters_);
  EXPECT_EQ(part["config"], whole["config"]);
  EXPECT_EQ(part["tokenizer"], whole["tokenizer"]);
  EXPECT_LT(part["stored_bytes"], whole["stored_bytes"]);
  const auto kept = succeed({"info", first, "--weights", "stored", "--json"}).json();
  EXPECT_EQ(kept["weights"], "stored");
  EXPECT_EQ(kept["bytes"], part["stored_bytes"]) << "in codes: more is not known";
  EXPECT_NE(kept["notes"].dump().find("is known when all files are there"), std::string::npos);
  expect_failure({"info", first, "--weights", "stored", "--process", "fold_ln"}, 1, "got fold_ln");
  EXPECT_NE(part["notes"].dump().find("files are missing: what this says of the model is what the metadata"),
            std::string::npos)
      << part["notes"].dump();
  EXPECT_EQ(part["fetch"], nullptr);
  EXPECT_NE(succeed({"info", first}).out.find("missing: "), std::string::npos);
  expect_failure({"run", first, "--tokens", "1"}, 1,
                 "1 of 2 files of the model are missing: m-00002-of-00002.gguf");

  // In a cache: the command that downloads the rest of it.
  const auto snapshot = folder_ / "cache/models--org--name/snapshots/c0ffee";
  std::filesystem::create_directories(snapshot);
  std::filesystem::rename(first, snapshot / "m-00001-of-00002.gguf");
  const auto cached = (snapshot / "m-00001-of-00002.gguf").string();
  const std::string command = "hf download org/name --revision c0ffee --include 'm-*-of-00002.gguf'";
  EXPECT_EQ(succeed({"info", cached, "--json"}).json()["fetch"], command);
  EXPECT_NE(succeed({"info", cached}).out.find("`" + command + "` fetches them"), std::string::npos);
  expect_failure({"run", cached, "--tokens", "1"}, 1, "fetch them with `" + command + "`");

  // If the first block is missing, nothing says what the model is.
  metadata(sizes);
  split(0);
  put("m-00001-of-00002.gguf");
  expect_failure({"info", first}, 1, "1 of 2 files of the model are missing");
}

TEST_F(GgufInfo, SaysWhatCannotBeUsed) {
  const Sizes sizes{.layers = 1, .d_model = 256, .d_mlp = 512, .heads = 4, .vocabulary = 40};
  metadata(sizes);
  file_.entries.erase(file_.entries.begin() + 9);  // tokenizer.ggml.pre
  file_.text("tokenizer.ggml.pre", "a new one");
  ends(sizes);
  block(0, sizes);
  put("m.gguf");
  const auto json = succeed({"info", path("m.gguf"), "--json"}).json();
  EXPECT_EQ(json["tokenizer"]["kind"], nullptr);
  EXPECT_NE(json["tokenizer"]["problem"].get<std::string>().find("'tokenizer.ggml.pre' is 'a new one'"),
            std::string::npos)
      << json["tokenizer"].dump();
  EXPECT_EQ(json["chat_template"], nullptr);
  EXPECT_NE(json["notes"].dump().find("text cannot be used with this model"), std::string::npos);
  EXPECT_NE(succeed({"info", path("m.gguf")}).out.find("no tokenizer"), std::string::npos);
}

// 405 billion parameters in ten files, as Llama 3.1's largest is published.
TEST_F(GgufInfo, HeadersOf405BillionAreReadWithoutTheirNumbers) {
  const Sizes sizes{.layers = 126, .d_model = 16384, .d_mlp = 53248, .heads = 128, .vocabulary = 128256};
  constexpr std::uint64_t kFiles = 10;
  metadata(sizes);
  for (std::uint64_t no = 0; no < kFiles; ++no) {
    file_.number("split.no", GgufType::uint16, no, 2).number("split.count", GgufType::uint16, kFiles, 2);
    if (no == 0) ends(sizes);
    for (std::uint64_t l = sizes.layers * no / kFiles; l < sizes.layers * (no + 1) / kFiles; ++l)
      block(l, sizes);
    put(fmt::format("m-{:05}-of-00010.gguf", no + 1));
  }
  const double before = child_seconds();
  const auto json = succeed({"info", path("m-00001-of-00010.gguf"), "--json"}).json();
  const double seconds = child_seconds() - before;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(seconds, kSecondsForHeaders);
#endif
  RecordProperty("seconds", fmt::format("{:.2f}", seconds));
  EXPECT_EQ(json["parameters"], parameters_);
  EXPECT_GT(parameters_, 400'000'000'000U);
  EXPECT_EQ(json["tokenizer"]["pieces"], 128256);
  EXPECT_EQ(json["storage"][0]["dtype"], "Q4_K");
  for (std::uint64_t no = 1; no < kFiles; ++no)
    std::filesystem::remove(folder_ / fmt::format("m-{:05}-of-00010.gguf", no + 1));
  const double between = child_seconds();
  const auto part = succeed({"info", path("m-00001-of-00010.gguf"), "--json"}).json();
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(child_seconds() - between, kSecondsForHeaders);
#endif
  EXPECT_EQ(part["parameters"], json["parameters"]);
  EXPECT_EQ(part["missing_files"].size(), kFiles - 1);
}

}  // namespace
}  // namespace hooked::gguf_info_test
