#include "io/files/replaceable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "tests/io/file_bytes.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::replaceable_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A kind whose files say so in their first line.
bool begins_with_ours(const std::filesystem::path& file) {
  const auto text = file_bytes(file);
  if (text == "damaged") throw CheckpointError(file.native(), "this file is damaged");
  return text.starts_with("ours");
}
const FileKind& kind() {
  static const FileKind kKind{.name = "a list", .endings = {".csv", ".json"}, .is_ours = begins_with_ours};
  return kKind;
}

class Replaceable : public testing::Test {
 protected:
  Replaceable() {
    environment_.set("HF_HOME", (folder_ / "hf").native());
    put_file(folder_ / "ours.csv", "ours");
    put_file(folder_ / "theirs.csv", "theirs");
    put_file(folder_ / "damaged.csv", "damaged");
  }

  // The refusal, or nothing.
  std::string refusal(const std::string& name, Overwrite overwrite = Overwrite::ours) const {
    try {
      require_replaceable(folder_ / name, kind(), overwrite);
    } catch (const IoError& error) {
      EXPECT_EQ(error.where(), (folder_ / name).native());
      return error.what();
    }
    return "";
  }

  TempFolder folder_;
  ScopedEnvironment environment_{kHubSettings};
};

TEST_F(Replaceable, ANewNameAndAFileOfOursAreFree) {
  for (const auto overwrite : {Overwrite::ours, Overwrite::any}) {
    EXPECT_EQ(refusal("new.csv", overwrite), "");
    EXPECT_EQ(refusal("ours.csv", overwrite), "");
  }
}

TEST_F(Replaceable, AFileOfOthersIsOnlyReplacedWhenAnyMayBe) {
  for (const char* name : {"theirs.csv", "damaged.csv"}) {
    EXPECT_THAT(refusal(name), AllOf(HasSubstr("not a list written by hooked"), HasSubstr("--force")));
    EXPECT_EQ(refusal(name, Overwrite::any), "");
  }
  EXPECT_EQ(file_bytes(folder_ / "theirs.csv"), "theirs");
}

TEST_F(Replaceable, AKindWithoutARecordIsNeverOurs) {
  const FileKind silent{.name = "a note", .endings = {".csv"}, .is_ours = nullptr};
  EXPECT_THAT(
      text_thrown_by<IoError>([&] { require_replaceable(folder_ / "ours.csv", silent, Overwrite::ours); }),
      HasSubstr("a note does not say who wrote it"));
  require_replaceable(folder_ / "ours.csv", silent, Overwrite::any);
}

TEST_F(Replaceable, AnUnknownEndingIsRefusedWithThoseThatAreKnown) {
  for (const char* name : {"x.png", "x", "x.csv.gz", "x.CSV", "absent/x.png"}) {
    for (const auto overwrite : {Overwrite::ours, Overwrite::any}) {
      EXPECT_THAT(refusal(name, overwrite), HasSubstr("expected a name that ends in .csv or .json")) << name;
    }
  }
}

TEST_F(Replaceable, TheFolderMustBeThere) {
  EXPECT_THAT(refusal("absent/x.csv", Overwrite::any), HasSubstr("the folder of the file is not there"));
  EXPECT_THAT(refusal("ours.csv/x.csv", Overwrite::any), HasSubstr("the folder of the file is not there"));
}

TEST_F(Replaceable, WhatIsNoFileIsNeverReplaced) {
  std::filesystem::create_directory(folder_ / "folder.csv");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.csv").c_str(), 0600), 0);
  for (const auto overwrite : {Overwrite::ours, Overwrite::any}) {
    EXPECT_THAT(refusal("folder.csv", overwrite), HasSubstr("got a folder"));
    EXPECT_THAT(refusal("pipe.csv", overwrite), HasSubstr("got a device or a pipe"));
  }
}

TEST_F(Replaceable, ALinkIsWhatItLeadsTo) {
  std::filesystem::create_symlink("theirs.csv", folder_ / "to_theirs.csv");
  std::filesystem::create_symlink("ours.csv", folder_ / "to_ours.csv");
  std::filesystem::create_symlink("nothing.csv", folder_ / "to_nothing.csv");
  EXPECT_NE(refusal("to_theirs.csv"), "");
  EXPECT_EQ(refusal("to_ours.csv"), "");
  EXPECT_EQ(refusal("to_nothing.csv"), "");
}

TEST_F(Replaceable, NothingIsWrittenInAHubCache) {
  std::filesystem::create_directories(folder_ / "hf/hub/notes");
  std::filesystem::create_directories(folder_ / "elsewhere/models--org--name/snapshots/c0ffee");
  std::filesystem::create_directories(folder_ / "elsewhere/models--org--name/blobs");
  std::filesystem::create_directories(folder_ / "models--mine");  // only its name is like that
  std::filesystem::create_directory_symlink("elsewhere/models--org--name/snapshots/c0ffee", folder_ / "link");
  for (const char* name :
       {"hf/hub/x.csv", "hf/hub/notes/x.csv", "elsewhere/models--org--name/snapshots/c0ffee/x.csv",
        "elsewhere/models--org--name/blobs/x.csv", "elsewhere/models--org--name/x.csv", "link/x.csv",
        "models--mine/../hf/hub/x.csv"}) {
    EXPECT_THAT(refusal(name, Overwrite::any), HasSubstr("inside the Hugging Face cache")) << name;
  }
  for (const char* name : {"hf/x.csv", "elsewhere/x.csv", "models--mine/x.csv"})
    EXPECT_EQ(refusal(name), "") << name;
  environment_.set("HF_HUB_CACHE", (folder_ / "elsewhere/").native());
  EXPECT_THAT(refusal("elsewhere/x.csv"), HasSubstr("inside the Hugging Face cache"));
  EXPECT_EQ(refusal("hf/hub/x.csv"), "") << "another setting wins over HF_HOME";
}

TEST_F(Replaceable, AFileIsTheOneThatIsReadByAnyOfItsNames) {
  const auto read = folder_ / "theirs.csv";
  std::filesystem::create_directory(folder_ / "sub");
  std::filesystem::create_symlink("../theirs.csv", folder_ / "sub/symbolic.csv");
  std::filesystem::create_hard_link(read, folder_ / "hard.csv");
  for (const auto& name : {read, folder_ / "sub/../theirs.csv", folder_ / "sub/symbolic.csv",
                           folder_ / "hard.csv", std::filesystem::relative(read)}) {
    EXPECT_THAT(text_thrown_by<IoError>([&] {
                  require_not_read(name, {folder_ / "absent", read});
                }),
                AllOf(HasSubstr(name.native()), HasSubstr("which is read")));
  }
  require_not_read(folder_ / "ours.csv", {folder_ / "absent", read});
  require_not_read(folder_ / "absent", {folder_ / "absent", read});
}

}  // namespace
}  // namespace hooked::replaceable_test
