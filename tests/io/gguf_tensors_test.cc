// Numbers of every format of GGUF that is read, against the package `gguf`, and models in several files.
#include "io/gguf_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/checkpoint_reader.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::gguf_tensors_test {
namespace {

const std::filesystem::path kGgufFiles = HOOKED_SOURCE_DIR "/tests/golden/gguf";

// Equal to the last bit; a NaN is one whatever its bits.
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
    const bool integers = type.decode == nullptr && !at::isFloatingType(type.dtype);
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

TEST_F(GgufSplits, MissingFilesAreAllNamed) {
  put_file(path(1), part(0, "a").bytes());
  refused(path(1), path(1), {"2 of 3 files", "m-00002-of-00003.gguf, m-00003-of-00003.gguf"});
  std::filesystem::rename(path(1), folder_.path() / "model.gguf");
  refused(folder_.path() / "model.gguf", folder_.path() / "model.gguf",
          {"one of 3", "its name does not say which", "-00001-of-00003.gguf"});
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
  refused(path(1), path(1), {"'split.count' is no number of files", "got -1"});
}

}  // namespace
}  // namespace hooked::gguf_tensors_test
