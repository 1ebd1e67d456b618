#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "hooked/core/error.h"
#include "io/files/replaceable.h"
#include "tests/io/file_bytes.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::own_folder_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Names = std::set<std::string>;

constexpr std::string_view kOwnConfig =
    R"({"model_type": "hooked_transformer", "hooked": {"processing": []}})";

class OwnFolderTest : public testing::Test {
 protected:
  void make(const std::string& folder, const std::string& file, std::string_view text = "text") const {
    std::filesystem::create_directories((folder_ / folder / file).parent_path());
    put_file(folder_ / folder / file, text);
  }
  void make_own(const std::string& folder) const {
    make(folder, "config.json", kOwnConfig);
    make(folder, "weights", "old weights");
  }
  void write(const std::string& folder) const {
    OwnFolder made(folder_ / folder, native_folder(names_), from_);
    made.add("weights", "new weights");
    made.add("config.json", kOwnConfig);
    made.commit();
  }
  std::string refusal(const std::string& folder) const {
    const auto error = thrown_by<IoError>([&] { write(folder); });
    return error ? error->what() : "";
  }
  std::string read(const std::string& file) const { return file_bytes(folder_ / file); }

  TempFolder folder_;
  ScopedEnvironment environment_{kHubSettings};
  Names names_{"config.json", "weights", "packed", "tokenizer.json"};
  ReadFrom from_;
};

TEST_F(OwnFolderTest, ANewAndAnEmptyFolderAreWritten) {
  std::filesystem::create_directory(folder_ / "empty");
  for (const char* folder : {"empty", "new", "new/er/still"}) {
    write(folder);
    EXPECT_EQ(read(std::string(folder) + "/weights"), "new weights");
  }
  EXPECT_EQ(names_left_in(folder_ / "empty"), (Names{"config.json", "weights"}));
}

TEST_F(OwnFolderTest, AFolderThatIsNotFinishedIsAsBefore) {
  std::filesystem::create_directory(folder_ / "empty");
  for (const char* folder : {"empty", "new", "newer/still/"}) {
    OwnFolder made(folder_ / folder, native_folder(names_), from_);
    made.add("weights", "new weights");
  }
  EXPECT_EQ(names_left_in(folder_ / ""), Names{"empty"});
  EXPECT_EQ(names_left_in(folder_ / "empty"), Names{});
}

TEST_F(OwnFolderTest, WhatWasSavedBeforeGoesAltogether) {
  make_own("own");
  make("own", "packed");
  make("own", "tokenizer.json");
  make("own", ".hooked-1-2-0.partial");  // of a program that was killed
  write("own");
  EXPECT_EQ(names_left_in(folder_ / "own"), (Names{"config.json", "weights"}));
  EXPECT_EQ(read("own/weights"), "new weights");
  make("killed", ".hooked-1-2-0.partial");
  write("killed");
  EXPECT_EQ(names_left_in(folder_ / "killed"), (Names{"config.json", "weights"}));
}

TEST_F(OwnFolderTest, TheFirstFileOfOthersIsNamed) {
  const auto foreign = [&](const std::string& file, std::string_view text = "text") {
    make_own("own");
    make("own", file, text);
    const auto said = refusal("own");
    EXPECT_EQ(read("own/" + file), text);
    EXPECT_EQ(read("own/weights"), file == "weights" ? text : "old weights");
    std::filesystem::remove_all(folder_ / "own");
    return said;
  };
  EXPECT_THAT(foreign("README.md"), HasSubstr("the folder holds 'README.md', which hooked did not write"));
  EXPECT_THAT(foreign(".git/HEAD"), HasSubstr("'.git'"));
  EXPECT_THAT(foreign("weights-00001-of-00002"), HasSubstr("'weights-00001-of-00002'"));
  // Configs of others: of Hugging Face, of TransformerLens, and what is not a config at all.
  for (const char* config :
       {R"({"model_type": "gpt2"})", R"({"model_type": "hooked_transformer"})",
        R"({"model_type": "hooked_transformer", "hooked": {"dtype": "float32"}})", "[1]", "{", ""}) {
    EXPECT_THAT(foreign("config.json", config), HasSubstr("'config.json'")) << config;
  }
}

TEST_F(OwnFolderTest, AFolderWithoutAConfigIsOfOthers) {
  make("other", "weights");
  make("other", "a");
  EXPECT_THAT(refusal("other"), HasSubstr("'a'"));
}

TEST_F(OwnFolderTest, LinksAndFoldersAreOfOthersByWhateverName) {
  make_own("own");
  std::filesystem::create_symlink("weights", folder_ / "own/packed");
  EXPECT_THAT(refusal("own"), HasSubstr("'packed'"));
  std::filesystem::remove(folder_ / "own/packed");
  std::filesystem::create_directory(folder_ / "own/packed");
  EXPECT_THAT(refusal("own"), HasSubstr("'packed'"));
  make_own("linked");
  std::filesystem::rename(folder_ / "linked/config.json", folder_ / "config");
  std::filesystem::create_symlink("../config", folder_ / "linked/config.json");
  EXPECT_THAT(refusal("linked"), HasSubstr("'config.json'"));
}

TEST_F(OwnFolderTest, WhatIsNotCommittedLeavesTheFolderWhole) {
  make_own("own");
  const auto before = read("own/config.json");
  {
    OwnFolder made(folder_ / "own", native_folder(names_), from_);
    made.add("weights", "new weights");
    made.add("config.json", "half");
  }
  EXPECT_EQ(names_left_in(folder_ / "own"), (Names{"config.json", "weights"}));
  EXPECT_EQ(read("own/weights"), "old weights");
  EXPECT_EQ(read("own/config.json"), before);
}

TEST_F(OwnFolderTest, WhatIsReadIsNotWrittenToByAnyOfItsNames) {
  make_own("own");
  from_.folders = {folder_ / "own"};
  std::filesystem::create_directory_symlink("own", folder_ / "link");
  std::filesystem::create_directory(folder_ / "sub");
  for (const char* name : {"own", "own/", "own/.", "sub/../own", "link", "link/"})
    EXPECT_THAT(refusal(name), HasSubstr("from which the model was read")) << name;
  EXPECT_EQ(read("own/weights"), "old weights");
  // A folder whose weights are read through links of another one.
  from_.folders.clear();
  for (const bool hard : {false, true}) {
    SCOPED_TRACE(hard);
    const auto link = folder_ / (hard ? "hard" : "symbolic");
    if (hard) {
      std::filesystem::create_hard_link(folder_ / "own/weights", link);
    } else {
      std::filesystem::create_symlink("own/weights", link);
    }
    from_.files = {link};
    EXPECT_THAT(refusal("own"), AllOf(HasSubstr("own/weights"), HasSubstr("which is read")));
  }
}

TEST_F(OwnFolderTest, AHubCacheIsNotWrittenTo) {
  environment_.set("HF_HUB_CACHE", (folder_ / "hub").native());
  make_own("hub/mine");
  make_own("elsewhere/models--org--name/snapshots/c0ffee");
  std::filesystem::create_directory_symlink("elsewhere/models--org--name/snapshots/c0ffee", folder_ / "link");
  for (const char* name : {"hub", "hub/new", "hub/mine", "elsewhere/models--org--name/snapshots/c0ffee",
                           "elsewhere/models--org--name/snapshots/new", "link"})
    EXPECT_THAT(refusal(name), HasSubstr("inside the Hugging Face cache")) << name;
}

TEST_F(OwnFolderTest, AFolderThatCannotBeMadeIsRefusedBeforeAnythingIsWritten) {
  put_file(folder_ / "file", "text");
  std::filesystem::create_symlink("nowhere", folder_ / "dangling");
  for (const char* name : {"file", "file/new", "dangling", "dangling/new"}) {
    EXPECT_THAT(
        text_thrown_by<IoError>([&] { require_own_folder(folder_ / name, native_folder(names_), from_); }),
        HasSubstr("the folder could not be made (Not a directory)"))
        << name;
  }
  EXPECT_EQ(names_left_in(folder_.path()), (Names{"dangling", "file"}));
}

}  // namespace
}  // namespace hooked::own_folder_test
