#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// One message of a conversation.
struct ChatMessage {
  std::string role;     ///< `system`, `user`, `assistant` and others that the template knows
  std::string content;  ///< the text of the message
  /// A JSON object of further members, such as `{"tool_calls": [...]}`; empty: none. A member called `role`
  /// or `content` replaces the one above, for contents that are lists.
  std::string members = {};
};

/// How a conversation becomes text. For designated initialisers.
struct ChatOptions {
  bool add_generation_prompt = false;  ///< whether the text ends with the beginning of an answer
  std::string tools = {};              ///< a JSON array of tools' schemas; empty: none
  std::string documents = {};          ///< a JSON array of documents; empty: none
  /// Further variables that the template reads: names, and values as JSON, such as `{"enable_thinking",
  /// "false"}`.
  std::vector<std::pair<std::string, std::string>> variables = {};
  /// Which template, if a repository has several; empty: `default`, or `tool_use` with tools.
  std::string template_name = {};
  /// The time for templates that write the date, in seconds since 1970; absent: the clock's. The date is that
  /// of the local time zone.
  std::optional<std::int64_t> time = std::nullopt;
};

}  // namespace hooked
