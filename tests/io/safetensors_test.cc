#include "hooked/io/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <thread>

#include "hooked/core/tensor_text.h"
#include "tests/io/file_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::safetensors_test {
namespace {

constexpr at::ScalarType kDtypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                      at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

// A file with one float32 [2, 3] and one int64 scalar.
std::string good_file() {
  std::string data(32, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i);
  return safetensors_bytes(
      R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
      R"("n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}})",
      data);
}

class Safetensors : public testing::Test {
 protected:
  void refused(std::string_view bytes, std::initializer_list<std::string_view> parts) {
    put_file(path_, bytes);
    expect_refused<CheckpointError>([&] { SafetensorsFile::open(path_); }, path_.native(), parts);
  }

  at::Tensor round_trip(const at::Tensor& tensor) {
    save_safetensors(path_, {{"t", tensor}});
    return SafetensorsFile::open(path_).read("t");
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
};

void expect_same_bits(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type());
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const auto flat = wanted.contiguous();
  EXPECT_TRUE(got.is_contiguous());
  if (flat.nbytes() == 0) return;  // memcmp must not be given the null pointers of empty tensors
  EXPECT_EQ(std::memcmp(got.const_data_ptr(), flat.const_data_ptr(), flat.nbytes()), 0);
}

TEST_F(Safetensors, ReadsAFile) {
  put_file(path_, good_file());
  const auto file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.path(), path_);
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "n");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("absent"), nullptr);
  ASSERT_NE(file.find("w"), nullptr);
  const auto n = file.read("n");
  EXPECT_EQ(n.dim(), 0);
  EXPECT_EQ(n.item<std::int64_t>(), 0x0706050403020100);
  const auto w = file.read("w");
  EXPECT_EQ(w.sizes(), (at::IntArrayRef{2, 3}));
  const auto* floats = w.const_data_ptr<float>();
  EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[0]), 0x0B0A0908U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[5]), 0x1F1E1D1CU);
}

TEST_F(Safetensors, AllTensorsAreReadAtOnce) {
  const auto rows = at::arange(6, at::kDouble).view({2, 3});
  save_safetensors(path_, {{"b", rows}, {"a", at::full({}, 3, at::kLong)}, {"none", at::empty({0, 4})}});
  const auto tensors = load_safetensors(path_);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(at::equal(tensors.at("b"), rows));
  EXPECT_EQ(tensors.at("b").scalar_type(), at::kDouble);
  EXPECT_EQ(tensors.at("a").item<std::int64_t>(), 3);
  EXPECT_EQ(tensors.at("none").sizes(), (at::IntArrayRef{0, 4}));
  put_file(path_, std::string(7, 'x'));
  EXPECT_THROW(load_safetensors(path_), CheckpointError);
}

TEST_F(Safetensors, AbsentTensorNamesTheNearest) {
  save_safetensors(path_, {{"blocks.0.attn.W_Q", at::ones({1})}, {"blocks.0.attn.W_O", at::ones({1})}});
  const auto file = SafetensorsFile::open(path_);
  expect_refused<CheckpointError>([&] { file.read("blocks.0.atn.W_O"); }, path_.native(),
                                  {"'blocks.0.atn.W_O'", "nearest name is 'blocks.0.attn.W_O'"});
}

TEST_F(Safetensors, S1TooShort) {
  for (std::size_t bytes = 0; bytes < 8; ++bytes) {
    refused(std::string(bytes, '\0'), {"too short", "at least 8 bytes", fmt::format("got {}", bytes)});
  }
}

TEST_F(Safetensors, S2NoObject) {
  refused(length_bytes(0), {"not a JSON object", "got 0"});
  refused(length_bytes(1) + "{", {"not a JSON object", "got 1"});
}

TEST_F(Safetensors, S3LengthPastTheEnd) {
  const auto all = std::uint64_t{0} - 1;
  for (const auto length :
       {std::uint64_t{3}, std::uint64_t{10}, std::uint64_t{1} << 63, all, all - 7, all - 8}) {
    refused(length_bytes(length) + "{}",
            {"past the end of the file", "at most 2", fmt::format("got {}", length)});
  }
}

TEST_F(Safetensors, S4HeaderLimitIsExact) {
  const auto sparse =
      [&](std::uint64_t length) {  // a header of blanks after `{}`: the rest of the file is one hole
        put_file(path_, length_bytes(length));
        std::filesystem::resize_file(path_, 8 + length);
      };
  sparse(100'000'001);
  expect_refused<CheckpointError>([&] { SafetensorsFile::open(path_); }, path_.native(),
                                  {"too large", "at most 100000000 bytes", "got 100000001"});
  sparse(100'000'000);  // at the limit it is read, and its zeros are not JSON
  expect_refused<CheckpointError>([&] { SafetensorsFile::open(path_); }, path_.native(),
                                  {"not a JSON object", "byte 8"});
  for (const std::uint64_t length : {99'999'999U, 100'000'000U}) {
    put_file(path_, length_bytes(length) + "{}" + std::string(length - 2, ' '));
    EXPECT_TRUE(SafetensorsFile::open(path_).tensors().empty());
  }
}

TEST_F(Safetensors, S10UnsupportedDtypeIsRefusedOnlyWhenRead) {
  put_file(path_, safetensors_bytes(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
                                    R"("c":{"dtype":"f32","shape":[1],"data_offsets":[8,12]}})",
                                    "abcdefghijkl"));
  const auto file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.read("b").const_data_ptr<std::uint8_t>()[3], 'h');
  expect_refused<CheckpointError>(
      [&] { file.read("a"); }, path_.native(),
      {"tensor 'a'", "'F8_E4M3' is not supported", "F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL"});
  expect_refused<CheckpointError>([&] { file.read("c"); }, path_.native(),
                                  {"tensor 'c'", "'f32' is not supported"});
}

TEST_F(Safetensors, S17CutAtEveryLength) {
  const auto good = good_file();
  for (std::size_t length = 0; length < good.size(); ++length) refused(good.substr(0, length), {"expected"});
  refused(good.substr(0, good.size() - 1),
          {fmt::format("expected {} bytes, got {}", good.size(), good.size() - 1), "1 missing",
           "tensor 'w' ends past"});
}

TEST_F(Safetensors, S17TrailingBytes) {
  const auto good = good_file();
  refused(good + "x", {fmt::format("expected {} bytes, got {}", good.size(), good.size() + 1), "1 too many"});
  refused(good + "PK\x03\x04 and the rest of an archive", {"too many"});
}

TEST_F(Safetensors, EveryHeaderByteChanged) {
  const auto good = good_file();
  const auto data_begin = good.size() - 32;
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < data_begin; ++i) {
    for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
      auto changed = good;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      put_file(path_, changed);
      try {
        const auto file = SafetensorsFile::open(path_);
        for (const auto& tensor : file.tensors()) {
          if (tensor.dtype != at::ScalarType::Undefined) file.read(tensor.name);
        }
        ++accepted;
      } catch (const CheckpointError& error) {
        EXPECT_EQ(error.where(), path_.native());
      }
    }
  }
  EXPECT_GT(accepted, 0U);  // letters of names and of metadata
  EXPECT_LT(accepted, data_begin);
}

TEST_F(Safetensors, S19UnalignedDataIsReadRight) {
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    std::string data(8, '\0');
    const double value = -1.25;
    std::memcpy(data.data(), &value, 8);
    put_file(path_, safetensors_bytes(R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})" +
                                          std::string(blanks, ' '),
                                      data));
    const auto w = SafetensorsFile::open(path_).read("w");
    EXPECT_EQ(w.item<double>(), value);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.const_data_ptr()) % alignof(double), 0U);
  }
}

TEST_F(Safetensors, S21ValuesKeepTheirBits) {
  // Every bit pattern of 16 bits, as two 16-bit floats: all NaN payloads, infinities, subnormals, both zeros.
  auto patterns = at::empty({65536}, at::kShort);
  for (int i = 0; i < 65536; ++i) patterns.data_ptr<std::int16_t>()[i] = static_cast<std::int16_t>(i);
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kShort}) {
    expect_same_bits(round_trip(patterns.view(dtype)), patterns.view(dtype));
  }
  auto words = at::empty({8}, at::kInt);
  const std::uint32_t bits[] = {0x7F800001, 0xFFC12345, 0x7F800000, 0xFF800000,
                                0x00000001, 0x80000000, 0x7F7FFFFF, 0};
  std::memcpy(words.data_ptr(), bits, sizeof bits);
  expect_same_bits(round_trip(words.view(at::kFloat)), words.view(at::kFloat));
  auto longs = at::empty({4}, at::kLong);
  const std::uint64_t wide[] = {0x7FF0000000000001, 0xFFF8DEADBEEF0001, 1, 0x8000000000000000};
  std::memcpy(longs.data_ptr(), wide, sizeof wide);
  expect_same_bits(round_trip(longs.view(at::kDouble)), longs.view(at::kDouble));
}

TEST_F(Safetensors, BoolsAreZeroOrOne) {
  put_file(path_, safetensors_bytes(R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                                    std::string("\0\1\2", 3)));
  const auto file = SafetensorsFile::open(path_);
  expect_refused<CheckpointError>([&] { file.read("b"); }, path_.native(),
                                  {"tensor 'b'", "element 2", "0 or 1, got 2"});
}

TEST_F(Safetensors, S22EmptyFiles) {
  put_file(path_, safetensors_bytes("{}"));
  EXPECT_TRUE(SafetensorsFile::open(path_).tensors().empty());
  save_safetensors(path_, {}, {.metadata = {{"only", "metadata"}}});
  EXPECT_EQ(SafetensorsFile::open(path_).metadata().at("only"), "metadata");
  save_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile::open(path_).tensors().empty());
}

TEST_F(Safetensors, SavingReportsItsProgress) {
  std::vector<std::uint64_t> seen;
  std::uint64_t whole = 0;
  const SafetensorsOptions options{.progress = [&](std::uint64_t done, std::uint64_t total) {
    seen.push_back(done);
    whole = total;
  }};
  save_safetensors(path_, {{"a", at::ones({5})}, {"none", at::ones({0})}, {"b", at::ones({3}, at::kDouble)}},
                   options);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{24, 44})) << "wider elements come first";
  EXPECT_EQ(whole, 44u);
  // If the callback throws, the old file stays.
  EXPECT_THROW(save_safetensors(path_, {{"c", at::ones({9})}},
                                {.progress = [](std::uint64_t, std::uint64_t) { throw 1; }}),
               int);
  EXPECT_TRUE(SafetensorsFile::open(path_).find("b"));
}

// What a temporary file object returns outlives it.
TEST_F(Safetensors, GivesCopiesOfATemporary) {
  save_safetensors(path_, {{"a tensor with a long name", at::ones({5})}}, {.metadata = {{"format", "pt"}}});
  const auto open = [&] { return SafetensorsFile::open(path_); };
  const auto& found = open().find("a tensor with a long name");
  const auto& path = open().path();
  const auto& metadata = open().metadata();
  const auto& stamp = InputFile::open(path_).stamp();
  EXPECT_EQ(found.value().shape, std::vector<std::int64_t>{5});
  EXPECT_EQ(open().find("b"), std::nullopt);
  EXPECT_EQ(path, path_);
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(stamp.bytes, std::filesystem::file_size(path_));
  std::string names;
  for (const TensorInfo& info : open().tensors()) names += info.name;
  EXPECT_EQ(names, "a tensor with a long name");
}

TEST_F(Safetensors, SaysThatAFileWasMovedFrom) {
  put_file(path_, good_file());
  auto from = SafetensorsFile::open(path_);
  const auto to = std::move(from);
  EXPECT_THROW(from.read("w"), CheckpointError);
  std::byte byte{};
  EXPECT_THROW(from.file().read(0, {&byte, 1}), IoError);
  EXPECT_TRUE(to.read("w").defined());
}

TEST_F(Safetensors, S23ShortenedAfterOpening) {
  put_file(path_, good_file());
  const auto file = SafetensorsFile::open(path_);
  std::filesystem::resize_file(path_, good_file().size() - 4);
  expect_refused<IoError>([&] { file.read("w"); }, path_.native(), {"the file ends at byte"});
}

TEST_F(Safetensors, S24SaysWhatItLooksLike) {
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 390660192\n",
          {"past the end of the file", "Git LFS pointer of 390,660,192 bytes; fetch the real file"});
  refused("<!DOCTYPE html><html><body>404</body></html>", {"HTML"});
  refused(R"({"error":"not found, try again"})", {"plain JSON text"});
  refused(std::string("PK\x03\x04\x14\0\0\0\x08\0 and more of it", 24), {"zip archive"});
  refused("\x80\x02}q\x01(X\x05weigh", {"Python pickle"});
  refused("# A page that was downloaded in its place", {"this looks like a text"});
  refused("GGUF\x03\x01\x01\x01 some more", {"GGUF"});
}

TEST_F(Safetensors, AllDtypesShapesAndStridesComeBack) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto dtype : kDtypes) {
    const auto name = std::string(dtype_text(dtype));
    const auto base = at::arange(24, at::kLong).remainder(2 + tensors.size()).to(dtype).view({2, 3, 4});
    tensors.emplace_back(name, base);
    tensors.emplace_back(name + " transposed", base.permute({2, 0, 1}));
    tensors.emplace_back(name + " every other", base.slice(2, 0, 4, 2));
    tensors.emplace_back(name + " expanded", base.select(0, 1).select(0, 0).unsqueeze(0).expand({3, 4}));
    tensors.emplace_back(name + " scalar", base.select(0, 1).select(0, 1).select(0, 1));
    tensors.emplace_back(name + " empty", at::empty({2, 0, 3}, dtype));
  }
  tensors.emplace_back("odd name \n \" \\ \xF0\x9F\x98\x80", at::ones({1, 1, 1, 1, 1, 1, 1, 1}));
  save_safetensors(path_, tensors, {.metadata = {{"a\n", "b\"\x01"}}});
  const auto file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"a\n", "b\"\x01"}}));
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    expect_same_bits(file.read(name), tensor);
    EXPECT_EQ(file.find(name)->begin % tensor.element_size(), 0U);  // aligned for readers that map the file
  }
  EXPECT_EQ(names_left_in(folder_.path()), std::set<std::string>{"m.safetensors"});
}

TEST_F(Safetensors, ReadTensorsAreFreshMemory) {
  save_safetensors(path_, {{"t", at::ones({4})}});
  const auto file = SafetensorsFile::open(path_);
  auto first = file.read("t");
  first.zero_();
  EXPECT_TRUE(at::equal(file.read("t"), at::ones({4})));
}

TEST_F(Safetensors, SavingOverItsOwnSourceIsSafe) {
  save_safetensors(path_, {{"t", at::arange(1000)}});
  const auto file = SafetensorsFile::open(path_);
  const auto t = file.read("t");
  save_safetensors(path_, {{"t", t.add(1)}});
  EXPECT_TRUE(at::equal(file.read("t"), at::arange(1000)));  // the open file is the old one
  EXPECT_TRUE(at::equal(SafetensorsFile::open(path_).read("t"), at::arange(1, 1001)));
}

TEST_F(Safetensors, WhatCannotBeSavedIsRefusedAndTheOldFileStays) {
  save_safetensors(path_, {{"t", at::ones({1})}});
  const auto before = file_bytes(path_);
  const auto one = at::ones({1});
  const auto bad_tensor = [&](const at::Tensor& tensor, std::initializer_list<std::string_view> parts) {
    expect_refused<ShapeError>(
        [&] {
          save_safetensors(path_, {{"good", one}, {"bad", tensor}});
        },
        path_.native(), parts);
  };
  bad_tensor({}, {"tensor 'bad'", "undefined"});
  bad_tensor(at::ones({1}, at::kComplexFloat), {"tensor 'bad'", "F64, F32"});
  bad_tensor(at::ones({1, 1, 1, 1, 1, 1, 1, 1, 1}), {"tensor 'bad'", "at most 8, got 9"});
  bad_tensor(at::ones({2}).to_sparse(), {"tensor 'bad'", "sparse"});
  const auto bad_name = [&](const std::string& name, std::initializer_list<std::string_view> parts) {
    expect_refused<CheckpointError>(
        [&] {
          save_safetensors(path_, {{"good", one}, {name, one}});
        },
        path_.native(), parts);
  };
  bad_name("good", {"'good' is given twice"});
  bad_name("__metadata__", {"'__metadata__'"});
  bad_name("a\xFF", {"UTF-8"});
  bad_name(std::string("a\0b", 3), {"NUL"});
  bad_name(std::string(4097, 'n'), {"at most 4096 bytes, got 4097"});
  expect_refused<CheckpointError>(
      [&] {
        save_safetensors(path_, {}, {.metadata = {{"k", "\xFF"}}});
      },
      path_.native(), {"'k'", "UTF-8"});
  EXPECT_EQ(file_bytes(path_), before);
  EXPECT_EQ(names_left_in(folder_.path()), std::set<std::string>{"m.safetensors"});
}

TEST_F(Safetensors, ThreadsReadOneFile) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (int i = 0; i < 32; ++i) tensors.emplace_back(fmt::format("t{}", i), at::full({1000}, i, at::kInt));
  save_safetensors(path_, tensors);
  const auto file = SafetensorsFile::open(path_);
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (const auto& [name, tensor] : tensors) right += at::equal(file.read(name), tensor) ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_EQ(right, 4 * 32);
}

TEST_F(Safetensors, DataBeginsWhereItIsAsked) {
  const TempFolder folder;
  for (const std::size_t alignment : {8, 64, 4096}) {
    const auto path = folder / "a.safetensors";
    const at::Tensor numbers = at::arange(5, at::TensorOptions(at::kFloat));
    save_safetensors(path, {{"numbers", numbers}}, {.alignment = alignment});
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_EQ(file.find("numbers")->begin % alignment, 0u);
    EXPECT_TRUE(at::equal(file.read("numbers"), numbers));
  }
}

}  // namespace
}  // namespace hooked::safetensors_test
