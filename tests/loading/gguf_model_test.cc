// The metadata that a GGUF file may have, and the tensors that it may hold; quantised models, files that are
// saved, in several files, and described.
#include "loading/gguf/gguf_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/process_memory.h"
#include "tests/support/relative_difference.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::gguf_model_test {
namespace {

const LoadOptions kRawDoubles = {.dtype = at::kDouble, .processing = WeightProcessing::none()};
const std::filesystem::path kGguf = HOOKED_SOURCE_DIR "/tests/golden/gguf";

/// A Llama of one layer; a test changes its keys and tensors.
class SmallGguf : public testing::Test {
 protected:
  using Sizes = std::vector<std::uint64_t>;
  struct Tensor {
    Sizes sizes;  ///< the last axis' first
    std::uint32_t type = 0;
    std::uint64_t bytes = 0;
  };

  SmallGguf() {
    for (const auto& [key, value] : std::map<std::string, std::uint32_t>{{"context_length", 16},
                                                                         {"embedding_length", 8},
                                                                         {"block_count", 1},
                                                                         {"feed_forward_length", 12},
                                                                         {"attention.head_count", 2},
                                                                         {"attention.head_count_kv", 1}})
      integer(key, value);
    set("attention.layer_norm_rms_epsilon", GgufType::float32, 4, std::bit_cast<std::uint32_t>(1e-5F));
    for (const auto& [name, sizes] : std::map<std::string, Sizes>{{"token_embd", {8, 10}},
                                                                  {"output_norm", {8}},
                                                                  {"blk.0.attn_norm", {8}},
                                                                  {"blk.0.attn_q", {8, 8}},
                                                                  {"blk.0.attn_k", {8, 4}},
                                                                  {"blk.0.attn_v", {8, 4}},
                                                                  {"blk.0.attn_output", {8, 8}},
                                                                  {"blk.0.ffn_norm", {8}},
                                                                  {"blk.0.ffn_gate", {8, 12}},
                                                                  {"blk.0.ffn_up", {8, 12}},
                                                                  {"blk.0.ffn_down", {12, 8}}})
      tensor(name + ".weight", sizes);
  }

  void set(const std::string& key, GgufType type, int width, std::uint64_t value) {
    GgufBytes one;
    entries_[key] = one.number(architecture_ + "." + key, type, value, width).entries.front();
  }
  void integer(const std::string& key, std::uint32_t value) { set(key, GgufType::uint32, 4, value); }
  void real(const std::string& key, float value) {
    set(key, GgufType::float32, 4, std::bit_cast<std::uint32_t>(value));
  }
  void boolean(const std::string& key, bool value) { set(key, GgufType::boolean, 1, value ? 1 : 0); }
  void text(const std::string& key, const std::string& value) {
    GgufBytes one;
    entries_[key] = one.text(architecture_ + "." + key, value).entries.front();
  }

  void tensor(const std::string& name, Sizes sizes, std::uint32_t type = 0, std::uint64_t element_bytes = 4) {
    std::uint64_t bytes = element_bytes;
    for (const std::uint64_t size : sizes) bytes *= size;
    tensors_[name] = {std::move(sizes), type, bytes};
  }

  std::string written() const {
    GgufBytes file;
    file.text("general.architecture", architecture_);
    for (const auto& [key, entry] : entries_) file.entries.push_back(entry);
    for (const auto& [name, tensor] : tensors_) {
      file.data.resize((file.data.size() + 31) / 32 * 32);
      file.tensor(name, tensor.sizes, tensor.type, file.data.size());
      file.data += std::string(tensor.bytes, '\0');
    }
    const auto path = folder_.path() / "m.gguf";
    put_file(path, file.bytes());
    return path.string();
  }

  HookedTransformer load() const { return HookedTransformer::load(written(), kRawDoubles); }

  void refused(std::initializer_list<std::string_view> parts) const {
    const auto file = written();
    expect_refused<CheckpointError>([&] { HookedTransformer::load(file, kRawDoubles); }, file, parts);
    expect_refused<CheckpointError>([&] { describe(file); }, file, parts);
  }

  std::string architecture_ = "llama";
  std::map<std::string, std::string> entries_;
  std::map<std::string, Tensor> tensors_;
  TempFolder folder_;
};

TEST_F(SmallGguf, IsAModel) {
  const HookedTransformer model = load();
  EXPECT_EQ(model.config().n_layers, 1);
  EXPECT_EQ(model.config().d_head, 4);
  EXPECT_EQ(model.config().n_kv_heads, 1);
  EXPECT_EQ(model.config().eps, 1e-5);
  EXPECT_TRUE(model.config().tied_unembedding());
  EXPECT_EQ(model.family(), "llama");
}

TEST_F(SmallGguf, ArchitecturesThatAreNotThere) {
  architecture_ = "mamba";
  refused({"'general.architecture' is 'mamba'", "gptneox", "qwen3moe"});
  put_file(folder_.path() / "m.gguf", GgufBytes().bytes());
  EXPECT_NE(text_thrown_by<CheckpointError>([&] {
              describe((folder_.path() / "m.gguf").string());
            }).find("is missing or no text"),
            std::string::npos);
}

TEST_F(SmallGguf, KeysThatMustBeThere) {
  for (const std::string key : {"context_length", "embedding_length", "block_count", "feed_forward_length",
                                "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    const std::string was = entries_.at(key);
    entries_.erase(key);
    refused({fmt::format("'llama.{}' is missing", key)});
    text(key, "8");
    refused({fmt::format("'llama.{}' is not", key), "got string"});
    if (key != "attention.layer_norm_rms_epsilon") {
      for (const std::uint32_t bad : {0U, (1U << 24U) + 1, 0xFFFFFFFFU}) {
        integer(key, bad);
        refused({fmt::format("'llama.{}' is out of range", key), std::to_string(bad)});
      }
    }
    entries_[key] = was;
  }
  EXPECT_NO_THROW(load());
}

// C1: a file that does not describe a model, or does so with wrong types.
TEST_F(SmallGguf, C1MetadataThatIsNone) {
  const auto without = [&](const GgufBytes& file, std::string_view part) {
    put_file(folder_.path() / "m.gguf", file.bytes());
    expect_refused<CheckpointError>([&] { describe((folder_.path() / "m.gguf").string()); },
                                    (folder_.path() / "m.gguf").native(), {part});
  };
  without(GgufBytes(), "'general.architecture' is missing or no text");
  without(GgufBytes().uint32("general.architecture", 1), "'general.architecture' is missing or no text");
  without(GgufBytes().array("general.architecture", GgufType::text, 1, gguf_text("llama")),
          "'general.architecture' is missing or no text");
  without(GgufBytes().text("general.architecture", "llama"), "'llama.context_length' is missing");
  without(GgufBytes().text("general.architecture", "llama").uint32("llama", 1).text("llama.", "x"),
          "'llama.context_length' is missing");
}

// C3: sizes and numbers that no model has.
TEST_F(SmallGguf, C3NumbersThatDoNotFit) {
  const auto kept = entries_;
  const auto with = [&](const std::function<void()>& set_it, std::initializer_list<std::string_view> parts) {
    set_it();
    const std::string file = written();
    const auto said = [&](const auto& action) {
      try {
        action();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_TRUE(error.where().starts_with(file)) << error.what();
        for (const auto part : parts)
          EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
      }
    };
    said([&] { describe(file); });
    said([&] { HookedTransformer::load(file, kRawDoubles); });
    entries_ = kept;
  };
  with([&] { integer("attention.head_count_kv", 3); },
       {"num_key_value_heads] 3 does not divide num_attention_heads = 2"});
  with([&] { integer("attention.head_count", 3); }, {"'llama.attention.head_count' does not divide"});
  with([&] { integer("attention.head_count_kv", 0); }, {"'llama.attention.head_count_kv' is out of range"});
  with(
      [&] {
        integer("attention.key_length", 5);
        integer("attention.value_length", 5);
      },
      {"turns 5 of the 5 dimensions of a head; expected an even number"});
  for (const float eps :
       {0.0F, -1e-5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    with([&] { real("attention.layer_norm_rms_epsilon", eps); }, {"eps"});
  for (const float base : {0.0F, -1.0F}) with([&] { real("rope.freq_base", base); }, {"rope_theta"});
  with([&] { real("rope.freq_base", std::numeric_limits<float>::quiet_NaN()); },
       {"'llama.rope.freq_base' is not a finite number"});
  with([&] { integer("block_count", 10'001); }, {"10000"});
}

// T4
TEST_F(SmallGguf, TokensThatTheModelHasNotAreRefusedWhereTheyAreUsed) {
  std::string texts;
  for (char letter = 'a'; letter <= 'l'; ++letter) texts += gguf_text(std::string(1, letter));
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  file.array("tokenizer.ggml.tokens", GgufType::text, 12, texts);
  file.array("tokenizer.ggml.merges", GgufType::text, 0, "");
  for (const std::string& entry : file.entries) entries_[entry] = entry;
  const HookedTransformer model = load();
  ASSERT_EQ(model.notes().size(), 1U);
  EXPECT_EQ(model.notes()[0], "the tokenizer knows 12 pieces, the model only 10: ids from 10 on are refused");
  EXPECT_EQ(model.run("abj").logits().size(1), 3);
  EXPECT_NE(text_thrown_by<Error>([&] { (void)model.run("abk").logits(); }).find("10"), std::string::npos);
}

// C4: a config that is larger than the tensors is refused by their headers, without allocations of its size.
TEST_F(SmallGguf, C4SizesAreComparedBeforeAnythingIsAllocated) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  const auto kept = entries_;
  EXPECT_NO_THROW(load());  // code and threads are loaded from now on
  constexpr std::uint32_t kLarge = 1U << 24U;
  for (const auto& [key, value] : std::map<std::string, std::uint32_t>{{"embedding_length", kLarge},
                                                                       {"feed_forward_length", kLarge},
                                                                       {"attention.head_count", 4096},
                                                                       {"attention.key_length", kLarge},
                                                                       {"block_count", 10'000}}) {
    SCOPED_TRACE(key);
    integer(key, value);
    const std::string file = written();
    const PeakMemory held;
    EXPECT_THROW(HookedTransformer::load(file), Error);
    // The names of 10,000 blocks take about 70 MB.
    EXPECT_LE(held.bytes(), std::int64_t{96} << 20);
    entries_ = kept;
  }
}

// Every key of the architecture is obeyed or refused, except the few without meaning.
TEST_F(SmallGguf, KeysThatMayChangeTheModel) {
  const auto with = [&](const std::string& key, const std::function<void()>& set_it,
                        std::initializer_list<std::string_view> parts) {
    set_it();
    refused(parts);
    entries_.erase(key);
  };
  with("new_thing", [&] { integer("new_thing", 0); }, {"metadata llama.new_thing is not supported"});
  with("attention.causal", [&] { boolean("attention.causal", false); },
       {"'llama.attention.causal' is false"});
  for (const char* key :
       {"attention.max_alibi_bias", "attention.clamp_kqv", "logit_scale", "embedding_scale", "residual_scale",
        "attn_logit_softcapping", "rope.scaling.attn_factor", "expert_count"})
    with(key, [&] { real(key, 8.0F); }, {fmt::format("'llama.{}' is 8, which is not supported", key)});
  with("attention.value_length", [&] { integer("attention.value_length", 2); },
       {"'llama.attention.value_length' is 2"});
  with("rope.scaling.type", [&] { text("rope.scaling.type", "odd"); },
       {"'llama.rope.scaling.type' is 'odd'"});
  with("rope.scaling.type", [&] { text("rope.scaling.type", "longrope"); }, {"longrope without its factors"});
  with("rope.dimension_count", [&] { integer("rope.dimension_count", 6); },
       {"'llama.rope.dimension_count' is out of range"});
  with("rope.freq_base", [&] { real("rope.freq_base", std::numeric_limits<float>::infinity()); },
       {"'llama.rope.freq_base' is not a finite number"});
  for (const auto& [key, value] : std::map<std::string, std::uint32_t>{{"vocab_size", 10},
                                                                       {"expert_count", 0},
                                                                       {"attention.sliding_window", 0},
                                                                       {"rope.dimension_count", 4}})
    integer(key, value);
  real("logit_scale", 1.0F);
  boolean("attention.causal", true);
  EXPECT_NO_THROW(load()) << "these say what is so anyway";
}

TEST_F(SmallGguf, ListsOfEqualNumbersAreOne) {
  const auto list = [&](std::uint32_t first, std::uint32_t second) {
    GgufBytes one;
    one.array("llama.feed_forward_length", GgufType::uint32, 2, little(first, 4) + little(second, 4));
    entries_["feed_forward_length"] = one.entries.front();
  };
  list(12, 12);
  EXPECT_NO_THROW(load());
  list(12, 13);
  refused({"'llama.feed_forward_length' differs from layer to layer"});
}

TEST_F(SmallGguf, RotaryKeys) {
  real("rope.freq_base", 500000.0F);
  text("rope.scaling.type", "linear");
  real("rope.scaling.factor", 4.0F);
  const auto rotary = std::get<RotaryPositions>(load().config().positions);
  EXPECT_EQ(rotary.base, 500000.0);
  EXPECT_EQ(std::get<LinearScaling>(rotary.scaling).factor, 4.0);
  entries_.erase("rope.scaling.type");
  EXPECT_EQ(std::get<RotaryPositions>(load().config().positions), rotary) << "linear is what a factor means";
  tensor("rope_freqs.weight", {2});
  refused({"'llama.rope.scaling.type' is set together with 'rope_freqs.weight'"});
}

TEST_F(SmallGguf, WindowsAreMistrals) {
  integer("attention.sliding_window", 5);
  const HookedTransformer model = load();
  EXPECT_EQ(model.family(), "mistral");
  EXPECT_EQ(model.config().window->size, 5);
}

TEST_F(SmallGguf, EveryTensorMustFit) {
  const auto with = [&](const std::string& name, const std::function<void()>& set_it,
                        std::initializer_list<std::string_view> parts) {
    const auto was = tensors_;
    set_it();
    SCOPED_TRACE(name);
    refused(parts);
    tensors_ = was;
  };
  for (const std::string name :
       {"blk.0.attn_sinks.weight", "blk.1.attn_q.weight", "blk.0.attn_q", "blk.x.attn_q.weight",
        "v.patch_embd.weight", "blk.0.attn_q.scale", "blk.-1.attn_q.weight"})
    with(name, [&] { tensor(name, {8}); },
         {fmt::format("tensor '{}' is not one that the architecture 'llama'", name)});
  with("bias", [&] { tensor("blk.0.attn_output.bias", {8}); },
       {"1 tensors have no place in a llama model", "self_attn.o_proj.bias"});
  with("IQ",
       [&] {
         tensor("blk.0.ffn_down.weight", {256, 8}, 17, 0);
         tensors_["blk.0.ffn_down.weight"].bytes = 8 * 74;
       },
       {"'blk.0.ffn_down.weight' is stored as IQ2_XS", "Q4_K"});
  with("rows",
       [&] {
         tensor("blk.0.attn_q.weight", {8, 12});
       },
       {"'blk.0.attn_q.weight' has another shape", "2 heads of 4 rows"});
  with("rank",
       [&] {
         tensor("blk.0.attn_k.weight", {2, 4, 4});
       },
       {"'blk.0.attn_k.weight' has another shape"});
  with("embedding", [&] { tensors_.erase("token_embd.weight"); },
       {"'token_embd.weight' is missing or no matrix"});
  const auto was = tensors_;
  tensors_.erase("blk.0.ffn_up.weight");
  EXPECT_NE(text_thrown_by<CheckpointError>([&] { load(); }).find("layers.0.mlp.up_proj.weight"),
            std::string::npos);
  tensors_ = was;
  tensor("blk.0.ffn_up.weight", {12, 8});
  EXPECT_NE(text_thrown_by<CheckpointError>([&] { load(); }).find("another shape"), std::string::npos);
}

TEST_F(SmallGguf, FrequenciesThatFilesCarryAreLeftOut) {
  tensor("blk.0.attn_rot_embd.weight", {2});
  EXPECT_NO_THROW(load());
}

// The model of a file with many formats, built from its tensors, which are read one by one and put in order
// by hand.
TEST(QuantisedGguf, IsTheModelOfItsNumbers) {
  const auto file = kGguf / "quantised.gguf";
  const auto stored = CheckpointReader::open_file(file);
  const auto numbers = [&](const std::string& name) { return stored.read(name + ".weight").to(at::kDouble); };
  const auto rotated = [&](const std::string& name, std::int64_t heads) {  // as transformers undoes it
    const at::Tensor rows = numbers(name);
    return rows.view({heads, 4, 2, 256}).transpose(1, 2).reshape({heads * 8, 256});
  };
  const auto model = HookedTransformer::load(file.string(), kRawDoubles);
  const auto weights = model.weights();
  const auto same = [](const at::Tensor& got, const at::Tensor& wanted) { return at::equal(got, wanted); };
  EXPECT_TRUE(same(weights["embed.W_E"], numbers("token_embd")));
  EXPECT_TRUE(same(weights["unembed.W_U"], numbers("output").t()));
  EXPECT_TRUE(
      same(weights["blocks.0.attn.W_Q"], rotated("blk.0.attn_q", 2).view({2, 8, 256}).transpose(1, 2)));
  EXPECT_TRUE(
      same(weights["blocks.0.attn._W_K"], rotated("blk.0.attn_k", 1).view({1, 8, 256}).transpose(1, 2)));
  EXPECT_TRUE(same(weights["blocks.0.attn._W_V"], numbers("blk.0.attn_v").view({1, 8, 256}).transpose(1, 2)));
  EXPECT_TRUE(same(weights["blocks.0.mlp.W_gate"], numbers("blk.0.ffn_gate").t()));
  EXPECT_TRUE(same(weights["blocks.0.mlp.W_in"], numbers("blk.0.ffn_up").t()));
  EXPECT_TRUE(same(weights["blocks.0.mlp.W_out"], numbers("blk.0.ffn_down").t()));
  ASSERT_EQ(model.notes().size(), 1U);
  EXPECT_NE(model.notes()[0].find("2 as Q6_K"), std::string::npos) << model.notes()[0];
  EXPECT_EQ(describe(file.string()).notes, model.notes());
  EXPECT_GT(outline(file.string()).parameters, 0);
}

TEST(QuantisedGguf, LoadsIntoTheDtypeAskedFor) {
  const auto load = [](at::ScalarType dtype) {
    return HookedTransformer::load((kGguf / "quantised.gguf").string(),
                                   {.dtype = dtype, .processing = WeightProcessing::none()})
        .weights()["blocks.0.attn.W_Q"];
  };
  const at::Tensor wide = load(at::kDouble);
  EXPECT_TRUE(at::equal(load(at::kFloat).to(at::kDouble), wide));
  EXPECT_TRUE(at::equal(load(at::kBFloat16), wide.to(at::kBFloat16)));
}

TEST(SavedGguf, IsTheSameModel) {
  for (const char* name : {"quantised", "gemma2", "qwen2_moe"}) {
    const auto model = HookedTransformer::load((kGguf / fmt::format("{}.gguf", name)).string());
    const TempFolder saved;
    model.save(saved.path());
    const auto again = HookedTransformer::load(saved.path().string());
    const at::Tensor tokens = at::arange(5).view({1, 5});
    EXPECT_TRUE(at::equal(again.run(tokens).logits(), model.run(tokens).logits())) << name;
  }
}

}  // namespace
}  // namespace hooked::gguf_model_test
