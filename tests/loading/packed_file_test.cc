// Folders with packed weights: their results compared with plain ones, what is in the file, what becomes
// of them if something else is asked for, and which files are refused.
#include "loading/fill/packed_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/engine/trainable_transformer.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "models/transformer/transformer.h"
#include "tests/support/random_config.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::packed_file_test {
namespace {

struct Kind {
  std::string name;
  ModelConfig config;
};

// Sizes that fit blocks of several widths, and in one kind some that fit none.
std::vector<Kind> kinds() {
  ModelConfig plain = small_config();
  plain.d_model = 32;
  plain.d_head = 16;
  plain.d_mlp = 96;
  plain.dtype = at::kFloat;
  const auto with = [&](const auto& change) {
    ModelConfig config = plain;
    change(config);
    return config;
  };
  return {
      {"plain", plain},
      {"heads of 64", with([](ModelConfig& c) { c.d_head = 64; })},
      {"nothing fits", with([](ModelConfig& c) { c.d_model = 15, c.d_head = 5, c.d_mlp = 21; })},
      {"grouped and gated", with([](ModelConfig& c) {
         c.n_kv_heads = 2;
         c.d_head = 80;
         c.mlp = MlpKind::gated;
         c.norm = c.final_norm = NormKind::rms_norm;
         c.positions = RotaryPositions{.dim = 16};
       })},
      {"tied", with([](ModelConfig& c) { c.unembedding->tied = true; })},
      {"mixture", with([](ModelConfig& c) {
         c.mlp = MlpKind::gated;
         c.d_mlp = 48;
         c.experts = Experts{.n_experts = 5, .per_token = 2, .d_expert = 48, .d_shared = 32};
       })},
      {"latent attention", with([](ModelConfig& c) {
         c.norm = c.final_norm = NormKind::rms_norm;
         c.positions = RotaryPositions{.dim = 2, .adjacent_pairs = true, .at_end = true};
         c.latent = Latents{.d_kv = 16, .d_query = 32, .d_shared_key = 2, .d_value = 32, .eps = 1e-3};
       })},
      {"encoder", with([](ModelConfig& c) {
         c.direction = AttentionDirection::bidirectional;
         c.norm_place = NormPlace::post;
         c.final_norm = NormKind::none;
         c.embedding_sum_norm = true;
         c.token_types = 3;
         c.unembedding->tied = true;
         c.unembedding->mlm_head = Activation::gelu;
       })},
      {"two stacks",
       [&] {
         ModelConfig config = two_stack_config();
         config.d_model = 32, config.d_head = 16, config.d_mlp = 64;
         config.dtype = at::kFloat;
         return config;
       }()},
  };
}

class PackedFile : public testing::Test {
 protected:
  std::string folder(const char* name) const { return (folder_ / name).string(); }
  std::string file(const char* name = "packed") const {
    return (folder_ / name / "packed.safetensors").string();
  }
  HookedTransformer saved(const ModelConfig& config, const char* name = "packed") const {
    const HookedTransformer model = random_model(config);
    model.save(folder(name), {.packed = true});
    return model;
  }
  // How the process has mapped the packed file (`r--s`), empty if it has not.
  std::string mapping(const char* name = "packed") const {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(file(name))) return line.substr(line.find(' ') + 1, 4);
    }
    return {};
  }
  // The file with other tensors or metadata.
  void rewrite(const std::function<void(std::vector<std::pair<std::string, at::Tensor>>&,
                                        std::map<std::string, std::string>&)>& change,
               std::size_t alignment = 64) const {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    std::map<std::string, std::string> metadata;
    {
      const SafetensorsFile old = SafetensorsFile::open(file());
      metadata = old.metadata();
      for (const TensorInfo& info : old.tensors()) tensors.emplace_back(info.name, old.read(info.name));
    }
    change(tensors, metadata);
    save_safetensors(file(), tensors, {.metadata = metadata, .alignment = alignment});
  }
  std::string refusal(const LoadOptions& options = {}) const {
    return text_thrown_by<CheckpointError>([&] { HookedTransformer::load(folder("packed"), options); });
  }

  const TempFolder folder_;
};

at::Tensor logits_of(const HookedTransformer& model) {
  const at::Tensor tokens = random_tokens(model.config(), {2, 7});
  if (!model.config().has_encoder()) return model.run(tokens).logits();
  return model.run({tokens, {.decoder = {.tokens = tokens.narrow(1, 0, 5)}}}).logits();
}

// The note about a packed file that was not mapped.
std::string unpacking_note(const HookedTransformer& model) {
  const auto found = std::ranges::find_if(
      model.notes(), [](const std::string& note) { return note.find("unpacked") != std::string::npos; });
  return found == model.notes().end() ? std::string() : *found;
}

void expect_equal(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

TEST_F(PackedFile, ComputesTheBitsThatThePlainFolderComputes) {
  int blocks = 0;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (Kind& kind : kinds()) {
      SCOPED_TRACE(kind.name + " in " + toString(dtype));
      kind.config.dtype = dtype;
      const TempFolder here;
      const HookedTransformer model = random_model(kind.config);
      model.save(here / "packed", {.packed = true});
      model.save(here / "plain");
      const auto packed = HookedTransformer::load((here / "packed").string());
      const auto plain = HookedTransformer::load((here / "plain").string());
      EXPECT_EQ(packed.config(), plain.config());
      EXPECT_EQ(packed.notes(), plain.notes());
      EXPECT_TRUE(at::equal(logits_of(packed), logits_of(plain)));
      expect_equal(packed.state_dict(), plain.state_dict());
      expect_equal(packed.state_dict(), model.state_dict());
      for (const TensorInfo& info : SafetensorsFile::open(here / "packed" / "packed.safetensors").tensors()) {
        blocks += info.shape.size() == 4;
      }
      packed.save(here / "again");
      EXPECT_EQ(read_text_file(here / "again" / "model.safetensors", 1 << 24),
                read_text_file(here / "plain" / "model.safetensors", 1 << 24));
    }
  }
  if (fastest_storage(at::kFloat) != Storage::plain) {
    EXPECT_GT(blocks, 100);
  }
}

TEST_F(PackedFile, ServesRandomConfigs) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const TempFolder here;
    const HookedTransformer model = random_model(random_config(seed));
    model.save(here / "packed", {.packed = true});
    const auto packed = HookedTransformer::load((here / "packed").string());
    EXPECT_EQ(packed.config(), model.config());
    expect_equal(packed.state_dict(), model.state_dict());
  }
}

TEST_F(PackedFile, IsMappedReadOnlyForAsLongAsItsModelLives) {
  const HookedTransformer model = saved(kinds()[0].config);
  EXPECT_EQ(mapping(), "");
  {
    const HookedTransformer packed = HookedTransformer::load(folder("packed"));
    EXPECT_EQ(mapping(), "r--s");
    const at::Tensor embedding = packed.weights().W_E();
    const TensorInfo info = *SafetensorsFile::open(file()).find("embed.W_E");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(embedding.const_data_ptr()) % 64, info.begin % 64);
  }
  EXPECT_EQ(mapping(), "");
}

TEST_F(PackedFile, AReplacedFileIsOnlyNewForWhoLoadsIt) {
  const HookedTransformer model = saved(kinds()[0].config);
  const HookedTransformer packed = HookedTransformer::load(folder("packed"));
  HookedTransformer::create(kinds()[0].config, {.seed = 99}).save(folder("packed"), {.packed = true});
  EXPECT_TRUE(at::equal(logits_of(packed), logits_of(model)));
  EXPECT_FALSE(at::equal(logits_of(HookedTransformer::load(folder("packed"))), logits_of(model)));
}

TEST_F(PackedFile, ServesEverythingThatALoadedModelServes) {
  const HookedTransformer model = saved(kinds()[3].config);
  HookedTransformer packed = HookedTransformer::load(folder("packed"));
  const at::Tensor tokens = random_tokens(model.config(), {2, 4});
  const GenerateOptions greedy{.max_new_tokens = 4, .sampling = {.greedy = true}};
  EXPECT_TRUE(at::equal(packed.generate(tokens, greedy).tokens, model.generate(tokens, greedy).tokens));
  EXPECT_TRUE(at::equal(packed.weights().W_Q(1), model.weights().W_Q(1)));
  EXPECT_TRUE(at::equal(packed.weights().W_U(), model.weights().W_U()));
  const auto halved = [&](HookedTransformer of) {
    const HookHandle handle = of.hook("z1", [](const at::Tensor& z) { return z * 0.5; });
    return of.run(tokens).logits();
  };
  EXPECT_TRUE(at::equal(halved(packed), halved(model)));
  const auto trained = [&](const HookedTransformer& from) {
    const TrainableTransformer trainable = TrainableTransformer::from(from);
    trainable.loss(tokens).backward();
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor parameter : trainable.parameters()) parameter.sub_(parameter.grad() * 0.1);
    }
    return logits_of(trainable.freeze());
  };
  EXPECT_TRUE(at::equal(trained(packed), trained(model)));
  EXPECT_TRUE(at::equal(logits_of(packed), logits_of(model))) << "training has copies";
}

TEST_F(PackedFile, MatricesLieInBlocksOfColumns) {
  const HookedTransformer model = saved(kinds()[0].config);
  const SafetensorsFile packed = SafetensorsFile::open(file());
  if (packed.metadata().at("hooked_packed_storage") == "plain") GTEST_SKIP() << "no blocks on this processor";
  EXPECT_EQ(packed.metadata().at("hooked_packed_layout"), "1");
  const at::Tensor blocks = packed.read("blocks.1.mlp.W_in");  // [block, in, column, 1]
  const at::Tensor expected = model.state_dict().at("blocks.1.mlp.W_in");
  ASSERT_EQ(blocks.dim(), 4);
  ASSERT_EQ(blocks.size(0) * blocks.size(2), 96);
  for (std::int64_t column = 0; column < 96; ++column) {
    EXPECT_TRUE(at::equal(blocks[column / blocks.size(2)].select(1, column % blocks.size(2)).select(1, 0),
                          expected.select(1, column)));
  }
  for (const TensorInfo& info : packed.tensors()) {
    EXPECT_TRUE(info.bytes() % 64 != 0 || info.begin % 64 == 0) << info.name;
  }
}

TEST_F(PackedFile, AnotherDtypeOrProcessingIsMadeOfItsWeights) {
  ModelConfig config = kinds()[0].config;
  const HookedTransformer model = saved(config);
  model.save(folder("plain"));
  const auto expect_as_plain = [&](const LoadOptions& options, const std::string& reason) {
    const auto packed = HookedTransformer::load(folder("packed"), options);
    const auto plain = HookedTransformer::load(folder("plain"), options);
    EXPECT_EQ(packed.config(), plain.config());
    expect_equal(packed.state_dict(), plain.state_dict());
    EXPECT_TRUE(at::equal(logits_of(packed), logits_of(plain)));
    EXPECT_NE(unpacking_note(packed).find(reason), std::string::npos) << unpacking_note(packed);
    EXPECT_EQ(mapping(), "");
  };
  expect_as_plain({.dtype = at::kBFloat16}, "dtype");
  expect_as_plain({.dtype = at::kDouble}, "dtype");
  expect_as_plain({.processing = WeightProcessing::all_that_apply()}, "processing");
  // The requested form is the stored one.
  const auto same = HookedTransformer::load(folder("packed"),
                                            {.dtype = at::kFloat, .processing = WeightProcessing::none()});
  EXPECT_EQ(unpacking_note(same), "");
  EXPECT_EQ(mapping(), "r--s");
}

TEST_F(PackedFile, BlocksOfAnotherProcessorAreUnpacked) {
  for (const Storage storage : {Storage::plain, Storage::narrow_blocks, Storage::wide_blocks}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (Kind& kind : kinds()) {
        SCOPED_TRACE(kind.name + " in " + std::string(storage_name(storage)));
        kind.config.dtype = dtype;
        const TempFolder here;
        const HookedTransformer model = random_model(kind.config);
        model.save(here / "packed", {.packed = true});
        LoadedModel other(kind.config, c10::Device(at::kCPU), storage);
        const StateDict weights = model.state_dict();
        const at::NoGradGuard no_grad;
        for (const WeightSlot& slot : other.slots()) slot.view.write(weights.at(slot.name));
        AtomicFile file(here / "packed" / "packed.safetensors");
        write_packed(file, other, nullptr);
        file.commit();
        const auto packed = HookedTransformer::load((here / "packed").string());
        EXPECT_EQ(unpacking_note(packed).empty(), storage == fastest_storage(dtype));
        expect_equal(packed.state_dict(), model.state_dict());
        EXPECT_TRUE(at::equal(logits_of(packed), logits_of(model)));
      }
    }
  }
}

TEST_F(PackedFile, ProgressEndsWithAllBytes) {
  const HookedTransformer model = saved(kinds()[0].config);
  std::uint64_t bytes = 0, seen = 0;
  for (const auto& [name, weight] : model.state_dict()) bytes += weight.nbytes();
  HookedTransformer::load(folder("packed"), {.progress = [&](std::uint64_t done, std::uint64_t total) {
                            EXPECT_EQ(done, total);
                            seen = done;
                          }});
  EXPECT_EQ(seen, bytes);
}

TEST_F(PackedFile, TensorsThatDoNotLieAsKernelsWantThemAreCopied) {
  const HookedTransformer model = saved(kinds()[0].config);
  rewrite([](auto& tensors, auto&) { std::reverse(tensors.begin(), tensors.end()); }, 8);
  EXPECT_TRUE(at::equal(logits_of(HookedTransformer::load(folder("packed"))), logits_of(model)));
}

TEST_F(PackedFile, AnotherLayoutIsRefused) {
  saved(kinds()[0].config);
  rewrite([](auto&, auto& metadata) { metadata["hooked_packed_layout"] = "2"; });
  const std::string layout = refusal();
  for (const char* part : {"packed", "layout '2'", "expected 1", "save the model again"}) {
    EXPECT_NE(layout.find(part), std::string::npos) << layout;
  }
  rewrite([](auto&, auto& metadata) {
    metadata["hooked_packed_layout"] = "1";
    metadata["hooked_packed_storage"] = "round_blocks";
  });
  const std::string storage = refusal();
  for (const char* part : {"round_blocks", "wide_blocks"}) {
    EXPECT_NE(storage.find(part), std::string::npos) << storage;
  }
  rewrite([](auto&, auto& metadata) {
    metadata["hooked_packed_storage"] = "plain";
    metadata["hooked_packed_dtype"] = "int8";
  });
  EXPECT_NE(refusal().find("packed in dtype 'int8'"), std::string::npos);
}

TEST_F(PackedFile, TensorsOfAnotherModelAreRefused) {
  ModelConfig config = kinds()[0].config;
  saved(config);
  rewrite([](auto& tensors, auto&) {
    for (auto& [name, tensor] : tensors) {
      if (name == "blocks.0.attn.b_O") name = "blocks.0.attn.b_X";
      if (name == "embed.W_E") tensor = tensor.narrow(0, 0, 5);
      if (name == "blocks.2.mlp.b_in") tensor = tensor.to(at::kDouble);
    }
  });
  const std::string text = refusal();
  for (const char* part : {"blocks.0.attn.b_O (missing)", "blocks.0.attn.b_X (unknown)",
                           "embed.W_E (float32 [5, 32] instead of float32 [11, 32])",
                           "blocks.2.mlp.b_in (float64 [96] instead of float32 [96])"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  rewrite([](auto& tensors, auto&) { tensors.clear(); });
  EXPECT_NE(refusal().find("no tensors"), std::string::npos);
}

TEST_F(PackedFile, AFileThatWasCutShortIsRefused) {
  saved(kinds()[0].config);
  const auto whole = std::filesystem::file_size(file());
  for (const std::uintmax_t bytes : {whole - 1, whole / 2, std::uintmax_t{100}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(file(), bytes);
    EXPECT_NE(refusal(), "") << bytes;
  }
}

TEST_F(PackedFile, AnotherModelsConfigIsRefused) {
  saved(kinds()[0].config);
  write_file(folder_ / "packed" / "config.json",
             R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 2, "n_positions": 10,
                 "vocab_size": 11})");
  EXPECT_NE(refusal().find("packed weights are next to another model's config.json"), std::string::npos);
}

TEST_F(PackedFile, AFolderHoldsOneForm) {
  const HookedTransformer model = saved(kinds()[0].config);
  model.save(folder("packed"));
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(at::equal(logits_of(HookedTransformer::load(folder("packed"))), logits_of(model)));
  model.save(folder("packed"), {.packed = true});
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "packed" / "model.safetensors"));
  EXPECT_TRUE(at::equal(logits_of(HookedTransformer::load(folder("packed"))), logits_of(model)));
}

}  // namespace
}  // namespace hooked::packed_file_test
