// Files of T5 and BART: one embedding under several names, with both stacks or with only the encoder.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::embedding_copies_test {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr const char* kShared = "shared.weight";
constexpr const char* kEncoder = "encoder.embed_tokens.weight";
constexpr const char* kDecoder = "decoder.embed_tokens.weight";

// A checkpoint, and the prefix of those names in its file.
struct Naming {
  const char* golden;
  std::string prefix;
};
const Naming kNamings[] = {{"t5", ""}, {"marian", "model."}, {"bart", "model."}};

// A golden checkpoint with changed tensors.
class Changed {
 public:
  Changed(const std::string& golden, const std::function<void(Tensors&)>& change) {
    const std::filesystem::path from = golden_case(golden).folder();
    const SafetensorsFile file = SafetensorsFile::open(from / "model.safetensors");
    Tensors tensors;
    for (const TensorInfo& tensor : file.tensors()) tensors.emplace(tensor.name, file.read(tensor.name));
    change(tensors);
    std::filesystem::copy(from / "config.json", folder_ / "config.json");
    save_safetensors(folder_ / "model.safetensors", {tensors.begin(), tensors.end()}, {});
  }

  std::string path() const { return folder_.path().string(); }
  HookedTransformer load() const { return HookedTransformer::load(path()); }

 private:
  TempFolder folder_;
};

at::Tensor embedding_of(const HookedTransformer& model) { return model.weights().W_E(); }

TEST(EmbeddingCopies, AnEncodersOnlyEmbeddingMayHaveTheStacksName) {
  for (const char* golden : {"t5_encoder", "t5_encoder_older_style"}) {
    const Changed renamed(golden, [](Tensors& tensors) {
      tensors.insert_or_assign(kEncoder, tensors.at(kShared));
      tensors.erase(kShared);
    });
    const auto model = renamed.load(), original = Changed(golden, [](Tensors&) {}).load();
    EXPECT_TRUE(at::equal(embedding_of(model), embedding_of(original)));
    EXPECT_EQ(model.notes(), original.notes());
    EXPECT_FALSE(model.config().has_encoder());
  }
}

TEST(EmbeddingCopies, EqualCopiesAreOneEmbedding) {
  for (const auto& [golden, prefix] : kNamings) {
    SCOPED_TRACE(golden);
    const auto original = Changed(golden, [](Tensors&) {}).load();
    const Changed copied(golden, [&](Tensors& tensors) {
      for (const char* copy : {kEncoder, kDecoder}) {
        tensors.insert_or_assign(prefix + copy, tensors.at(prefix + kShared).clone());
      }
    });
    EXPECT_TRUE(at::equal(embedding_of(copied.load()), embedding_of(original)));
    const Changed renamed(golden, [&](Tensors& tensors) {
      tensors.insert_or_assign(prefix + kDecoder, tensors.at(prefix + kShared));
      tensors.erase(prefix + kShared);
    });
    EXPECT_TRUE(at::equal(embedding_of(renamed.load()), embedding_of(original)));
  }
}

// Loading would refuse this after comparing numbers, and an outline reads none.
TEST(EmbeddingCopies, AnOutlineTakesThemToBeEqual) {
  const Changed whole("t5", [](Tensors&) {});
  const Changed differs(
      "t5", [](Tensors& tensors) { tensors.insert_or_assign(kDecoder, tensors.at(kShared) + 1); });
  const auto seen = outline(differs.path());
  EXPECT_EQ(seen.family, "t5");
  EXPECT_EQ(seen.parameters, describe(whole.path()).parameters);
}

TEST(EmbeddingCopies, CopiesThatDifferAreRefused) {
  for (const auto& [golden, prefix] : kNamings) {
    for (const char* copy : {kEncoder, kDecoder}) {
      const Changed differs(golden, [&](Tensors& tensors) {
        tensors.insert_or_assign(prefix + copy, tensors.at(prefix + kShared) + 1);
      });
      const std::string text = text_thrown_by<CheckpointError>([&] { differs.load(); });
      for (const std::string& part : {prefix + copy, prefix + kShared, std::string("different embeddings")}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
      }
    }
  }
}

TEST(EmbeddingCopies, ACopyAloneIsNotADecoder) {
  const Changed with_copy("t5_encoder_older_style", [](Tensors& tensors) {
    tensors.insert_or_assign(kDecoder, tensors.at(kShared).clone());
  });
  EXPECT_FALSE(with_copy.load().config().has_encoder());
}

TEST(EmbeddingCopies, AnUnembeddingThatNothingReadsIsNoted) {
  const Changed with_head("t5_encoder", [](Tensors& tensors) {
    tensors.insert_or_assign("lm_head.weight", tensors.at(kShared).clone());
  });
  const auto notes = with_head.load().notes();
  const bool noted = std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("lm_head.weight") != std::string::npos;
  });
  EXPECT_TRUE(noted);
}

}  // namespace
}  // namespace hooked::embedding_copies_test
