#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/text/chat.h"

namespace hooked::text {

/// The chat templates of a repository, and what they read in addition to the messages.
struct ChatTemplates {
  struct Template {
    std::string name;   ///< `default` for the only one
    std::string where;  ///< the file, and the key in it
    std::string text;
  };
  std::vector<Template> templates;
  std::vector<std::pair<std::string, std::string>>
      special_tokens;                     ///< `bos_token` and its like, and their spellings
  std::vector<std::string> unread;        ///< names of those in additional_chat_templates, which are not read
  std::optional<TokenizerError> problem;  ///< why the existing ones cannot be used

  /// The text of a conversation. Throws TokenizerError with the place in the template or in the messages.
  std::string render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const;

  /// The template that these options select. Throws TokenizerError.
  const Template& chosen(const ChatOptions& options) const;
};

/// Names of the files that have only chat templates, in order of precedence.
inline constexpr std::string_view kChatTemplateFiles[] = {"chat_template.jinja", "chat_template.json"};

/// Reads chat_template.jinja, else the `chat_template` of tokenizer_config.json, else that of
/// chat_template.json. A template is parsed only when it is used, and a file that cannot be read is the
/// `problem`.
ChatTemplates read_chat_templates(const std::filesystem::path& folder);

/// The templates in the text of a tokenizer_config.json, which errors call `name`.
ChatTemplates chat_templates_of(std::string_view config, std::string_view name);

}  // namespace hooked::text
