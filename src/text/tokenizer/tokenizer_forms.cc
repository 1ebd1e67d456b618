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
#include "text/tokenizer/byte_ranks.h"
#include "text/tokenizer/sentencepiece_folder.h"
#include "text/tokenizer/word_lists.h"

namespace hooked::text {
namespace {

using Path = std::filesystem::path;

Tokenizer::Rules read_json_form(const std::vector<Path>& files, const SideFiles& beside) {
  return read_tokenizer(read_tokenizer_bytes(files[0]), files[0].native(), beside);
}

Tokenizer::Rules read_tekken_form(const std::vector<Path>& files, const SideFiles&) {
  return read_tekken(read_tokenizer_bytes(files[0]), files[0].native());
}

// SentencePiece's protobuf, or Llama 3's file of the same name: a tiktoken file.
Tokenizer::Rules read_model_form(const std::vector<Path>& files, const SideFiles& beside) {
  const auto bytes = read_tokenizer_bytes(files[0]);
  if (looks_like_tiktoken(bytes)) return read_tiktoken(bytes, files[0].native(), beside);
  auto rules = read_sentencepiece(bytes, files[0].native(), beside);
  rules.form = fmt::format("{} (SentencePiece)", files[0].filename().native());
  return rules;
}

Tokenizer::Rules read_tiktoken_form(const std::vector<Path>& files, const SideFiles& beside) {
  return read_tiktoken(read_tokenizer_bytes(files[0]), files[0].native(), beside);
}

Tokenizer::Rules read_pair_form(const std::vector<Path>& files, const SideFiles& beside) {
  // Errors name the member of the tokenizer.json that these two files replace.
  return read_vocabulary_and_merges(read_tokenizer_bytes(files[0]), read_tokenizer_bytes(files[1]),
                                    fmt::format("{} and {}", files[0].native(), files[1].filename().native()),
                                    beside);
}

Tokenizer::Rules read_word_list_form(const std::vector<Path>& files, const SideFiles& beside) {
  return read_word_list(read_tokenizer_bytes(files[0]), files[0].native(), beside);
}

// A way to store a tokenizer.
struct Form {
  std::array<std::string_view, 2> files;  // the second may be empty
  Tokenizer::Rules (*read)(const std::vector<Path>& files, const SideFiles& beside);
};

// In the order in which a folder is searched for them.
constexpr Form kForms[] = {
    {{"tokenizer.json"}, read_json_form},           {{"tekken.json"}, read_tekken_form},
    {{"tokenizer.model"}, read_model_form},         {{"spiece.model"}, read_model_form},
    {{"sentencepiece.bpe.model"}, read_model_form}, {{"qwen.tiktoken"}, read_tiktoken_form},
    {{"cl100k_base.tiktoken"}, read_tiktoken_form}, {{"o200k_base.tiktoken"}, read_tiktoken_form},
    {{"vocab.json", "merges.txt"}, read_pair_form}, {{"encoder.json", "vocab.bpe"}, read_pair_form},
    {{"vocab.txt"}, read_word_list_form},
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
    return (form == std::end(kForms) ? kJsonForm : *form).read({path}, {});
  }
  const auto* form = form_in(path);
  if (!form) refuse_folder(path);
  std::vector<Path> files{path / form->files[0]};
  if (!form->files[1].empty()) files.push_back(path / form->files[1]);
  const auto beside = SideFiles::read(path);
  auto rules = form->read(files, beside);
  rules.take_text_options(beside);
  rules.take_chat(read_chat_templates(path));
  return rules;
}

}  // namespace hooked::text
