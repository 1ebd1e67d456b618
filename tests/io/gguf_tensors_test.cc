// Numbers of every format of GGUF that is read, against the package `gguf`, and models in several files.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <functional>

#include "hooked/io/file.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/gguf/ggml_types.h"
#include "io/tensors/tensor_file.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::gguf_tensors_test {
namespace {

const std::filesystem::path kGgufFiles = HOOKED_SOURCE_DIR "/tests/golden/gguf";

// Equal to the last bit; a NaN that was computed is one whatever its bits.
bool same_numbers_to_the_bit(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  if (one.scalar_type() != at::kFloat) return at::equal(one, other);
  const at::Tensor bits = one.contiguous().view(at::kInt), others = other.contiguous().view(at::kInt);
  return at::equal(bits.masked_fill(at::isnan(one), 1), others.masked_fill(at::isnan(other), 1));
}

TEST(GgufTensors, AreThoseOfThePackage) {
  const auto stored = CheckpointReader::open_file(kGgufFiles / "blocks.gguf");
  const auto expected = CheckpointReader::open_file(kGgufFiles / "blocks.safetensors");
  std::set<std::string> met;
  for (const std::string& name : expected.names()) {
    SCOPED_TRACE(name);
    const at::Tensor wanted = expected.read(name), got = stored.read(name);
    const bool halves = got.scalar_type() == at::kHalf || got.scalar_type() == at::kBFloat16;
    EXPECT_TRUE(same_numbers_to_the_bit(halves ? got.to(at::kFloat) : got, wanted));
    met.insert(stored.info(name).dtype_name);
  }
  for (const GgmlType& type : ggml_types()) {
    const bool integers = type.form == nullptr && !at::isFloatingType(type.dtype);
    const bool wanted = type.dtype != at::ScalarType::Undefined && !integers;
    EXPECT_TRUE(!wanted || met.contains(std::string(type.name))) << type.name << " is in no tensor";
  }
}

TEST(GgufTensors, AreReadFromAnywhere) {
  const auto stored = CheckpointReader::open_file(kGgufFiles / "blocks.gguf");
  for (const std::string& name : stored.names()) {
    const TensorInfo& info = stored.info(name);
    if (!stored.in_order(name)) continue;
    const at::Tensor all = stored.read(name), flat = all.flatten();
    for (const std::int64_t first : {0, 1, 15, 31, 32, 33, 255, 256, 257, 300}) {
      for (const std::int64_t count : {0, 1, 2, 31, 32, 33, 200, 256, 400}) {
        if (first + count > flat.numel()) continue;
        const at::Tensor run = at::empty({count}, info.dtype);
        stored.read_elements(name, first, run);
        ASSERT_TRUE(same_numbers_to_the_bit(run, flat.narrow(0, first, count)))
            << name << ' ' << first << ' ' << count;
      }
    }
    const std::int64_t rows = info.shape.front();
    const at::Tensor last = stored.read_rows(name, rows - 1, 1);
    EXPECT_TRUE(same_numbers_to_the_bit(last, all.narrow(0, rows - 1, 1))) << name;
    EXPECT_THROW(stored.read_rows(name, rows, 1), CheckpointError);
  }
}

/// A file of one tensor, under the control of the test.
class OneGgufTensor : public testing::Test {
 protected:
  const std::filesystem::path& put(const GgufBytes& file) const {
    put_file(path_, file.bytes());
    return path_;
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "m.gguf";
};

// The header's length is not a multiple of anything here, and neither is where the numbers begin.
TEST_F(OneGgufTensor, S19UnalignedDataIsReadRight) {
  const double value = -1.25;
  std::string block = little(0x3C00, 2);  // Q8_0: a factor of 1 and 32 numbers
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    GgufBytes file;
    file.uint32("general.alignment", 1).uint32(std::string(shift + 1, 'k'), 0);
    file.alignment = 1;
    file.tensor("doubles", {2}, 28, 0).tensor("blocks", {64}, 8, 16);
    file.data = std::string(8, '\0') + little(std::bit_cast<std::uint64_t>(value), 8) + block + block;
    const auto reader = CheckpointReader::open_file(put(file));
    EXPECT_EQ(reader.info("doubles").begin % 8, (1 + file.header().size() - 1) % 8);
    const at::Tensor doubles = reader.read("doubles"), blocks = reader.read("blocks");
    EXPECT_EQ(doubles[1].item<double>(), value);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(doubles.const_data_ptr()) % alignof(double), 0U);
    for (std::int64_t i = 0; i < 64; ++i) EXPECT_EQ(blocks[i].item<float>(), static_cast<float>(i % 32 - 16));
    const at::Tensor run = at::empty({3}, at::kFloat);
    reader.read_elements("blocks", 31, run);
    EXPECT_EQ(run[0].item<float>(), 15.0F);
    EXPECT_EQ(run[1].item<float>(), -16.0F);
  }
}

// Numbers that are stored as they are keep their bits: all NaN payloads, infinities, subnormals, both zeros.
TEST_F(OneGgufTensor, S21ValuesKeepTheirBits) {
  const auto stored = [&](std::uint32_t type, std::uint64_t count, const std::string& data) {
    GgufBytes file;
    file.tensor("t", {count}, type, 0);
    file.data = data;
    const at::Tensor whole = CheckpointReader::open_file(put(file)).read("t");
    EXPECT_EQ(whole.nbytes(), data.size());
    return std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  };
  std::string patterns;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) patterns += little(bits, 2);
  for (const std::uint32_t halves : {1U, 30U, 25U})  // F16, BF16, I16
    EXPECT_EQ(stored(halves, 65536, patterns), patterns) << halves;
  std::string words, wide;
  for (const std::uint32_t bits : {0x7F800001U, 0xFFC12345U, 0x7F800000U, 0xFF800000U, 0x00000001U,
                                   0x80000000U, 0x7F7FFFFFU, 0x807FFFFFU})
    words += little(bits, 4);
  for (const std::uint64_t bits :
       {0x7FF0000000000001U, 0xFFF8DEADBEEF0001U, std::uint64_t{1}, std::uint64_t{1} << 63U})
    wide += little(bits, 8);
  for (const std::uint32_t type : {0U, 26U}) EXPECT_EQ(stored(type, 8, words), words) << type;  // F32, I32
  for (const std::uint32_t type : {28U, 27U}) EXPECT_EQ(stored(type, 4, wide), wide) << type;   // F64, I64
}

// The factor of a block may be anything; its numbers are that times theirs.
TEST_F(OneGgufTensor, S21FactorsThatAreNotFinite) {
  for (const std::uint64_t factor : {0x7C00U, 0xFC00U, 0x7E00U, 0x0001U, 0x8000U}) {
    std::string block = little(factor, 2);
    for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
    GgufBytes file;
    file.tensor("t", {32}, 8, 0);
    file.data = block;
    const at::Tensor numbers = CheckpointReader::open_file(put(file)).read("t");
    const at::Tensor half = at::empty({1}, at::kHalf);
    *static_cast<std::uint16_t*>(half.data_ptr()) = static_cast<std::uint16_t>(factor);
    const float times = half.item<float>();
    for (std::int64_t i = 0; i < 32; ++i) {
      const float got = numbers[i].item<float>(), wanted = times * static_cast<float>(i - 16);
      EXPECT_TRUE(std::isnan(wanted)
                      ? std::isnan(got)
                      : std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(wanted))
          << times << " * " << i - 16 << " is not " << got;
    }
  }
}

TEST_F(OneGgufTensor, S23ShortenedAfterOpening) {
  for (const std::uint32_t type : {0U, 8U}) {
    GgufBytes file;
    file.tensor("t", {64}, type, 0);
    file.data = std::string(type == 0 ? 256 : 68, '\1');
    const auto open = InputFile::open(put(file));
    const auto tensors = describe_gguf(open);
    const auto reader = CheckpointReader::open_file(path_);
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4);
    expect_refused<IoError>([&] { tensors->read(open, 0); }, path_.native(), {"the file ends at byte"});
    expect_refused<IoError>([&] { reader.read("t"); }, path_.native(), {"changed"});
  }
}

TEST(GgufTensors, FormatsThatAreNotReadAreRefusedByName) {
  const auto path = kGgufFiles / "blocks.gguf";
  const auto stored = CheckpointReader::open_file(path);
  EXPECT_FALSE(stored.in_order("IQ2_XS.blocks"));
  expect_refused<CheckpointError>([&] { stored.read("IQ2_XS.blocks"); }, path.native(),
                                  {"'IQ2_XS.blocks'", "IQ2_XS is not supported", "Q6_K"});
}

TEST(GgufTensors, MetadataIsAtHand) {
  const auto stored = CheckpointReader::open_file(kGgufFiles / "blocks.gguf");
  ASSERT_NE(stored.gguf(), nullptr);
  EXPECT_EQ(stored.gguf()->at("general.architecture").text(), "llama");
  EXPECT_EQ(stored.gguf_file(), kGgufFiles / "blocks.gguf");
  EXPECT_EQ(CheckpointReader::open_file(kGgufFiles / "blocks.safetensors").gguf(), nullptr);
}

/// A model of three files, one tensor in each.
class GgufSplits : public testing::Test {
 protected:
  std::filesystem::path path(int number, int count = 3) const {
    return folder_.path() / fmt::format("m-{:05}-of-{:05}.gguf", number, count);
  }

  static GgufBytes part(std::uint32_t no, std::string_view tensor, std::uint32_t count = 3) {
    GgufBytes file;
    file.number("split.no", GgufType::uint16, no, 2).number("split.count", GgufType::uint16, count, 2);
    file.number("split.tensors.count", GgufType::int32, 3, 4);
    if (no == 0) file.text("general.architecture", "llama");
    file.tensor(tensor, {2}, 0, 0);
    file.data = little(0x3f800000U + no, 4) + little(0, 4);
    return file;
  }

  void write() const {
    for (const auto& [no, name] : {std::pair{0U, "a"}, std::pair{1U, "b"}, std::pair{2U, "c"}})
      put_file(path(static_cast<int>(no) + 1), part(no, name).bytes());
  }

  void refused(const std::filesystem::path& file, const std::filesystem::path& where,
               std::initializer_list<std::string_view> parts) const {
    expect_refused<CheckpointError>([&] { CheckpointReader::open_file(file); }, where.native(), parts);
  }

  TempFolder folder_;
};

TEST_F(GgufSplits, AreFoundByTheFirst) {
  write();
  const auto model = CheckpointReader::open_file(path(1));
  EXPECT_EQ(model.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(model.file_of("c"), path(3));
  EXPECT_EQ(model.gguf()->at("general.architecture").text(), "llama");
  EXPECT_GT(model.read("c")[0].item<float>(), model.read("a")[0].item<float>());
  refused(path(2), path(2), {"number 2 of 3", "expected the first", "m-00001-of-00003.gguf"});
}

// As the hub cache has them: the names that count are the links'.
TEST_F(GgufSplits, I2SymbolicLinks) {
  std::filesystem::create_directory(folder_ / "blobs");
  for (const auto& [no, name] : {std::pair{0U, "a"}, std::pair{1U, "b"}, std::pair{2U, "c"}}) {
    const std::string blob = fmt::format("blobs/{}", no);
    put_file(folder_ / blob, part(no, name).bytes());
    std::filesystem::create_symlink(blob, path(static_cast<int>(no) + 1));
  }
  EXPECT_EQ(CheckpointReader::open_file(path(1)).names(), (std::vector<std::string>{"a", "b", "c"}));
  std::filesystem::create_symlink("blobs/0", folder_ / "model.gguf");
  refused(folder_ / "model.gguf", folder_ / "model.gguf", {"one of 3", "its name does not say which"});
}

TEST_F(GgufSplits, I3WhatIsNoRegularFile) {
  const auto refused_io = [&](const std::filesystem::path& where, std::string_view what) {
    expect_refused<IoError>([&] { CheckpointReader::open_file(path(1)); }, where.native(), {what});
  };
  std::filesystem::create_symlink("gone", path(1));
  refused_io(path(1), "'gone', which does not exist");
  std::filesystem::remove(path(1));
  std::filesystem::create_directory(path(1));
  refused_io(path(1), "a folder");
  std::filesystem::remove(path(1));
  ASSERT_EQ(::mkfifo(path(1).c_str(), 0600), 0);
  refused_io(path(1), "a named pipe");
  std::filesystem::remove(path(1));
  std::filesystem::create_symlink("/dev/zero", path(1));
  refused_io(path(1), "a device");
  std::filesystem::remove(path(1));
  write();
  std::filesystem::remove(path(3));
  ASSERT_EQ(::mkfifo(path(3).c_str(), 0600), 0);
  refused_io(path(3), "a named pipe");
}

TEST_F(GgufSplits, I8CountsOfAWrongType) {
  const auto with_count = [&](const std::function<void(GgufBytes&)>& set_it) {
    GgufBytes file = part(0, "a");
    std::erase_if(file.entries,
                  [](const std::string& entry) { return entry.find("split.count") != std::string::npos; });
    set_it(file);
    put_file(path(1), file.bytes());
  };
  with_count([](GgufBytes& file) { file.text("split.count", "3"); });
  refused(path(1), path(1), {"'split.count' is not a number of files", "got string"});
  with_count([](GgufBytes& file) { file.float32("split.count", 3.0F); });
  refused(path(1), path(1), {"'split.count' is not a number of files", "got float32"});
  with_count([](GgufBytes& file) { file.boolean("split.count", 1); });
  refused(path(1), path(1), {"'split.count' is not a number of files", "got bool"});
  with_count([](GgufBytes& file) { file.array("split.count", GgufType::uint16, 1, little(3, 2)); });
  refused(path(1), path(1), {"'split.count' is not a number of files", "got array of uint16"});
  with_count([](GgufBytes& file) { file.uint32("split.count", 100'000); });
  refused(path(1), path(1), {"'split.count' is not a number of files", "expected 0 to 99999, got 100000"});
}

TEST_F(GgufSplits, MissingFilesAreAllNamed) {
  put_file(path(1), part(0, "a").bytes());
  refused(path(1), path(1), {"2 of 3 files", "m-00002-of-00003.gguf, m-00003-of-00003.gguf"});
  std::filesystem::rename(path(1), folder_.path() / "model.gguf");
  refused(folder_.path() / "model.gguf", folder_.path() / "model.gguf",
          {"one of 3", "its name does not say which", "-00001-of-00003.gguf"});
}

TEST_F(GgufSplits, MissingFilesCanBeLeftOut) {
  write();
  std::filesystem::remove(path(2));
  const auto model = CheckpointReader::open_file(path(1), MissingShards::left_out);
  EXPECT_EQ(model.missing_shards(), std::vector<std::string>{"m-00002-of-00003.gguf"});
  EXPECT_EQ(model.names(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(model.file_of("c"), path(3));
  EXPECT_EQ(model.bytes(), 16U);
  EXPECT_EQ(model.fetch(), "");
  expect_refused<CheckpointError>([&] { model.require_whole(); }, path(1).native(),
                                  {"1 of 3 files of the model are missing: m-00002-of-00003.gguf; expected "
                                   "them next to this one; fetch them again"});
  std::filesystem::create_symlink("gone", path(2));
  EXPECT_EQ(CheckpointReader::open_file(path(1), MissingShards::left_out).missing_shards().size(), 1U);
  refused(path(1), path(1), {"1 of 3 files"});
  std::filesystem::remove(path(2));
  put_file(path(3), part(1, "c").bytes());  // the file must be what its name says
  EXPECT_THROW(CheckpointReader::open_file(path(1), MissingShards::left_out), CheckpointError);
  write();
  const auto whole = CheckpointReader::open_file(path(1), MissingShards::left_out);
  EXPECT_TRUE(whole.missing_shards().empty());
  EXPECT_NO_THROW(whole.require_whole());
}

// Repositories of GGUF files hold a model in many formats: only the files of this one are to be fetched.
TEST_F(GgufSplits, InAHubCacheTheErrorNamesTheCommandThatDownloads) {
  const auto snapshot = folder_ / "models--org--name/snapshots/c0ffee";
  for (const auto& [below, pattern] :
       {std::pair{"", "m-*-of-00003.gguf"}, std::pair{"Q4/", "Q4/m-*-of-00003.gguf"}}) {
    std::filesystem::create_directories(snapshot / below);
    const auto first = snapshot / below / "m-00001-of-00003.gguf";
    put_file(first, part(0, "a").bytes());
    const std::string command = fmt::format("hf download org/name --revision c0ffee --include '{}'", pattern);
    EXPECT_EQ(CheckpointReader::open_file(first, MissingShards::left_out).fetch(), command);
    refused(first, first, {"2 of 3 files", fmt::format("fetch them with `{}`", command)});
  }
}

TEST_F(GgufSplits, FilesThatDoNotBelongTogether) {
  write();
  put_file(path(2), part(2, "b").bytes());
  refused(path(1), path(2), {"'split.no' 1", "got 2 and 3"});
  put_file(path(2), part(1, "b", 4).bytes());
  refused(path(1), path(2), {"got 1 and 4"});
  put_file(path(2), GgufBytes().bytes());
  refused(path(1), path(2), {"got none and none"});
  put_file(path(2), part(1, "a").bytes());
  refused(path(1), path(2), {"tensor 'a' is also in", "m-00001-of-00003.gguf"});
  GgufBytes empty = part(1, "b");
  empty.tensors.clear();
  empty.data.clear();
  put_file(path(2), empty.bytes());
  refused(path(1), path(1), {"'split.tensors.count'", "expected 3", "got 2"});
  GgufBytes wild = part(0, "a");
  wild.entries.erase(wild.entries.begin() + 1);
  put_file(path(1), wild.number("split.count", GgufType::int64, ~std::uint64_t{0}, 8).bytes());
  refused(path(1), path(1), {"'split.count' is not a number of files", "got -1"});
}

}  // namespace
}  // namespace hooked::gguf_tensors_test
