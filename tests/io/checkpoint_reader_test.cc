#include "io/checkpoint/checkpoint_reader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/io/file_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::checkpoint_reader_test {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

class Checkpoint : public testing::Test {
 protected:
  void put_index(std::string_view json) { put_file(folder_ / kIndex, json); }

  // Two shards: `a` (a0, a1) and `b` (b0).
  void put_shards() {
    save_safetensors(folder_ / "a.safetensors", {{"a0", at::arange(4)}, {"a1", at::ones({2})}},
                     {.metadata = {{"format", "pt"}}});
    save_safetensors(folder_ / "b.safetensors", {{"b0", at::full({3}, 7, at::kInt)}});
  }
  static constexpr const char* kGoodIndex =
      R"({"metadata":{"total_size":52},"weight_map":{"a0":"a.safetensors","a1":"a.safetensors","b0":"b.safetensors"}})";

  template <class Expected = CheckpointError>
  void refused(const std::filesystem::path& where, std::initializer_list<std::string_view> parts) {
    expect_refused<Expected>([&] { CheckpointReader::open(folder_.path()); }, where.native(), parts);
  }
  void index_refused(std::string_view json, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(std::string(json.substr(0, 200)));
    put_index(json);
    refused(folder_ / kIndex, parts);
  }

  TempFolder folder_;
};

TEST_F(Checkpoint, OneFile) {
  save_safetensors(folder_ / "model.safetensors", {{"w", at::arange(6).view({2, 3})}, {"v", at::ones({1})}},
                   {.metadata = {{"k", "x"}}});
  const auto reader = CheckpointReader::open(folder_.path());
  EXPECT_EQ(reader.folder(), folder_.path());
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"w", "v"}));
  EXPECT_TRUE(reader.contains("w"));
  EXPECT_FALSE(reader.contains("x"));
  EXPECT_EQ(reader.info("w").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(reader.info("w").dtype, at::kLong);
  EXPECT_EQ(reader.file_of("w"), folder_ / "model.safetensors");
  EXPECT_TRUE(at::equal(reader.read("w"), at::arange(6).view({2, 3})));
  EXPECT_EQ(reader.bytes(), 52U);
  EXPECT_EQ(reader.metadata().at("k"), "x");
  EXPECT_TRUE(reader.notes().empty());
}

TEST_F(Checkpoint, Shards) {
  put_shards();
  put_index(kGoodIndex);
  auto reader = CheckpointReader::open(folder_.path());
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a0", "a1", "b0"}));
  EXPECT_EQ(reader.file_of("b0"), folder_ / "b.safetensors");
  EXPECT_TRUE(at::equal(reader.read("a0"), at::arange(4)));
  EXPECT_TRUE(at::equal(reader.read("b0"), at::full({3}, 7, at::kInt)));
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_TRUE(reader.notes().empty());
  const auto moved = std::move(reader);
  EXPECT_TRUE(at::equal(moved.read("a1"), at::ones({2})));
}

TEST_F(Checkpoint, AbsentTensorNamesTheNearest) {
  put_shards();
  put_index(kGoodIndex);
  const auto reader = CheckpointReader::open(folder_.path());
  for (const auto& act : std::vector<std::function<void()>>{
           [&] { reader.read("b00"); }, [&] { reader.info("b00"); }, [&] { reader.file_of("b00"); }}) {
    expect_refused<CheckpointError>(act, folder_.path().native(), {"'b00'", "3 tensors", "nearest is 'b0'"});
  }
}

TEST_F(Checkpoint, I1ShardNamesStayInTheFolder) {
  put_shards();
  std::filesystem::create_directory(folder_ / "sub");
  std::filesystem::copy(folder_ / "a.safetensors", folder_ / "sub/a.safetensors");
  const std::pair<std::string, std::string_view> bad[] = {
      {"../a.safetensors", "folder separator"},
      {"sub/a.safetensors", "folder separator"},
      {(folder_ / "a.safetensors").native(), "folder separator"},
      {R"(..\\a.safetensors)", "folder separator"},
      {"..", "names a folder"},
      {".", "names a folder"},
      {"", "is empty"},
      {R"(a.safetensors\u0000)", "control character"},
      {R"(a\n)", "control character"},
      {"C:a.safetensors", "colon"},
      {std::string(256, 'n'), "longer than 255"},
  };
  for (const auto& [name, reason] : bad) {
    index_refused(fmt::format(R"({{"weight_map":{{"a0":"{}"}}}})", name),
                  {"weight_map 'a0'", "not a plain file name", reason});
  }
}

TEST_F(Checkpoint, I2SymbolicLinksAsTheHubCacheHasThem) {
  std::filesystem::create_directories(folder_ / "blobs");
  std::filesystem::create_directories(folder_ / "snapshots/abc");
  save_safetensors(folder_ / "blobs/1", {{"w", at::ones({2})}});
  put_file(folder_ / "blobs/2", R"({"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
  const auto snapshot = folder_ / "snapshots/abc";
  std::filesystem::create_symlink("../../blobs/1", snapshot / "model-00001-of-00001.safetensors");
  std::filesystem::create_symlink("../../blobs/2", snapshot / kIndex);
  EXPECT_TRUE(at::equal(CheckpointReader::open(snapshot).read("w"), at::ones({2})));
  std::filesystem::create_symlink("../../blobs/1", snapshot / "model.safetensors");
  EXPECT_TRUE(at::equal(CheckpointReader::open(snapshot).read("w"), at::ones({2})));
}

TEST_F(Checkpoint, I3WhatIsNoRegularFile) {
  const auto path = folder_ / "model.safetensors";
  std::filesystem::create_symlink("gone", path);
  refused<IoError>(path, {"'gone'", "does not exist"});
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  refused<IoError>(path, {"a folder"});
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused<IoError>(path, {"a named pipe"});
  std::filesystem::remove(path);
  put_index(R"({"weight_map":{"w":"shard"}})");
  std::filesystem::create_symlink("/dev/zero", folder_ / "shard");
  refused<IoError>(folder_ / "shard", {"a device"});
}

TEST_F(Checkpoint, I4AllMissingShardsAreListed) {
  put_shards();
  index_refused(
      R"({"weight_map":{"a0":"a.safetensors","x":"x.safetensors","y":"y.safetensors","z":"x.safetensors"}})",
      {"2 of 3 shards are missing: x.safetensors, y.safetensors"});
  std::string map;
  for (int i = 0; i < 25; ++i) map += fmt::format(R"({}"t{}":"s{:02}")", i == 0 ? "" : ",", i, i);
  index_refused(fmt::format(R"({{"weight_map":{{{}}}}})", map),
                {"25 of 25 shards", "s00, s01", "s19 and 5 more"});
}

TEST_F(Checkpoint, AShardThatIsALinkToNothingIsMissing) {
  put_shards();
  std::filesystem::remove(folder_ / "b.safetensors");
  std::filesystem::create_symlink("../../blobs/gone", folder_ / "b.safetensors");
  index_refused(kGoodIndex, {"1 of 2 shards are missing: b.safetensors", "fetch them again"});
}

TEST_F(Checkpoint, InAHubCacheTheErrorNamesTheCommandThatDownloads) {
  const auto snapshot = folder_ / "models--org--name/snapshots/c0ffee";
  std::filesystem::create_directories(snapshot);
  const auto says = [&](const std::filesystem::path& where, std::string_view what) {
    try {
      CheckpointReader::open(snapshot);
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), where.native());
      EXPECT_NE(std::string_view(error.what()).find(what), std::string_view::npos) << error.what();
      EXPECT_NE(std::string_view(error.what()).find("`hf download org/name --revision c0ffee`"),
                std::string_view::npos)
          << error.what();
      return;
    }
    ADD_FAILURE() << what;
  };
  says(snapshot, "no model file");
  std::filesystem::create_symlink("../../blobs/1", snapshot / "model.safetensors");
  says(snapshot / "model.safetensors", "'../../blobs/1', which does not exist");
  std::filesystem::remove(snapshot / "model.safetensors");
  put_file(snapshot / kIndex, kGoodIndex);
  says(snapshot / kIndex, "2 of 2 shards are missing");
  try {
    CheckpointReader::open(folder_ / "models--org--name");
    ADD_FAILURE() << "the folder of all revisions";
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string_view(error.what()).find("give 'org/name'"), std::string_view::npos) << error.what();
  }
}

TEST_F(Checkpoint, MissingShardsCanBeLeftOut) {
  put_shards();
  put_index(kGoodIndex);
  std::filesystem::remove(folder_ / "a.safetensors");
  const auto reader = CheckpointReader::open(folder_.path(), MissingShards::left_out);
  EXPECT_EQ(reader.missing_shards(), (std::vector<std::string>{"a.safetensors"}));
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"b0"}));
  EXPECT_EQ(reader.bytes(), 12U);
  EXPECT_EQ(reader.stated_bytes(), 52U);
  EXPECT_EQ(reader.files(), (std::vector<std::filesystem::path>{folder_ / "b.safetensors"}));
  EXPECT_TRUE(reader.notes().empty());
  std::filesystem::remove(folder_ / "b.safetensors");
  EXPECT_TRUE(CheckpointReader::open(folder_.path(), MissingShards::left_out).names().empty());
  put_shards();
  EXPECT_TRUE(CheckpointReader::open(folder_.path(), MissingShards::left_out).missing_shards().empty());
  // The files that exist may differ from those of the index.
  std::filesystem::remove(folder_ / "a.safetensors");
  save_safetensors(folder_ / "b.safetensors", {{"b1", at::ones({3})}});
  const auto other = CheckpointReader::open(folder_.path(), MissingShards::left_out);
  EXPECT_EQ(other.names(), (std::vector<std::string>{"b1"}));
  EXPECT_TRUE(other.misplaced().contains("b0"));
}

TEST_F(Checkpoint, I4MissingShardsAreNamedWithTheWeightsThatAreThere) {
  put_index(kGoodIndex);
  save_safetensors(folder_ / "weights.safetensors", {{"a0", at::ones({1})}});
  refused(folder_ / kIndex, {"a.safetensors, b.safetensors", "where other weights are: weights.safetensors"});
}

TEST_F(Checkpoint, I5ATensorThatItsShardLacksIsNotThere) {
  put_shards();
  put_index(
      R"({"weight_map":{"a0":"a.safetensors","a1":"a.safetensors","b0":"b.safetensors","b1":"b.safetensors"}})");
  const auto reader = CheckpointReader::open(folder_.path());
  EXPECT_FALSE(reader.contains("b1"));
  EXPECT_EQ(reader.misplaced().at("b1"), "'b1' is not in b.safetensors, where the index says");
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_NE(reader.notes()[0].find("1 tensors are not where the index says"), std::string::npos)
      << reader.notes()[0];
}

TEST_F(Checkpoint, I5ATensorThatTheIndexDoesNotNameIsReadFromTheOnlyShardThatHasIt) {
  put_shards();
  put_index(R"({"weight_map":{"a0":"a.safetensors","b0":"b.safetensors"}})");
  const auto reader = CheckpointReader::open(folder_.path());
  EXPECT_EQ(reader.file_of("a1"), folder_ / "a.safetensors");
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_NE(reader.notes()[0].find("not in the index: 'a1' in a.safetensors"), std::string::npos)
      << reader.notes()[0];
  save_safetensors(folder_ / "b.safetensors", {{"b0", at::ones({1})}, {"a1", at::ones({1})}});
  const auto twice = CheckpointReader::open(folder_.path());
  EXPECT_FALSE(twice.contains("a1"));
  EXPECT_EQ(twice.misplaced().at("a1"), "'a1' is in 2 shards and not in the index");
}

TEST_F(Checkpoint, I5ATensorInAnotherShardThanTheIndexNamesIsNotRead) {
  put_shards();
  put_index(R"({"weight_map":{"a0":"a.safetensors","a1":"b.safetensors","b0":"b.safetensors"}})");
  const auto reader = CheckpointReader::open(folder_.path());
  EXPECT_FALSE(reader.contains("a1"));
  EXPECT_EQ(reader.misplaced().at("a1"),
            "'a1' is not in b.safetensors, where the index says, but in a.safetensors");
}

TEST_F(Checkpoint, I5OfTwoCopiesTheOneIsReadThatTheIndexNames) {
  put_shards();
  for (const char* shard : {"a.safetensors", "b.safetensors"}) {
    put_index(
        fmt::format(R"({{"weight_map":{{"a0":"{}","a1":"a.safetensors","b0":"b.safetensors"}}}})", shard));
    save_safetensors(folder_ / "b.safetensors", {{"b0", at::ones({1})}, {"a0", at::full({1}, 7)}});
    const auto reader = CheckpointReader::open(folder_.path());
    EXPECT_EQ(reader.file_of("a0"), folder_ / shard);
    EXPECT_EQ(reader.names().size(), 3U);
    ASSERT_EQ(reader.notes().size(), 1U);
    EXPECT_NE(reader.notes()[0].find("1 copies of tensors in other shards"), std::string::npos)
        << reader.notes()[0];
  }
}

TEST_F(Checkpoint, I5UnusedShardIsNoted) {
  put_shards();
  put_index(kGoodIndex);
  save_safetensors(folder_ / "model-00003-of-00003.safetensors", {{"c", at::ones({1})}});
  const auto reader = CheckpointReader::open(folder_.path());
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_NE(reader.notes()[0].find("model-00003-of-00003.safetensors"), std::string::npos);
  EXPECT_FALSE(reader.contains("c"));
}

TEST_F(Checkpoint, I6WrongTotalIsNoted) {
  put_shards();
  put_index(
      R"({"metadata":{"total_size":53},"weight_map":{"a0":"a.safetensors","a1":"a.safetensors","b0":"b.safetensors"}})");
  const auto reader = CheckpointReader::open(folder_.path());
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_NE(reader.notes()[0].find("53 bytes, but the shards hold 52"), std::string::npos)
      << reader.notes()[0];
}

TEST_F(Checkpoint, I7TheSingleFileWins) {
  put_shards();
  put_index(kGoodIndex);
  save_safetensors(folder_ / "model.safetensors", {{"single", at::ones({1})}});
  const auto reader = CheckpointReader::open(folder_.path());
  EXPECT_EQ(reader.names(), std::vector<std::string>{"single"});
  ASSERT_EQ(reader.notes().size(), 1U);
  EXPECT_NE(reader.notes()[0].find("has both"), std::string::npos);
}

TEST_F(Checkpoint, I8MalformedIndexes) {
  index_refused("", {"byte"});
  index_refused("[]", {"expected an object", "array"});
  index_refused("{}", {"'weight_map' is missing"});
  index_refused(R"({"weight_map":[]})", {"'weight_map'", "expected an object", "array"});
  index_refused(R"({"weight_map":"a"})", {"'weight_map'", "string"});
  index_refused(R"({"weight_map":{}})", {"'weight_map' is empty"});
  index_refused(R"({"weight_map":{"w":1}})", {"weight_map 'w'", "expected a file name", "number 1"});
  index_refused(R"({"weight_map":{"w":null}})", {"weight_map 'w'", "null"});
  index_refused(R"({"weight_map":{"w":["a"]}})", {"weight_map 'w'", "array"});
  index_refused(R"({"weight_map":{"w":"a","w":"b"}})", {"w"});
  index_refused(R"({"weight_map":{"w":"a"}} x)", {"byte"});
  index_refused(R"({"weight_map":{"w":"a")", {"byte"});
  index_refused(std::string(100'000, '['), {"64"});
}

TEST_F(Checkpoint, IndexSizeLimitIsExact) {
  save_safetensors(folder_ / "s", {{"w", at::ones({1})}});
  const std::string json = R"({"weight_map":{"w":"s"}})";
  put_index(json + std::string(CheckpointLimits::kIndexBytes - json.size(), ' '));
  EXPECT_TRUE(CheckpointReader::open(folder_.path()).contains("w"));
  index_refused(json + std::string(CheckpointLimits::kIndexBytes + 1 - json.size(), ' '),
                {"at most 67108864 bytes", "got 67108865"});
}

TEST_F(Checkpoint, ShardsLimitIsExact) {
  const auto index = [](int shards) {
    std::string map;
    for (int i = 0; i < shards; ++i) map += fmt::format(R"({}"t{}":"s{}")", i == 0 ? "" : ",", i, i);
    return fmt::format(R"({{"weight_map":{{{}}}}})", map);
  };
  index_refused(index(10'000), {"10000 of 10000 shards are missing"});  // accepted as an index
  index_refused(index(10'001), {"at most 10000", "got more"});
}

TEST_F(Checkpoint, I9NothingToRead) {
  refused(folder_.path(), {"expected model.safetensors, model.safetensors.index.json", "or pytorch_model.pt",
                           "no file of tensors"});
  save_safetensors(folder_ / "adapter_model.safetensors", {});
  put_file(folder_ / "training_args.bin", "PK");
  refused(folder_.path(), {"got only adapter_model.safetensors, training_args.bin"});
}

// Which GGUF file of a folder is meant is for locate_model to say.
TEST_F(Checkpoint, I9OnlyGgufFiles) {
  put_file(folder_ / "m-Q4_K.gguf", "GGUF");
  refused(folder_.path(),
          {"the folder has no model file", "got only m-Q4_K.gguf; give the path of the one to read"});
  put_file(folder_ / "m-Q8_0.gguf", "GGUF");
  refused(folder_.path(), {"got only m-Q4_K.gguf, m-Q8_0.gguf; give the path"});
  save_safetensors(folder_ / "model.safetensors", {{"w", at::ones({1})}});  // I7
  EXPECT_EQ(CheckpointReader::open(folder_.path()).names(), std::vector<std::string>{"w"});
}

TEST_F(Checkpoint, S24PointersInThePlaceOfAnIndex) {
  index_refused("version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 23456\n",
                {"this is a Git LFS pointer of 23,456 bytes; fetch the real file"});
}

TEST_F(Checkpoint, NoFolder) {
  expect_refused<IoError>([&] { CheckpointReader::open(folder_ / "absent"); }, (folder_ / "absent").native(),
                          {"expected a folder", "No such file"});
  put_file(folder_ / "file", "x");
  expect_refused<IoError>([&] { CheckpointReader::open(folder_ / "file"); }, (folder_ / "file").native(),
                          {"expected a folder", "a file"});
}

TEST_F(Checkpoint, TruncatedShardIsFoundBeforeAnyTensorIsRead) {
  put_shards();
  put_index(kGoodIndex);
  const auto path = folder_ / "b.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  refused(path, {"1 missing", "'b0'"});
}

TEST_F(Checkpoint, ShardReplacedOrRemovedAfterOpening) {
  put_shards();
  put_index(kGoodIndex);
  const auto reader = CheckpointReader::open(folder_.path());
  save_safetensors(folder_ / "a.safetensors", {{"a0", at::arange(5)}});
  std::filesystem::remove(folder_ / "b.safetensors");
  expect_refused<IoError>([&] { reader.read("a0"); }, (folder_ / "a.safetensors").native(), {"changed"});
  expect_refused<IoError>([&] { reader.read("b0"); }, (folder_ / "b.safetensors").native(), {"No such file"});
}

TEST_F(Checkpoint, ManyShardsWithFewDescriptors) {
  constexpr int kShards = 200;
  std::string map;
  for (int i = 0; i < kShards; ++i) {
    const auto name = fmt::format("t{}", i);
    put_file(
        folder_ / fmt::format("s{}", i),
        safetensors_bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})", name),
                          std::string(1, static_cast<char>(i))));
    map += fmt::format(R"({}"{}":"s{}")", i == 0 ? "" : ",", name, i);
  }
  put_index(fmt::format(R"({{"weight_map":{{{}}}}})", map));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  int right = 0;
  try {
    const auto reader = CheckpointReader::open(folder_.path());
    for (int i = 0; i < 2 * kShards; ++i) {
      right += reader.read(fmt::format("t{}", i % kShards)).item<std::uint8_t>() == i % kShards ? 1 : 0;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(right, 2 * kShards);
}

}  // namespace
}  // namespace hooked::checkpoint_reader_test
