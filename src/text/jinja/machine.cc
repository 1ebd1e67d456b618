#include "text/jinja/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

std::string with_plain_newlines(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      plain += text[i];
      continue;
    }
    plain += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

}  // namespace

Source::Source(std::string_view text, std::string_view name, const Limits& limits) : name_(name) {
  if (text.size() > limits.template_bytes) {
    throw TokenizerError(printable(name_), fmt::format("the chat template has {} bytes; expected at most {}",
                                                       text.size(), limits.template_bytes));
  }
  if (const auto byte = first_invalid_byte(text)) {
    throw TokenizerError(
        printable(name_),
        fmt::format("the chat template is not UTF-8 at byte {}; expected a text file in UTF-8", *byte));
  }
  text_ = with_plain_newlines(text);
}

std::string Source::place(std::size_t at) const {
  const auto before = std::string_view(text_).substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_begin = before.rfind('\n') + 1;  // 0 on the first line
  return fmt::format("{}:{}:{}", printable(name_), line, 1 + count_characters(before.substr(line_begin)));
}

void Source::fail(std::size_t at, std::string_view what) const { throw TokenizerError(place(at), what); }

void Machine::unsupported(std::string_view what) const {
  fail(fmt::format(
      "{} is not read here; expected the constructs of Jinja that docs/tokenizers.md lists; render the "
      "conversation in Python (apply_chat_template) and pass its text",
      what));
}

void Machine::too_much_work() const {
  fail(fmt::format("the chat template takes too many steps; expected at most {}; it may not end",
                   limits_.steps));
}

void Machine::too_much_memory() const {
  fail(fmt::format("the chat template makes too many values; expected at most {} bytes in all",
                   limits_.bytes));
}

void Machine::too_deep() {
  --depth_;  // the level that is refused is not entered
  fail(fmt::format(
      "the chat template's macros, loops and expressions are nested too deep; expected at most {} levels",
      limits_.depth));
}

int Machine::depth_of(const Value& value) const noexcept {
  if (const auto* list = value.list()) return list->depth;
  if (const auto* dict = value.dict()) return dict->depth;
  if (const auto* method = value.as<std::shared_ptr<const Method>>()) return depth_of((*method)->self);
  return 0;
}

void Machine::check_depth(int depth) const {
  if (depth <= limits_.value_depth) return;
  fail(fmt::format("lists and dicts are nested too deep; expected at most {} levels", limits_.value_depth));
}

Value Machine::text(std::string text) {
  charge(text.size() + 1);
  return Text(std::make_shared<const std::string>(std::move(text)));
}

Value Machine::list(std::vector<Value> items, ListKind kind) {
  charge(items.size() * sizeof(Value) + sizeof(List));
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, depth_of(item));
  check_depth(depth + 1);
  return std::make_shared<const List>(List{.items = std::move(items), .kind = kind, .depth = depth + 1});
}

Value Machine::dict(std::vector<std::pair<Value, Value>> members) {
  charge(members.size() * 2 * sizeof(Value) + sizeof(Dict));
  int depth = 0;
  for (const auto& [key, value] : members) depth = std::max({depth, depth_of(key), depth_of(value)});
  check_depth(depth + 1);
  return std::make_shared<const Dict>(Dict{.members = std::move(members), .depth = depth + 1});
}

Value Machine::undefined(std::string why) {
  charge(why.size());
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

Value Machine::undefined_name(std::string_view name) {
  return undefined(fmt::format("'{}' is undefined", printable(name)));
}

Namespace* Machine::new_namespace() {
  charge(sizeof(Namespace));
  return &namespaces_.emplace_back();
}

Value Machine::own(std::unique_ptr<Callable> callable) {
  charge(256);
  return callables_.emplace_back(std::move(callable)).get();
}

}  // namespace hooked::text::jinja
