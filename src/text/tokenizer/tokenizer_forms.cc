#include "text/tokenizer/tokenizer_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <system_error>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/files/chat_templates.h"
#include "text/files/limited_files.h"
#include "text/files/side_files.h"

namespace hooked::text {
namespace {

using Path = std::filesystem::path;

// SentencePiece's protobuf, or Llama 3's file of the same name: a tiktoken file.
Tokenizer::Rules read_model_file(std::string_view bytes, std::string_view name, const SideFiles& beside) {
  if (looks_like_tiktoken(bytes)) return read_tiktoken(bytes, name, beside);
  auto rules = read_sentencepiece(bytes, name, beside);
  rules.form = fmt::format("{} (SentencePiece)", Path(name).filename().native());
  return rules;
}

// A way to store a tokenizer: in one file, or as a vocabulary and merges in two.
struct Form {
  std::array<std::string_view, 2> files;  // the second may be empty
  // Reads a form of one file; null for a vocabulary and merges.
  Tokenizer::Rules (*read_file)(std::string_view bytes, std::string_view name,
                                const SideFiles& beside) = nullptr;

  // Reads it from `file`, and from the second file next to that if there is one.
  Tokenizer::Rules read(const Path& file, const SideFiles& beside) const {
    const auto bytes = read_tokenizer_bytes(file);
    if (read_file) return read_file(bytes, file.native(), beside);
    // Errors name the member of the tokenizer.json that these two files replace.
    return read_vocabulary_and_merges(bytes, read_tokenizer_bytes(file.parent_path() / files[1]),
                                      fmt::format("{} and {}", file.native(), files[1]), beside);
  }
};

// In the order in which a folder is searched for them.
constexpr Form kForms[] = {
    {{"tokenizer.json"}, read_tokenizer},
    {{"tekken.json"}, read_tekken},
    {{"tokenizer.model"}, read_model_file},
    {{"spiece.model"}, read_model_file},
    {{"sentencepiece.bpe.model"}, read_model_file},
    {{"qwen.tiktoken"}, read_tiktoken},
    {{"cl100k_base.tiktoken"}, read_tiktoken},
    {{"o200k_base.tiktoken"}, read_tiktoken},
    {{"vocab.json", "merges.txt"}},
    {{"encoder.json", "vocab.bpe"}},
    {{"vocab.txt"}, read_word_list},
};
constexpr const Form& kJsonForm = kForms[0];

const Form* form_in(const Path& folder) {
  const auto found = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) {
    return is_there(folder / form.files[0]) && (form.files[1].empty() || is_there(folder / form.files[1]));
  });
  return found == std::end(kForms) ? nullptr : &*found;
}

[[noreturn]] void refuse_folder(const Path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".tiktoken") continue;
    throw TokenizerError(
        printable(entry.path().native()),
        "is a file of tiktoken under a name whose pattern of words is not known; expected "
        "qwen.tiktoken, cl100k_base.tiktoken, o200k_base.tiktoken, or tokenizer.model of Llama 3");
  }
  std::string names;
  for (const auto& form : kForms) {
    names += (names.empty() ? "" : ", ") + std::string(form.files[0]);
    if (!form.files[1].empty()) names += " with " + std::string(form.files[1]);
  }
  throw TokenizerError(
      printable(folder.native()),
      fmt::format(
          "has no tokenizer; expected one of these files in this folder: {}; pass token ids instead of text",
          names));
}

}  // namespace

std::vector<std::string> tokenizer_files_in(const Path& folder) {
  std::vector<std::string> files;
  const auto* form = form_in(folder);
  if (!form) return files;
  for (const auto name : form->files) {
    if (!name.empty()) files.emplace_back(name);
  }
  for (const auto name : SideFiles::kNames) {
    if (is_there(folder / name)) files.emplace_back(name);
  }
  for (const auto name : kChatTemplateFiles) {
    if (is_there(folder / name)) files.emplace_back(name);
  }
  return files;
}

bool is_for_chats_alone(std::string_view name) {
  return std::ranges::find(kChatTemplateFiles, name) != std::end(kChatTemplateFiles);
}

std::span<const std::string_view> tokenizer_file_names() noexcept {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const auto& form : kForms) {
      for (const auto name : form.files) {
        if (!name.empty()) names.push_back(name);
      }
    }
    names.insert(names.end(), SideFiles::kNames.begin(), SideFiles::kNames.end());
    names.insert(names.end(), std::begin(kChatTemplateFiles), std::end(kChatTemplateFiles));
    return names;
  }();
  return kNames;
}

Tokenizer::Rules read_tokenizer_at(const Path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    const auto name = path.filename().native();
    const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& row) {
      return row.files[0] == name && row.files[1].empty();
    });
    return (form == std::end(kForms) ? kJsonForm : *form).read(path, {});
  }
  const auto* form = form_in(path);
  if (!form) refuse_folder(path);
  const auto beside = SideFiles::read(path);
  auto rules = form->read(path / form->files[0], beside);
  rules.take_text_options(beside);
  rules.take_chat(read_chat_templates(path));
  return rules;
}

}  // namespace hooked::text
