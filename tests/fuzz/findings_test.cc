// What fuzzing found, and reading for it: each input with what should become of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "harvest/manifest.h"
#include "hooked/analysis/graph_file.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/lens_maps.h"
#include "hooked/analysis/probe.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/core/error.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/text/tokenizer.h"
#include "tests/fuzz/scratch.h"
#include "tests/support/test.h"
#include "tests/support/thrown_by.h"
#include "text/jinja/template.h"

namespace hooked::findings_test {
namespace {

std::string refusal_of_pairs(const std::string& name, const std::string& text) {
  const auto file = put(name, text);
  return text_thrown_by<CheckpointError>([&] { read_prompt_pairs(file); });
}

TEST(Findings, AnIdOfAPromptPairThatNoIntegerHoldsIsRefused) {
  // It was read as -1.
  EXPECT_THAT(
      refusal_of_pairs("p.jsonl", R"({"clean": [18446744073709551615], "corrupted": "a"})"),
      testing::HasSubstr("line 1: clean is 18446744073709551615; expected at most 9223372036854775807"));
  EXPECT_THAT(
      refusal_of_pairs("p.jsonl", R"({"clean": "b", "corrupted": "a", "answers": 9223372036854775808})"),
      testing::HasSubstr("answers is 9223372036854775808"));
  const auto pairs =
      read_prompt_pairs(put("p.jsonl", R"({"clean": [9223372036854775807], "corrupted": "a"})"));
  EXPECT_EQ(pairs.at(0).clean, Prompt(std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max()}));
}

TEST(Findings, APlaceInOnePromptOfAPairIsRefused) {
  // The place in the other prompt was column 0.
  EXPECT_THAT(refusal_of_pairs("p.csv", "clean,corrupted,clean_place:x,corrupted_place:x\na,b,,\nc,d,1,\n"),
              testing::HasSubstr(
                  "line 3: place 'x' is given in one of the prompts; expected it in both, or in neither"));
  const auto pairs =
      read_prompt_pairs(put("p.csv", "clean,corrupted,clean_place:x,corrupted_place:x\na,b,,\nc,d,1,e\n"));
  EXPECT_TRUE(pairs.at(0).places.empty());
  EXPECT_EQ(pairs.at(1).places.at("x"), (PlaceOfPair{1, std::string("e")}));
}

TEST(Findings, LabelsThatMultiplyToMoreThanAnIntegerHoldsAreRefused) {
  // 2^64 of them became 0, the number of values.
  std::string axes, labels;
  for (int i = 0; i < 256; ++i) labels += std::string(i == 0 ? "" : ",") + R"(\"\")";
  for (int i = 0; i < 8; ++i)
    axes += std::string(i == 0 ? "" : ",") + R"({\"name\":\")" + std::to_string(i) + R"(\",\"labels\":[)" +
            labels + "]}";
  const auto file =
      put("g.safetensors",
          safetensors_of(R"({"__metadata__":{"grid":"{\"title\":\"\",\"unit\":\"\",\"axes\":[)" + axes +
                             R"(]}"},"values":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}})",
                         ""));
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { Grid::load(file); }),
              testing::HasSubstr("the numbers do not fit the labels"));
}

TEST(Findings, ANodeThatAGraphHasTwiceIsRefused) {
  // Its two copies could not be told apart in the file that was written of it.
  const std::string node = R"("feature":0,"layer":"E","ctx_idx":0,"feature_type":"embedding"})";
  const auto file =
      put("g.json", R"({"metadata":{"prompt":"a","prompt_tokens":["a"]},"nodes":[{"node_id":"E_7_0",)" +
                        node + R"(,{"node_id":"E_7_1",)" + node + R"(],"links":[]})");
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { load_graph(file); }),
              testing::HasSubstr("'E_7_1' is a node that is there twice; expected each once"));
}

std::string manifest_with(const std::string& plan, const std::string& unit,
                          const std::string& dtype = "float32") {
  return R"({"format":"hooked activations","version":1,"activations":[{"name":"a","axes":["row"],"shape":[],"dtype":")" +
         dtype + R"("}],"plan":[)" + plan + R"(],"units":[)" + unit + "]}";
}

std::string unit_with(const std::string& rows, const std::string& shard_rows = "3",
                      const std::string& file = "unit-000000-000.safetensors") {
  return R"({"unit":0,"contexts":1,"tokens":3,"rows":)" + rows + R"(,"not_finite":0,"shards":[{"file":")" +
         file + R"(","rows":)" + shard_rows + R"(,"bytes":10,"crc32":1}]})";
}

TEST(Findings, NumbersOfAManifestAreIntegersThatCanBe) {
  const auto refusal = [](const std::string& text) {
    put(kManifest, text);
    return text_thrown_by<CheckpointError>([] { ActivationStore::open(scratch().path()); });
  };
  const std::string plan = "[0,0,9,0,1]";
  put(kManifest, manifest_with(plan, unit_with("3")));
  EXPECT_EQ(ActivationStore::open(scratch().path()).rows(), 3);
  // The JSON library's conversion read these as 2, 3 and 1, and the sum of large ones overflowed.
  for (const char* wrong : {"2.9", "-3", "true", "1e300", "9223372036854775807", "null", "\"3\""})
    EXPECT_THAT(refusal(manifest_with(plan, unit_with(wrong, wrong))), testing::HasSubstr("rows is "))
        << wrong;
  EXPECT_THAT(refusal(manifest_with(plan, unit_with("3", "2"))),
              testing::HasSubstr("a unit of 3 rows has shards with 2"));
  EXPECT_THAT(refusal(manifest_with(plan, unit_with("3", "3", ".."))),
              testing::HasSubstr("a shard is not 'unit-000000-000.safetensors'"));
  EXPECT_THAT(refusal(manifest_with("[0,9,3,0,1]", unit_with("3"))),
              testing::HasSubstr("a unit of its plan ends before it begins"));
  EXPECT_THAT(refusal(manifest_with("[0,0,9,0,4294967296]", unit_with("3"))),
              testing::HasSubstr("4294967295"));
  // It was taken for integers.
  EXPECT_THAT(refusal(manifest_with(plan, unit_with("3"), "float33")),
              testing::HasSubstr("'float33' is not a dtype of activations"));
}

TEST(Findings, BytesOfAnEndOfWordsStandAtTheEndOfTheWord) {
  // They had offsets outside the text. The ids are those of `tokenizers` 0.23.3.
  std::string vocabulary = R"("<unk>":0,"a</w>":1)";
  for (int byte = 0; byte < 256; ++byte) vocabulary += fmt::format(",\"<0x{:02X}>\":{}", byte, byte + 2);
  const auto tokenizer = Tokenizer::parse(
      R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","unk_token":"<unk>","end_of_word_suffix":"</w>",)"
      R"("byte_fallback":true,"vocab":{)" +
      vocabulary + R"(},"merges":[]}})");
  EXPECT_EQ(tokenizer.encode("a").ids, std::vector<std::int64_t>{1});
  const Encoding encoding = tokenizer.encode("]");
  EXPECT_EQ(encoding.ids, (std::vector<std::int64_t>{95, 62, 49, 121, 64}));
  for (std::size_t i = 0; i < encoding.offsets.size(); ++i)
    EXPECT_TRUE(encoding.offsets[i].begin == (i == 0 ? 0U : 1U) && encoding.offsets[i].end == 1U) << i;
}

TEST(Findings, WhatPythonCannotSliceATemplateCannot) {
  // They were undefined. Jinja 3.1 raises TypeError.
  for (const char* value : {"true", "5", "2.5", "none", "{'a': 1}", "{'a': 1}.items()", "(1 is number)"}) {
    const std::string text = fmt::format("{{{{ ({})[:] }}}}", value);
    EXPECT_THAT(text_thrown_by<TokenizerError>([&] { text::jinja::Template(text, "t", {}).render({}, 0); }),
                testing::HasSubstr("cannot be sliced; expected a text or a list"))
        << value;
  }
  EXPECT_EQ(text::jinja::Template("{{ 'abc'[1:] }}{{ (1, 2)[:1] }}{{ [3][5:] }}", "t", {}).render({}, 0),
            "bc(1,)[]");
}

TEST(Findings, ErrorsAreOneLineOfUtf8) {
  const HookError error("a\nb\xFF", "c\x1b[31m \u00e9\u0085");
  EXPECT_STREQ(error.what(), "[a\\x0ab\\xff] c\\x1b[31m \u00e9\\xc2\\x85");
  EXPECT_EQ(error.where(), "a\\x0ab\\xff");
  EXPECT_EQ(error.message(), "c\\x1b[31m \u00e9\\xc2\\x85");
}

std::string probe_with(const std::string& number, const std::string& more = "") {
  return safetensors_of(
      R"({"__metadata__":{"hooked_version":"0.1.0","probe":"{\"place\":\"blocks.0.hook_resid_post\",\"position\":\"\",\"classes\":[],)"
      R"(\"method\":\"ridge\",\"penalty\":1,\"rows\":)" +
          number + R"(,\"held_out_rows\":0,\"held_out_accuracy\":0,\"seed\":18446744073709551615,)" + more +
          R"(\"iterations\":1,\"converged\":true}"},"weight":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]},)"
          R"("intercept":{"dtype":"F64","shape":[1],"data_offsets":[16,24]}})",
      std::string(24, '\0'));
}

TEST(Findings, NumbersOfAProbeAreIntegersThatCanBe) {
  const auto refusal = [](const std::string& bytes) {
    const auto file = put("p.safetensors", bytes);
    return text_thrown_by<CheckpointError>([&] { Probe::load(file); });
  };
  const Probe probe = Probe::load(put("p.safetensors", probe_with("3")));
  EXPECT_EQ(probe.facts.rows, 3);
  EXPECT_EQ(probe.facts.seed, std::numeric_limits<std::uint64_t>::max());
  // The JSON library's conversion read these as 2, -3, -1 and 1.
  for (const char* wrong : {"2.9", "-3", "18446744073709551615", "true"})
    EXPECT_THAT(refusal(probe_with(wrong)), testing::HasSubstr("p.safetensors: probe: rows")) << wrong;
  EXPECT_THAT(refusal(probe_with("3", R"(\"layers\":2,)")), testing::HasSubstr("unknown field"));
}

TEST(Findings, MapsOfALensAreRealNumbersOfLayers) {
  const auto refusal = [](const std::string& header, std::size_t bytes) {
    const auto file = put("l.safetensors", safetensors_of(header, std::string(bytes, '\0')));
    return text_thrown_by<CheckpointError>([&] { LensMaps::load(file); });
  };
  const auto tensor = [](const std::string& name, const std::string& dtype, const std::string& bytes) {
    return R"({")" + name + R"(":{"dtype":")" + dtype + R"(","shape":[1,1],"data_offsets":[0,)" + bytes +
           "]}}";
  };
  // One more than this number is below 0.
  EXPECT_THAT(refusal(tensor("9223372036854775807.weight", "F32", "4"), 4),
              testing::HasSubstr("'9223372036854775807.weight' is not a map"));
  EXPECT_THAT(refusal(tensor("0.weight", "I64", "8"), 8),
              testing::HasSubstr("a map holds int64, which are not floating-point numbers"));
  // 1.5 was layer 1.
  EXPECT_THAT(refusal(R"({"J":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]},"source_layers":{"dtype":)"
                      R"("F32","shape":[1],"data_offsets":[4,8]}})",
                      8),
              testing::HasSubstr("'source_layers' is float32 [1], which is not a list of integers"));
}

}  // namespace
}  // namespace hooked::findings_test
