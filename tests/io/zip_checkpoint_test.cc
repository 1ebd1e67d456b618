#include "tests/support/zip_checkpoint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "core/json.h"
#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace hooked::zip_checkpoint_test {
namespace {

using Limits = ZipCheckpointLimits;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string counted_floats(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return bytes_of(values);
}

std::string floats(std::string_view key, std::int64_t numel) {
  return pickled_storage("FloatStorage", key, pickled(numel));
}

class ZipFile : public testing::Test {
 protected:
  std::filesystem::path put(const std::string& bytes) {
    put_file(path_, bytes);
    return path_;
  }
  ZipCheckpoint open(const std::string& value, const std::vector<std::string>& storages) {
    return ZipCheckpoint::open(put(checkpoint_bytes(pickle_of(value), storages)));
  }
  void refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
    put(bytes);
    expect_refused<CheckpointError>([&] { ZipCheckpoint::open(path_); }, path_.native(), parts);
  }
  void refused(const std::string& value, const std::vector<std::string>& storages,
               std::initializer_list<std::string_view> parts) {
    refused(checkpoint_bytes(pickle_of(value), storages), parts);
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "f.pt";
  const std::string one_ =
      pickled_dict({{"w", pickled_tensor(floats("0", 6), {.sizes = {2, 3}, .strides = {3, 1}})}});
};

TEST_F(ZipFile, KnowsItsTensorsAndReadsThem) {
  const auto file = open(one_, {counted_floats(6)});
  EXPECT_EQ(file.path(), path_);
  ASSERT_EQ(file.tensors().size(), 1U);
  const auto* info = file.find("w");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->dtype_name, "F32");
  EXPECT_EQ(info->dtype, at::kFloat);
  EXPECT_EQ(info->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file_bytes(path_).substr(info->begin, info->bytes()), counted_floats(6));
  EXPECT_TRUE(at::equal(file.read("w"), at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(file.find("x"), nullptr);
  expect_refused<CheckpointError>([&] { file.read("v"); }, path_.native(), {"'v'", "nearest name is 'w'"});
  EXPECT_TRUE(file.notes().empty());
}

// The elements reached through strides, by hand.
TEST_F(ZipFile, ViewsOfSharedStoragesAreReadByTheirStrides) {
  const auto view = [](PickledView view) { return pickled_tensor(floats("0", 6), view); };
  const auto file = open(
      pickled_dict(
          {{"all", view({.sizes = {2, 3}, .strides = {3, 1}})},
           {"transposed", view({.sizes = {3, 2}, .strides = {1, 3}})},
           {"column", view({.offset = 1, .sizes = {2}, .strides = {3}})},
           {"expanded", view({.offset = 4, .sizes = {3, 2}, .strides = {0, 1}})},
           {"overlapping", view({.sizes = {3, 2}, .strides = {1, 1}})},
           {"scalar", view({.offset = 5, .sizes = {}, .strides = {}})},
           {"empty", view({.offset = 6, .sizes = {2, 0}, .strides = {1, 1}})},
           {"ones", view({.offset = 2, .sizes = {1, 2, 1}, .strides = {std::int64_t{1} << 62, 2, 99}})}}),
      {counted_floats(6)});
  const auto expect = [&](std::string_view name, const at::Tensor& wanted) {
    const auto got = file.read(name);
    EXPECT_EQ(got.sizes(), wanted.sizes()) << name;
    EXPECT_TRUE(at::equal(got, wanted)) << name;
  };
  expect("transposed", at::tensor({0.F, 3.F, 1.F, 4.F, 2.F, 5.F}).view({3, 2}));
  expect("column", at::tensor({1.F, 4.F}));
  expect("expanded", at::tensor({4.F, 5.F, 4.F, 5.F, 4.F, 5.F}).view({3, 2}));
  expect("overlapping", at::tensor({0.F, 1.F, 1.F, 2.F, 2.F, 3.F}).view({3, 2}));
  expect("scalar", at::full({}, 5.F));
  expect("empty", at::empty({2, 0}));
  expect("ones", at::tensor({2.F, 4.F}).view({1, 2, 1}));
  // Tensors are apart from each other in memory, and hold no more than they reach.
  EXPECT_EQ(file.read("column").storage().nbytes(), 4U * sizeof(float));
  EXPECT_EQ(file.read("expanded").storage().nbytes(), 2U * sizeof(float));
  file.read("all").zero_();
  expect("all", at::arange(6, at::kFloat).view({2, 3}));
}

TEST_F(ZipFile, TheDeviceOfAStorageIsIgnored) {
  for (const auto* location : {"cuda:0", "mps", "meta", "no such device"}) {
    const auto storage = pickled_storage("FloatStorage", "0", pickled(std::int64_t{2}), location);
    const auto file = open(pickled_dict({{"w", pickled_tensor(storage, {.sizes = {2}, .strides = {1}})}}),
                           {counted_floats(2)});
    EXPECT_TRUE(file.read("w").device().is_cpu());
    EXPECT_TRUE(at::equal(file.read("w"), at::arange(2, at::kFloat)));
  }
}

TEST_F(ZipFile, BigEndianNumbersAreTurned) {
  const auto longs = pickled_storage("LongStorage", "0", pickled(std::int64_t{2}));
  const auto bytes = pickled_storage("CharStorage", "1", pickled(std::int64_t{2}));
  const auto value = pickled_dict({{"long", pickled_tensor(longs, {.sizes = {2}, .strides = {1}})},
                                   {"char", pickled_tensor(bytes, {.sizes = {2}, .strides = {1}})}});
  auto members = checkpoint_members(
      pickle_of(value),
      {std::string("\0\0\0\0\0\0\1\2\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE", 16), std::string("\1\2", 2)});
  members.push_back({.name = "m/byteorder", .content = "big"});
  const auto file = ZipCheckpoint::open(put(zip_bytes(members)));
  EXPECT_TRUE(at::equal(file.read("long"), at::tensor({std::int64_t{258}, std::int64_t{-2}})));
  EXPECT_TRUE(at::equal(file.read("char"), at::tensor({1, 2}, at::kChar)));
  EXPECT_TRUE(at::equal(file.read_rows("long", 1, 1), at::tensor({std::int64_t{-2}})));
  members.back().content = "middle";
  refused(zip_bytes(members), {"byte order", "'middle'"});
}

TEST_F(ZipFile, EveryStorageType) {
  const std::pair<std::string, at::ScalarType> types[] = {
      {"DoubleStorage", at::kDouble},     {"FloatStorage", at::kFloat}, {"HalfStorage", at::kHalf},
      {"BFloat16Storage", at::kBFloat16}, {"LongStorage", at::kLong},   {"IntStorage", at::kInt},
      {"ShortStorage", at::kShort},       {"CharStorage", at::kChar},   {"ByteStorage", at::kByte},
      {"BoolStorage", at::kBool},         {"UntypedStorage", at::kByte}};
  for (const auto& [type, dtype] : types) {
    const auto wanted = at::tensor({1., 0., 1.}).to(dtype);
    const auto storage = pickled_storage(type, "0", pickled(std::int64_t{3}));
    const auto file = open(pickled_dict({{"w", pickled_tensor(storage, {.sizes = {3}, .strides = {1}})}}),
                           {std::string(static_cast<const char*>(wanted.data_ptr()), wanted.nbytes())});
    EXPECT_EQ(file.find("w")->dtype, dtype);
    EXPECT_TRUE(at::equal(file.read("w"), wanted)) << type;
  }
  const auto bools = pickled_storage("BoolStorage", "0", pickled(std::int64_t{2}));
  const auto file =
      open(pickled_dict({{"w", pickled_tensor(bools, {.sizes = {2}, .strides = {1}})}}), {"\1\2"});
  expect_refused<CheckpointError>([&] { file.read("w"); }, path_.native(), {"'w'", "not a BOOL", "got 2"});
}

TEST_F(ZipFile, StoragesMustMatchTheirRecords) {
  refused(one_, {counted_floats(5)}, {"'m/data/0'", "expected 24 bytes for 6 elements of F32, got 20"});
  refused(one_, {counted_floats(7)}, {"got 28"});
  refused(one_, {}, {"the storage '0' is missing", "'m/data/0'"});
  const auto outside = pickled_dict({{"w", pickled_tensor(floats("../data.pkl", 1), {})}});
  refused(outside, {counted_floats(6)}, {"the storage '../data.pkl' is missing"});
  // A storage that only an optimizer uses.
  const auto unused = pickled_dict({{"model", one_}, {"optimizer", floats("7", 1)}});
  refused(unused, {counted_floats(6)}, {"the storage '7' is missing"});
}

TEST_F(ZipFile, WrongChecksumsAreRefused) {
  auto members = checkpoint_members(pickle_of(one_), {counted_floats(6)});
  members[1].crc = 1;
  const auto file = ZipCheckpoint::open(put(zip_bytes(members)));
  for (int i = 0; i < 2; ++i) {
    expect_refused<CheckpointError>([&] { file.read("w"); }, path_.native(),
                                    {"damaged", "expected the checksum 00000001"});
  }
  EXPECT_TRUE(at::equal(file.read_rows("w", 1, 1),
                        at::tensor({3.F, 4.F, 5.F}).view({1, 3})));  // nothing to compare with
  file.read_rows("w", 0, 1);
  expect_refused<CheckpointError>([&] { file.read_rows("w", 1, 1); }, path_.native(), {"damaged"});
  members[0].crc = 1;
  refused(zip_bytes(members), {"damaged"});
  // torch can be told to write none at all. One zero among others is a wrong one.
  members[1].crc = 0;
  refused(zip_bytes(members), {"damaged"});
  members[0].crc = 0;
  const auto unchecked = ZipCheckpoint::open(put(zip_bytes(members)));
  EXPECT_EQ(unchecked.read("w").numel(), 6);
  ASSERT_EQ(unchecked.notes().size(), 1U);
  EXPECT_NE(unchecked.notes()[0].find("without checksums"), std::string::npos);
}

TEST_F(ZipFile, OnlyOneCheckpointPerArchiveIsAccepted) {
  auto members = checkpoint_members(pickle_of(one_), {counted_floats(6)});
  members.push_back({.name = "n/data.pkl", .content = pickle_of(pickled_global("os", "system"))});
  refused(zip_bytes(members), {"two checkpoints", "'m' and 'n'"});
  refused(zip_bytes({{.name = "data.pkl", .content = "x"}}), {"expected a data.pkl in its one folder"});
  refused(zip_bytes({{.name = "a/b/data.pkl", .content = "x"}}), {"expected a data.pkl in its one folder"});
}

TEST_F(ZipFile, RowsAreTheSameAsOfTheWhole) {
  const auto view = [](PickledView view) { return pickled_tensor(floats("0", 24), view); };
  const auto file = open(pickled_dict({{"dense", view({.sizes = {4, 6}, .strides = {6, 1}})},
                                       {"transposed", view({.sizes = {6, 4}, .strides = {1, 6}})},
                                       {"part", view({.offset = 3, .sizes = {3, 2}, .strides = {6, 2}})},
                                       {"expanded", view({.sizes = {3, 6}, .strides = {0, 1}})},
                                       {"empty", view({.sizes = {3, 0}, .strides = {1, 1}})},
                                       {"scalar", view({})}}),
                         {counted_floats(24)});
  for (const auto* name : {"dense", "transposed", "part", "expanded", "empty"}) {
    const auto all = file.read(name);
    for (std::int64_t first = 0; first <= all.size(0); ++first) {
      for (std::int64_t count = 0; first + count <= all.size(0); ++count) {
        const auto rows = file.read_rows(name, first, count);
        EXPECT_EQ(rows.sizes(), all.narrow(0, first, count).sizes());
        EXPECT_TRUE(at::equal(rows, all.narrow(0, first, count))) << name << first << count;
      }
    }
  }
  EXPECT_EQ(file.read_rows("dense", 2, 1).storage().nbytes(), 24U);  // nothing else was read
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const std::pair<std::int64_t, std::int64_t> bad[] = {{-1, 1}, {0, -1},    {4, 1},        {3, 2},
                                                       {5, 0},  {1, kMost}, {kMost, kMost}};
  for (const auto& [first, count] : bad) {
    expect_refused<CheckpointError>(
        [&, first = first, count = count] { file.read_rows("dense", first, count); }, path_.native(),
        {"'dense' of shape [4, 6]", fmt::format("got {} from row {}", count, first)});
  }
  expect_refused<CheckpointError>([&] { file.read_rows("scalar", 0, 0); }, path_.native(), {"'scalar'"});
}

TEST_F(ZipFile, WhereTheStateDictMayBe) {
  for (const auto* key : {"model", "state_dict", "model_state_dict"}) {
    const auto file =
        open(pickled_dict({{"epoch", pickled(std::int64_t{3})}, {key, one_}}), {counted_floats(6)});
    EXPECT_EQ(file.tensors().size(), 1U);
    EXPECT_EQ(file.values(), R"({"epoch":3})");
  }
  EXPECT_TRUE(open("}", {}).tensors().empty());
  refused("]", {}, {"no state dict", "a list"});
  refused(pickled_tensor(floats("0", 6), {}), {counted_floats(6)}, {"no state dict", "a tensor"});
  refused(pickled_dict({{"a", "N"}, {"model", "}"}}), {},
          {"no state dict", "model, state_dict, model_state_dict", "keys a, model"});
  refused(pickled_dict({{"model", one_}, {"state_dict", one_}}), {counted_floats(6)}, {"two state dicts"});
  refused(pickled_dict({{"net", one_}}), {counted_floats(6)}, {"keys net"});
  const auto mixed = open(pickled_dict({{"model", one_.substr(0, one_.size() - 1) + pickled("n") + "Nu"}}),
                          {counted_floats(6)});
  ASSERT_EQ(mixed.notes().size(), 1U);
  EXPECT_NE(mixed.notes()[0].find("1 entries of the state dict are not tensors and were not read: n"),
            std::string::npos);
}

TEST_F(ZipFile, Names) {
  const auto tensor = pickled_tensor(floats("0", 1), {});
  const auto storage = counted_floats(1);
  refused(pickled_dict({{"w", tensor}, {"w", tensor}}), {storage}, {"'w'", "occurs twice"});
  refused(pickled_dict({{"w", tensor}, {"args", pickled_dict({{"n", "K\x01"}, {"n", "K\x02"}})}}), {storage},
          {"'n'", "occurs twice"});
  refused("}K\x07" + tensor + "s", {storage}, {"the name is not a text"});
  refused(pickled_dict({{std::string("a\0b", 3), tensor}}), {storage}, {"'a\\x00b'", "NUL"});
  const std::string longest(Limits::kNameBytes, 'n');
  EXPECT_NE(open(pickled_dict({{longest, tensor}}), {storage}).find(longest), nullptr);
  refused(pickled_dict({{longest + "n", tensor}}), {storage}, {"too long", "got 4097"});
  const auto odd = open(pickled_dict({{"../\n\xF0\x9F\x98\x80", tensor}}), {storage});
  EXPECT_EQ(odd.read("../\n\xF0\x9F\x98\x80").numel(), 1);

  const auto compiled = open(pickled_dict({{"_orig_mod.a", tensor}, {"_orig_mod.b", tensor}}), {storage});
  EXPECT_NE(compiled.find("a"), nullptr);
  EXPECT_EQ(compiled.notes().size(), 1U);
  const auto half = open(pickled_dict({{"_orig_mod.a", tensor}, {"b", tensor}}), {storage});
  EXPECT_NE(half.find("_orig_mod.a"), nullptr);
}

TEST_F(ZipFile, PlainValues) {
  const auto numbers = pickled_tuple({"K\x05", "G" + std::string("\x3F\xF8\0\0\0\0\0\0", 8), "\x88", "N",
                                      "C\x01x", "G" + std::string("\x7F\xF0\0\0\0\0\0\0", 8)});
  const auto args = pickled_dict({{"l", numbers}, {"s", pickled("t")}}) + "K\x07" + pickled("left out") + "s";
  const auto file =
      open(pickled_dict(
               {{"model", one_}, {"args", args}, {"with a tensor", pickled_dict({{"x", floats("0", 6)}})}}),
           {counted_floats(6)});
  // Bytes and infinite numbers are null, and what has a key that is not a text is left out.
  EXPECT_EQ(file.values(), R"({"args":{"l":[5,1.5,true,null,null,null],"s":"t"}})");
}

TEST_F(ZipFile, PlainValuesAreLimited) {
  const std::vector<std::string> storages = {counted_floats(6)};
  const auto beside = [&](const std::string& value) { return pickled_dict({{"model", one_}, {"x", value}}); };
  refused(beside("]q\1h\1"
                 "a"),
          storages, {"nested too deeply"});  // a list that holds itself
  const auto nested = [](std::size_t depth) { return std::string(depth, ']') + std::string(depth - 1, 'a'); };
  const auto is_held = [&](const std::string& value) {
    return Json::parse(open(beside(value), storages).values()).size() == 1;
  };
  EXPECT_TRUE(is_held(nested(Limits::kPlainDepth)));
  refused(beside(nested(Limits::kPlainDepth + 1)), storages, {"nested too deeply", "at most 64"});
  // Each list holds the one before ten times: nine small lists are a billion values.
  std::string laughs = "]";
  for (int i = 0; i < 9; ++i)
    laughs +=
        "q\1"
        "0](h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1e";
  refused(beside(laughs), storages, {"too many", "at most 262144"});
  // The key `x`, the outer list and its elements.
  const auto elements = [](std::size_t count) {
    std::string bytes = "]";
    for (std::size_t i = 0; i < count; ++i) bytes += "Na";
    return bytes;
  };
  EXPECT_TRUE(is_held(elements(Limits::kPlainValues - 2)));
  refused(beside(elements(Limits::kPlainValues - 1)), storages, {"too many"});
  const auto texts = [](std::size_t bytes) {
    return "](" + pickled(std::string(bytes / 2, 't')) + "q\1h\1" + pickled(std::string(bytes % 2, 't')) +
           "e";
  };
  EXPECT_TRUE(is_held(texts(Limits::kPlainBytes - 1)));
  refused(beside(texts(Limits::kPlainBytes)), storages, {"too many bytes of text"});
}

TEST_F(ZipFile, FileChangedInUse) {
  const auto file = open(one_, {counted_floats(6)});
  std::filesystem::resize_file(path_, 50);
  expect_refused<IoError>([&] { file.read("w"); }, path_.native(), {"the file ends"});
}

TEST_F(ZipFile, ManyThreadsReadOneFile) {
  const auto file = open(one_, {counted_floats(6)});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 100; ++run) {
        right += file.read("w").sum().item<float>() == 15.F ? 1 : 0;
        right += file.read_rows("w", run % 2, 1).numel() == 3 ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

}  // namespace
}  // namespace hooked::zip_checkpoint_test
