// Folders whose model is in PyTorch's zip format, and rows of tensors of both formats.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include "core/json.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace hooked::checkpoint_pickles_test {
namespace {

constexpr const char* kIndex = "pytorch_model.bin.index.json";

class PickledModel : public testing::Test {
 protected:
  // A checkpoint of one float tensor [size] of ones.
  void put(const std::string& file, const std::string& tensor, std::uint8_t size = 2) {
    const auto storage = pickled_storage("FloatStorage", "0", pickled(std::int64_t{size}));
    const auto ones = at::ones({size});
    put_file(
        folder_ / file,
        checkpoint_bytes(
            pickle_of(pickled_dict({{tensor, pickled_tensor(storage, {.sizes = {size}, .strides = {1}})}})),
            {std::string(static_cast<const char*>(ones.data_ptr()), ones.nbytes())}));
  }
  CheckpointReader open() { return CheckpointReader::open(folder_.path()); }
  void refused(const std::filesystem::path& where, std::initializer_list<std::string_view> parts) {
    expect_refused<CheckpointError>([&] { open(); }, where.native(), parts);
  }
  static bool notes(const CheckpointReader& reader, std::string_view part) {
    const auto& all = reader.notes();
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& note) { return note.find(part) != std::string::npos; });
  }

  TempFolder folder_;
};

TEST_F(PickledModel, AnOnlyFileOfATrainingScriptIsRead) {
  std::filesystem::create_directory(folder_ / "checkpoints");
  put("checkpoints/SoLU_000100.pth", "early");
  EXPECT_TRUE(open().contains("early"));
  put("SoLU_1L_v9.pt", "only");
  EXPECT_TRUE(open().contains("only")) << "a file of the folder goes before its checkpoints";
  put("SoLU_1L_v9_final.pth", "last");
  EXPECT_TRUE(open().contains("last"));
  put("other_final.pth", "doubt");
  refused(folder_.path(), {"no model file", "SoLU_1L_v9.pt, SoLU_1L_v9_final.pth, other_final.pth",
                           "give the path of the one to read"});
  put("final.pth", "known");
  EXPECT_TRUE(open().contains("known"));
}

TEST_F(PickledModel, OneOfSeveralCheckpointsIsNotGuessed) {
  std::filesystem::create_directory(folder_ / "checkpoints");
  put("checkpoints/step_000100.pth", "w");
  put("checkpoints/step_000200.pth", "w");
  put_file(folder_ / "checkpoints/log.txt", "x");
  refused(folder_.path(), {"no final checkpoint and 2 in checkpoints/: step_000100.pth, step_000200.pth",
                           "give the path of the one to read"});
  EXPECT_TRUE(CheckpointReader::open_file(folder_ / "checkpoints/step_000200.pth").contains("w"));
}

TEST_F(PickledModel, EveryNameIsFoundInItsOrder) {
  // From the last to the first: each new file is then the one that is read.
  const char* names[] = {"pytorch_model.pt", "model.pth", "model.pt", "ckpt.pt", "final.pth"};
  for (const std::string name : names) {
    put(name, name);
    const auto reader = open();
    EXPECT_EQ(reader.names(), std::vector<std::string>{name});
    EXPECT_EQ(reader.file_of(name), folder_ / name);
    EXPECT_TRUE(at::equal(reader.read(name), at::ones({2})));
    EXPECT_TRUE(notes(reader, fmt::format("{}] is in PyTorch's pickle format", (folder_ / name).native())));
    EXPECT_EQ(notes(reader, "the first was read"), name != "pytorch_model.pt");
  }
  put("shard.bin", "sharded");
  put_file(folder_ / kIndex, R"({"weight_map":{"sharded":"shard.bin"}})");
  EXPECT_TRUE(open().contains("sharded"));
  put("pytorch_model.bin", "bin");
  EXPECT_TRUE(open().contains("bin"));
  save_safetensors(folder_ / "model.safetensors", {{"safe", at::ones({1})}});
  const auto reader = open();
  EXPECT_EQ(reader.names(), std::vector<std::string>{"safe"});
  EXPECT_TRUE(
      notes(reader, "has model.safetensors and pytorch_model.bin and pytorch_model.bin.index.json and"));
  EXPECT_FALSE(notes(reader, "pickle"));
}

TEST_F(PickledModel, BothFormatsBesideEachOther) {
  put("pytorch_model.bin", "w");
  save_safetensors(folder_ / "model.safetensors", {{"w", at::arange(3)}});
  const auto reader = open();
  EXPECT_EQ(reader.read("w").numel(), 3);
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_TRUE(notes(reader, "has both model.safetensors and pytorch_model.bin; the first was read"));
}

TEST_F(PickledModel, ShardsByTheRulesOfEveryIndex) {
  put("pytorch_model-00001-of-00002.bin", "a");
  put("pytorch_model-00002-of-00002.bin", "b", 3);
  const auto index = [&](std::string_view map, int total = 20) {
    put_file(folder_ / kIndex,
             fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", total, map));
  };
  const std::string good = R"("a":"pytorch_model-00001-of-00002.bin","b":"pytorch_model-00002-of-00002.bin")";
  index(good);
  const auto reader = open();
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reader.bytes(), 20U);
  EXPECT_TRUE(at::equal(reader.read("b"), at::ones({3})));
  EXPECT_EQ(reader.notes().size(), 1U);  // that it is a pickle
  EXPECT_EQ(reader.values(), "{}");

  index(good, 21);
  EXPECT_TRUE(notes(open(), "metadata.total_size is 21 bytes, but the shards hold 20"));
  index(R"("a":"pytorch_model-00001-of-00002.bin")");
  EXPECT_TRUE(notes(open(), "that were not read: pytorch_model-00002-of-00002.bin"));
  index(R"("a":"../pytorch_model-00001-of-00002.bin")");
  refused(folder_ / kIndex, {"not a plain file name"});
  index(R"("a":"x.bin","b":"y.bin")");
  refused(folder_ / kIndex, {"2 of 2 shards are missing: x.bin, y.bin"});
  index(R"("b":"pytorch_model-00001-of-00002.bin")");
  EXPECT_TRUE(
      notes(open(), "1 tensors are not where the index says, so that none of them is read: 'b' is not in"));
  EXPECT_EQ(open().names(), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(open().misplaced().contains("b"));
  index(good);
  put_file(folder_ / "pytorch_model-00002-of-00002.bin",
           checkpoint_bytes(pickle_of(pickled_global("os", "system")), {}));
  refused(folder_ / "pytorch_model-00002-of-00002.bin", {"os.system", "nothing was run"});
}

TEST_F(PickledModel, ReplacedAfterOpening) {
  put("final.pth", "w");
  const auto reader = open();
  std::filesystem::remove(folder_ / "final.pth");
  put("final.pth", "w", 9);
  expect_refused<IoError>([&] { reader.read("w"); }, (folder_ / "final.pth").native(), {"changed"});
}

TEST_F(PickledModel, OneFileByItself) {
  save_safetensors(folder_ / "x.safetensors", {{"s", at::arange(4)}}, {.metadata = {{"k", "v"}}});
  const auto safe = CheckpointReader::open_file(folder_ / "x.safetensors");
  EXPECT_EQ(safe.folder(), folder_.path());
  EXPECT_TRUE(at::equal(safe.read("s"), at::arange(4)));
  EXPECT_EQ(safe.metadata().at("k"), "v");
  EXPECT_TRUE(safe.notes().empty());
  for (const std::string name : {"y.bin", "y.pt", "y.pth", "y.ckpt"}) {
    put(name, "w");
    const auto reader = CheckpointReader::open_file(folder_ / name);
    EXPECT_TRUE(at::equal(reader.read("w"), at::ones({2})));
    EXPECT_EQ(reader.notes().size(), 1U);
  }
  const auto odd = folder_ / "y.weights";
  expect_refused<CheckpointError>([&] { CheckpointReader::open_file(odd); }, odd.native(),
                                  {".safetensors, .gguf, .bin"});
  const auto absent = folder_ / "absent.pt";
  expect_refused<IoError>([&] { CheckpointReader::open_file(absent); }, absent.native(), {"No such file"});
}

TEST_F(PickledModel, TrainingScriptsValues) {
  const auto reader = CheckpointReader::open_file(HOOKED_SOURCE_DIR "/tests/io/files/training.pt");
  EXPECT_EQ(Json::parse(reader.values())["model_args"]["n_layer"], 2);
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"weight", "bias"}));
}

TEST_F(PickledModel, RowsOfBothFormats) {
  const auto whole = at::arange(24, at::kFloat).view({4, 3, 2});
  save_safetensors(
      folder_ / "x.safetensors",
      {{"before", at::ones({5})}, {"w", whole}, {"none", at::ones({3, 0})}, {"scalar", at::ones({})}});
  const auto storage = pickled_storage("FloatStorage", "0", pickled(std::int64_t{24}));
  put_file(
      folder_ / "x.pt",
      checkpoint_bytes(pickle_of(pickled_dict(
                           {{"w", pickled_tensor(storage, {.sizes = {4, 3, 2}, .strides = {6, 2, 1}})}})),
                       {std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes())}));
  for (const auto* name : {"x.safetensors", "x.pt"}) {
    const auto reader = CheckpointReader::open_file(folder_ / name);
    for (std::int64_t first = 0; first <= 4; ++first) {
      for (std::int64_t count = 0; first + count <= 4; ++count) {
        EXPECT_TRUE(at::equal(reader.read_rows("w", first, count), whole.narrow(0, first, count)));
      }
    }
    const std::pair<std::int64_t, std::int64_t> bad[] = {{-1, 1}, {0, -1}, {4, 1},
                                                         {0, 5},  {5, 0},  {1, INT64_MAX}};
    for (const auto& [first, count] : bad) {
      expect_refused<CheckpointError>(
          [&, first = first, count = count] { reader.read_rows("w", first, count); },
          (folder_ / name).native(), {"'w' of shape [4, 3, 2]", "expected some of 4"});
    }
    expect_refused<CheckpointError>([&] { reader.read_rows("v", 0, 1); }, folder_.path().native(), {"'v'"});
  }
  const auto reader = CheckpointReader::open_file(folder_ / "x.safetensors");
  EXPECT_EQ(reader.read_rows("none", 1, 2).sizes(), (std::vector<std::int64_t>{2, 0}));
  expect_refused<CheckpointError>([&] { reader.read_rows("scalar", 0, 1); },
                                  (folder_ / "x.safetensors").native(), {"'scalar'"});
}

TEST_F(PickledModel, ElementsOfBothFormats) {
  const auto whole = at::arange(24, at::kFloat);
  save_safetensors(folder_ / "x.safetensors", {{"before", at::ones({5})}, {"w", whole.view({4, 3, 2})}});
  const auto storage = pickled_storage("FloatStorage", "0", pickled(std::int64_t{24}));
  put_file(
      folder_ / "x.pt",
      checkpoint_bytes(
          pickle_of(pickled_dict({{"w", pickled_tensor(storage, {.sizes = {4, 3, 2}, .strides = {6, 2, 1}})},
                                  {"t", pickled_tensor(storage, {.sizes = {6, 4}, .strides = {1, 6}})}})),
          {std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes())}));
  for (const auto* name : {"x.safetensors", "x.pt"}) {
    const auto reader = CheckpointReader::open_file(folder_ / name);
    ASSERT_TRUE(reader.in_order("w"));
    for (const auto& [first, count] :
         std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{0, 24}, {5, 7}, {23, 1}, {24, 0}}) {
      const auto into = at::full({count}, -1, at::kFloat);
      reader.read_elements("w", first, into);
      EXPECT_TRUE(at::equal(into, whole.narrow(0, first, count)));
    }
    const auto refused = [&](std::int64_t first, const at::Tensor& into) {
      expect_refused<CheckpointError>([&] { reader.read_elements("w", first, into); },
                                      (folder_ / name).native(), {"'w'", "expected some of 24"});
    };
    refused(-1, at::ones({1}));
    refused(24, at::ones({1}));
    refused(0, at::ones({25}));
    refused(0, at::ones({4}, at::kDouble));
    refused(0, at::ones({2, 2}).t());
  }
  const auto pickle = CheckpointReader::open_file(folder_ / "x.pt");
  EXPECT_FALSE(pickle.in_order("t"));
  expect_refused<CheckpointError>([&] { pickle.read_elements("t", 0, at::ones({4})); },
                                  (folder_ / "x.pt").native(), {"'t'"});
}

// Of lenses: {"J": {0: tensor}} has no state dict.
TEST_F(PickledModel, TensorsMayBeNamedByTheKeysOnTheWayToThem) {
  const auto tensor = pickled_tensor(pickled_storage("FloatStorage", "0", pickled(std::int64_t{2})),
                                     {.sizes = {2}, .strides = {1}});
  const auto ones = at::ones({2});
  const auto save = [&](const std::string& pickle) {
    put_file(folder_ / "x.pt",
             checkpoint_bytes(pickle_of(pickle),
                              {std::string(static_cast<const char*>(ones.data_ptr()), ones.nbytes())}));
    return folder_ / "x.pt";
  };
  const auto numbered = "}(" + pickled(std::int64_t{0}) + tensor + pickled(std::int64_t{-3}) + tensor + "u";
  const auto file = save(pickled_dict({{"J", numbered},
                                       {"deep", pickled_dict({{"er", pickled_dict({{"w", tensor}})}})},
                                       {"count", pickled(std::int64_t{7})},
                                       {"about", pickled_dict({{"by", pickled("hand")}})},
                                       {"b", tensor}}));
  const auto reader = CheckpointReader::open_file(file, MissingShards::refused, PickledNames::paths);
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"J.0", "J.-3", "deep.er.w", "b"}));
  EXPECT_TRUE(at::equal(reader.read("J.-3"), ones));
  EXPECT_EQ(reader.values(), R"({"count":7,"about":{"by":"hand"}})");

  const auto refused = [&](const std::string& pickle, std::initializer_list<std::string_view> parts) {
    const auto odd = save(pickle);
    expect_refused<CheckpointError>(
        [&] { CheckpointReader::open_file(odd, MissingShards::refused, PickledNames::paths); }, odd.native(),
        parts);
  };
  refused(pickled_dict({{"a.b", tensor}, {"a", pickled_dict({{"b", tensor}})}}), {"'a.b'", "occurs twice"});
  refused("}(" + pickled_tuple({}) + tensor + "u", {"the name is not a text"});
  refused(tensor, {"holds no state dict"});
  // A dict that holds itself: put into the memo, then among its own values.
  refused("}q\x01(" + pickled("a") + "h\x01" + "u", {"nested too deeply", "at most 64"});
  refused("}q\x01(" + pickled("a") + "h\x01" + pickled("b") + "h\x01" + "u", {"nested too deeply"});
}

}  // namespace
}  // namespace hooked::checkpoint_pickles_test
