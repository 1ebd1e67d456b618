// The properties of tests/fuzz/zip_checkpoint_property.h over a corpus of pickles and archives and over every
// small change of them.
#include <fmt/format.h>

#include <random>

#include "tests/fuzz/zip_checkpoint_property.h"
#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/zip_writer.h"

namespace hooked::zip_checkpoint_fuzz_test {
namespace {

const std::filesystem::path kFiles = HOOKED_SOURCE_DIR "/tests/io/files";

std::string small_pickle() {
  const auto storage = pickled_storage("FloatStorage", "0", "K\x06");
  return pickle_of(pickled_dict(
      {{"model",
        pickled_dict({{"w", pickled_tensor(storage, {.offset = 1, .sizes = {2, 2}, .strides = {1, 3}})}})},
       {"n", "(K\x01G" + std::string(8, '\x40') + "l\x94"}}));
}

/// The pickle inside a file of torch's.
std::string pickle_inside(const std::string& name) {
  const auto bytes = file_bytes(kFiles / name);
  const auto begin = bytes.find('\x80');
  return bytes.substr(begin, bytes.find("PK\x07\x08", begin) - begin);
}

std::vector<std::string> pickles() {
  return {pickle_of("}"), small_pickle(), pickle_inside("training.pt"), pickle_inside("protocol4.pt")};
}

TEST(ZipCheckpointFuzz, CorpusIsAccepted) {
  for (const auto& pickle : pickles()) EXPECT_TRUE(pickle_property(pickle));
  EXPECT_TRUE(archive_property(checkpoint_bytes(small_pickle(), {std::string(24, '\1')})));
  EXPECT_TRUE(archive_property(file_bytes(kFiles / "unchecked.pt")));
}

TEST(ZipCheckpointFuzz, EveryByteOfAPickleChangedToEveryOther) {
  for (const auto& pickle : {small_pickle(), pickle_inside("training.pt")}) {
    const auto step = pickle.size() > 1000 ? 7 : 1;
    for (std::size_t i = 0; i < pickle.size(); ++i) {
      for (int value = 0; value < 256; value += step) {
        auto changed = pickle;
        changed[i] = static_cast<char>(value);
        pickle_property(changed);
      }
    }
  }
}

TEST(ZipCheckpointFuzz, PicklesCutAtEveryLength) {
  for (const auto& pickle : pickles()) {
    for (std::size_t length = 0; length < pickle.size(); ++length) {
      EXPECT_FALSE(pickle_property(std::string_view(pickle).substr(0, length)));
    }
  }
}

TEST(ZipCheckpointFuzz, EveryByteOfAnArchiveChanged) {
  // With checksums nothing that is read can change unnoticed. What may change: times, versions, attributes,
  // flags without a meaning here.
  const auto good = checkpoint_bytes(small_pickle(), {std::string(24, '\1')});
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0x02, 0x08, 0x20, 0x40, 0x80, 0xFF}) {
      auto changed = good;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      accepted += archive_property(changed) ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, 7 * good.size() / 5);
  for (const auto* name : {"unchecked.pt", "protocol4.pt"}) {
    const auto file = file_bytes(kFiles / name);
    for (std::size_t i = 0; i < file.size(); ++i) {
      auto changed = file;
      changed[i] = static_cast<char>(~changed[i]);
      archive_property(changed);
    }
  }
}

TEST(ZipCheckpointFuzz, ArchivesCutAtEveryLength) {
  const auto good = checkpoint_bytes(small_pickle(), {std::string(24, '\1')});
  for (const auto& file : {good, file_bytes(kFiles / "unchecked.pt")}) {
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_FALSE(archive_property(std::string_view(file).substr(0, length))) << length;
    }
  }
}

TEST(ZipCheckpointFuzz, RandomEdits) {
  std::mt19937 random(1);
  const auto corpus = pickles();
  const std::string opcodes =
      "(.01JKMNQRTUXabcd}ehjl]qrst)uGBC\x80\x85\x86\x87\x88\x89\x8A\x8B\x8C\x93\x94\x95";
  for (int run = 0; run < 20'000; ++run) {
    auto pickle = corpus[random() % corpus.size()];
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = 2 + random() % (pickle.size() - 2);
      switch (random() % 4) {
        case 0:
          pickle.insert(at, 1, opcodes[random() % opcodes.size()]);
          break;
        case 1:
          pickle.erase(at, random() % 5);
          break;
        case 2:
          pickle[at] = opcodes[random() % opcodes.size()];
          break;
        default:
          pickle.insert(at, pickle.substr(random() % pickle.size(), random() % 40));
      }
      if (pickle.size() < 3) pickle = small_pickle();
    }
    // Alone, and in an archive with right checksums.
    pickle_property(pickle);
    if (run % 10 != 0) continue;
    archive_property(checkpoint_bytes(pickle, {std::string(24, '\1'), std::string(4, '\1')}));
  }
}

}  // namespace
}  // namespace hooked::zip_checkpoint_fuzz_test
