#include "hooked/io/provenance.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/core/version.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::provenance_test {
namespace {

using Metadata = std::map<std::string, std::string>;

class ProvenanceTest : public ::testing::Test {
 protected:
  /// A file of two tensors with these metadata.
  SafetensorsFile file(const Metadata& metadata) const {
    const auto path = folder_ / "x.safetensors";
    save_safetensors(path, {{"logits", at::ones({2, 3, 5})}, {"odd", at::ones({4})}}, {.metadata = metadata});
    return SafetensorsFile::open(path);
  }

  TempFolder folder_;
};

TEST_F(ProvenanceTest, WhatIsWrittenIsRead) {
  const Provenance written{
      .hooked_version = "of the past",
      .model = "org/name@main",
      .revision = "c0ffee",
      .config_sha1 = "00ff",
      .fingerprint = "ab12",
      .dtype = "bfloat16",
      .processing = {{"fold_ln", "applied"}, {"center_unembed", "it has a \"cap\""}},
      .edits = std::vector<std::string>{"z0[head=3] zero", "hook_embed add f.safetensors#x"},
      .texts = {"When \"Mary\"\n", "\xC3\xA9"},
      .tokens = {{1, 2}, {-3, 1LL << 40}},
      .more = {{"experiment", "a line\nand another"}}};
  const TensorAxes axes{{"logits", {"batch", "pos", "vocab"}}};
  const auto saved = file(to_metadata(written, axes));
  EXPECT_EQ(saved.metadata().at("format"), "pt");
  EXPECT_EQ(saved.metadata().at("model"), "org/name@main") << "texts stand as they are";
  const Provenance read = read_provenance(saved);
  EXPECT_EQ(read.hooked_version, version()) << "of who wrote the file";
  EXPECT_EQ(read.model, written.model);
  EXPECT_EQ(read.revision, written.revision);
  EXPECT_EQ(read.config_sha1, written.config_sha1);
  EXPECT_EQ(read.fingerprint, written.fingerprint);
  EXPECT_EQ(read.dtype, written.dtype);
  EXPECT_EQ(read.processing, written.processing);
  EXPECT_EQ(read.edits, written.edits);
  EXPECT_EQ(read.texts, written.texts);
  EXPECT_EQ(read.tokens, written.tokens);
  EXPECT_EQ(read.more, written.more);
  EXPECT_EQ(read_axes(saved), axes);
}

TEST_F(ProvenanceTest, NoEditsAndUnknownEditsAreTwoThings) {
  EXPECT_FALSE(read_provenance(file(to_metadata({}, {}))).edits);
  const auto none = read_provenance(file(to_metadata({.edits = std::vector<std::string>()}, {}))).edits;
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

TEST_F(ProvenanceTest, WhatIsEmptyIsNotWritten) {
  const auto metadata = to_metadata({}, {});
  EXPECT_EQ(metadata, (Metadata{{"format", "pt"}, {"hooked_version", std::string(version())}}));
}

TEST_F(ProvenanceTest, FilesOfOthersAreNotReadAsOurs) {
  const Metadata theirs{{"format", "np"}, {"axes", "x, y"}, {"tokens", "many"}, {"model", "a steam engine"}};
  const auto saved = file(theirs);
  const Provenance read = read_provenance(saved);
  EXPECT_EQ(read.model, "");
  EXPECT_EQ(read.more, theirs);
  EXPECT_TRUE(read_axes(saved).empty());
}

TEST_F(ProvenanceTest, DamagedRecordsAreRefused) {
  const auto refused = [&](const std::string& key, const std::string& value, const std::string& what) {
    const auto saved = file({{"hooked_version", "0"}, {key, value}});
    const auto text = text_thrown_by<CheckpointError>([&] {
      read_provenance(saved);
      read_axes(saved);
    });
    for (const std::string& part : {std::string("x.safetensors"), "'" + key + "'", what})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  refused("processing", "[]", "an object of texts");
  refused("processing", R"({"fold_ln": 1})", "an object of texts");
  refused("edits", R"({"a": "b"})", "a list of texts");
  refused("edits", "\"z0 zero\"", "a list of texts");
  refused("texts", "[\"a\"", "a list of texts");
  refused("tokens", "[1, 2]", "a list of lists of ids");
  refused("tokens", "[[1.5]]", "a list of lists of ids");
  refused("axes", R"({"logits": "batch"})", "lists of names");
  refused("axes", R"({"logits": ["batch", "pos"]})", "2 axes for 'logits', which has 3 dimensions");
  refused("axes", R"({"logit": ["batch"]})", "'logit', which is not there");
}

TEST_F(ProvenanceTest, KeysThatAreTakenAreRefused) {
  for (const char* key : {"format", "hooked_version", "model", "axes", "edits", "cache.order"}) {
    const auto text = text_thrown_by<CheckpointError>([&] { to_metadata({.more = {{key, "x"}}}, {}); });
    EXPECT_NE(text.find(key), std::string::npos) << text;
  }
}

TEST_F(ProvenanceTest, TextsThatAreNotUtf8DoNotLoseTheFile) {
  const Provenance odd{.model = "mod\xFFl", .edits = std::vector<std::string>{"\xFF"}, .texts = {"a\xFF"}};
  const Provenance read = read_provenance(file(to_metadata(odd, {})));
  EXPECT_EQ(read.model, "mod\\xffl");
  EXPECT_EQ(read.texts, (std::vector<std::string>{"a\xEF\xBF\xBD"}));
}

}  // namespace
}  // namespace hooked::provenance_test
