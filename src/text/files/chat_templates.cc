#include "text/files/chat_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <system_error>

#include "core/json.h"
#include "text/files/limited_files.h"
#include "text/jinja/template.h"

namespace hooked::text {
namespace {

constexpr std::string_view kDefault = "default", kToolUse = "tool_use";

// What transformers calls the special tokens that templates may read.
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

// Names that options other than `variables` give to a template.
constexpr std::string_view kGivenNames[] = {"messages", "tools", "documents", "add_generation_prompt"};

// Parses the JSON of an option or of a message's members.
Json read_option(std::string_view text, std::string_view where, Json::value_t type) {
  try {
    auto json = parse_json(text, {.bytes = kSideFileBytes});
    if (type != Json::value_t::null && json.type() != type) {
      throw std::invalid_argument(fmt::format("is {}; expected {}", json_kind(json), json_kind(Json(type))));
    }
    return json;
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(where, reason.what());
  }
}

[[noreturn]] void refuse_form(const std::string& where, const Json& json) {
  throw TokenizerError(
      where, fmt::format("is {}; expected a template's text or a list of objects with name and template",
                         json_kind(json)));
}

std::string text_member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string()) refuse_form(where, object);
  return found->get<std::string>();
}

// The templates of a member `chat_template`: one, or a list of named ones.
void add_templates(const Json& json, const std::string& where, ChatTemplates& chat) {
  if (json.is_string()) {
    chat.templates.push_back({std::string(kDefault), where, json.get<std::string>()});
    return;
  }
  if (!json.is_array()) refuse_form(where, json);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto place = fmt::format("{}[{}]", where, i);
    chat.templates.push_back(
        {text_member(json[i], "name", place), place + ".template", text_member(json[i], "template", place)});
  }
}

// Reads those of the file `name`, which replace the ones that are already known.
void add_special_tokens(const Json& config, const std::string& name, ChatTemplates& chat) {
  for (const auto key : kSpecialTokens) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    std::erase_if(chat.special_tokens, [&](const auto& token) { return token.first == key; });
    const Json* content = &*found;
    if (content->is_object() && content->contains("content")) content = &content->at("content");
    if (!content->is_string()) {
      throw TokenizerError(
          fmt::format("{}: {}", name, key),
          fmt::format("is {}; expected a text, or an object whose content is one", json_kind(*content)));
    }
    chat.special_tokens.emplace_back(key, content->get<std::string>());
  }
}

// Reads those of the member `chat_template`, unless there are some already.
void add_member(const Json& json, const std::string& name, ChatTemplates& chat) {
  const auto found = json.find("chat_template");
  if (!chat.templates.empty() || found == json.end() || found->is_null()) return;
  add_templates(*found, name + ": chat_template", chat);
}

void read_files(const std::filesystem::path& folder, ChatTemplates& chat) {
  const auto config_file = folder / "tokenizer_config.json";
  const auto map_file = folder / "special_tokens_map.json";
  const auto own_file = folder / kChatTemplateFiles[0];
  if (is_there(own_file)) {
    chat.templates.push_back({std::string(kDefault), own_file.native(), read_limited(own_file)});
    require_utf8(chat.templates.back().text, printable(own_file.native()));
  }
  bool listed = false;
  if (is_there(config_file)) {
    const Json config = read_object(read_limited(config_file), config_file.native());
    add_special_tokens(config, printable(config_file.native()), chat);
    add_member(config, printable(config_file.native()), chat);
    listed = config.contains("added_tokens_decoder");
  }
  // As in transformers, which reads it for files that do not list their added tokens themselves.
  if (!listed && is_there(map_file))
    add_special_tokens(read_object(read_limited(map_file), map_file.native()), printable(map_file.native()),
                       chat);
  const auto other_file = folder / kChatTemplateFiles[1];
  if (chat.templates.empty() && is_there(other_file)) {
    add_member(read_object(read_limited(other_file), other_file.native()), printable(other_file.native()),
               chat);
  }
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / "additional_chat_templates", ignored)) {
    if (entry.path().extension() == ".jinja") chat.unread.push_back(entry.path().stem().native());
  }
  std::ranges::sort(chat.unread);
}

// A message as transformers passes it to a template: without members that are null, and with its reasoning
// under the names that templates know.
Json message_json(const ChatMessage& message, std::size_t number) {
  const auto where = fmt::format("messages[{}]", number);
  require_utf8(message.role, where + ".role");
  require_utf8(message.content, where + ".content");
  Json all = {{"role", message.role}, {"content", message.content}};
  if (!message.members.empty()) {
    const Json members = read_option(message.members, where + ".members", Json::value_t::object);
    for (const auto& [key, value] : members.items()) all[key] = value;
  }
  Json kept = Json::object();
  const Json* thought = nullptr;
  for (const auto* key : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = all.find(key);
    if (!thought && found != all.end() && !found->is_null()) thought = &*found;
  }
  if (thought) kept["thinking"] = *thought;
  for (const auto& [key, value] : all.items()) {
    if (!value.is_null()) kept[key] = value;
  }
  if (thought) kept["reasoning_content"] = *thought;
  return kept;
}

// The result of `read`, or why it cannot be used: callers without a conversation need no template.
template <class Read>
ChatTemplates templates_by(const Read& read) {
  ChatTemplates chat;
  try {
    read(chat);
  } catch (const TokenizerError& error) {
    chat.problem = error;
  } catch (const IoError& error) {
    chat.problem = TokenizerError(error.where(), error.message());
  }
  return chat;
}

}  // namespace

ChatTemplates read_chat_templates(const std::filesystem::path& folder) {
  return templates_by([&](ChatTemplates& chat) { read_files(folder, chat); });
}

ChatTemplates chat_templates_of(std::string_view config, std::string_view name) {
  return templates_by([&](ChatTemplates& chat) {
    const Json json = read_object(config, name);
    add_special_tokens(json, printable(name), chat);
    add_member(json, printable(name), chat);
  });
}

const ChatTemplates::Template& ChatTemplates::chosen(const ChatOptions& options) const {
  if (problem) throw *problem;
  const auto named = [&](std::string_view name) {
    return std::ranges::find(templates, name, &Template::name);
  };
  const auto is_unread = [&](std::string_view name) {
    return std::ranges::find(unread, name) != unread.end();
  };
  auto name = options.template_name;
  if (name.empty()) {
    const bool tools_apart =
        !options.tools.empty() && (named(kToolUse) != templates.end() || is_unread(kToolUse));
    name = tools_apart ? kToolUse : kDefault;
  }
  if (is_unread(name)) {
    throw TokenizerError("chat template",
                         fmt::format("'{}' is in additional_chat_templates, which is not read; expected a "
                                     "template of chat_template.jinja or tokenizer_config.json",
                                     printable(name)));
  }
  if (const auto found = named(name); found != templates.end()) return *found;
  std::vector<std::string_view> names;
  for (const auto& each : templates) names.push_back(each.name);
  if (names.empty()) {
    throw TokenizerError(
        "chat template",
        "this tokenizer has no chat template; expected chat_template.jinja, or a chat_template in "
        "tokenizer_config.json; pass the text that the model was trained on instead");
  }
  throw TokenizerError("chat template",
                       fmt::format("there is no template '{}'; expected one of {}", printable(name),
                                   printable(fmt::format("{}", fmt::join(names, ", ")))));
}

std::string ChatTemplates::render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const {
  const auto& chosen_one = chosen(options);
  if (messages.empty())
    throw TokenizerError("messages", "the conversation is empty; expected at least one message");
  std::vector<std::pair<std::string, Json>> variables;
  for (const auto& [name, value] : options.variables) {
    const auto where = fmt::format("variables.{}", printable(name));
    if (std::ranges::find(kGivenNames, name) != std::end(kGivenNames)) {
      throw TokenizerError(where, "has an option of its own; expected another name");
    }
    variables.emplace_back(name, read_option(value, where, Json::value_t::null));
  }
  for (const auto& [name, spelling] : special_tokens) {
    const auto given = std::ranges::find(variables, name, [](const auto& pair) { return pair.first; });
    if (given == variables.end()) variables.emplace_back(name, spelling);
  }
  auto list = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) list.push_back(message_json(messages[i], i));
  const auto optional_list = [](const std::string& json, const char* where) {
    return json.empty() ? Json() : read_option(json, where, Json::value_t::array);
  };
  variables.emplace_back("messages", std::move(list));
  variables.emplace_back("tools", optional_list(options.tools, "tools"));
  variables.emplace_back("documents", optional_list(options.documents, "documents"));
  variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
  return jinja::Template(chosen_one.text, chosen_one.where).render(variables, options.time);
}

}  // namespace hooked::text
