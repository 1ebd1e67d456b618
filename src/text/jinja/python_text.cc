#include "text/jinja/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/utf8.h"
#include "text/unicode/letter_case.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

// A quoted text, as repr() spells it.
std::string between_quotes(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string result(1, quote);
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      result += '\\';
      result += bytes;
    } else if (c == U'\n') {
      result += "\\n";
    } else if (c == U'\r') {
      result += "\\r";
    } else if (c == U'\t') {
      result += "\\t";
    } else if (is_printable(c)) {
      result += bytes;
    } else if (c < 0x100) {
      result += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    } else if (c < 0x10000) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      result += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
    }
  });
  return result + quote;
}

// Python's repr() of a value, as in a printed list.
void append_repr(Machine& machine, const Value& value, std::string& result);

void append_items(Machine& machine, const std::vector<Value>& items, std::string_view open,
                  std::string_view close, std::string& result) {
  result += open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result += ", ";
    append_repr(machine, items[i], result);
  }
  result += close;
}

void append_list(Machine& machine, const Value& value, std::string& result) {
  const List& list = *value.list();
  switch (list.kind) {
    case ListKind::list:
      return append_items(machine, list.items, "[", "]", result);
    case ListKind::tuple:
      return append_items(machine, list.items, "(", list.items.size() == 1 ? ",)" : ")", result);
    case ListKind::range:
      result += fmt::format("range({}, {}", list.range.start, list.range.stop);
      result += list.range.step == 1 ? ")" : fmt::format(", {})", list.range.step);
      return;
    case ListKind::keys:
    case ListKind::values:
    case ListKind::items:
      result += type_name(value);
      return append_items(machine, list.items, "([", "])", result);
    case ListKind::generator:
      machine.unsupported("printing what a filter such as map gives, without `| list`,");
  }
}

void append_repr(Machine& machine, const Value& value, std::string& result) {
  machine.step();
  const auto before = result.size();
  if (value.is<Undefined>()) {
    result += "Undefined";
  } else if (value.is<None>()) {
    result += "None";
  } else if (const auto* truth = value.as<bool>()) {
    result += *truth ? "True" : "False";
  } else if (const auto* integer = value.as<std::int64_t>()) {
    result += std::to_string(*integer);
  } else if (const auto* number = value.as<double>()) {
    result += float_text(*number);
  } else if (const auto* text = value.text()) {
    result += between_quotes(*text);
    machine.charge(result.size() - before);
  } else if (value.list()) {
    append_list(machine, value, result);
  } else if (const auto* dict = value.dict()) {
    result += '{';
    std::string_view separator;
    for (const auto& [key, member] : dict->members) {
      result += separator;
      append_repr(machine, key, result);
      result += ": ";
      append_repr(machine, member, result);
      separator = ", ";
    }
    result += '}';
  } else {
    machine.unsupported(fmt::format("printing a {}", type_name(value)));
  }
}

void append_json_string(std::string_view text, bool ensure_ascii, std::string& result) {
  result += '"';
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const auto escape = bytes.size() == 1 ? kEscaped.find(bytes[0]) : kEscaped.npos;
    if (escape != kEscaped.npos) {
      result += '\\';
      result += kLetters[escape];
    } else if (c >= 0x20 && (!ensure_ascii || c < 0x7F)) {
      result += bytes;
    } else if (c < 0x10000) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      const auto rest = static_cast<std::uint32_t>(c) - 0x10000;
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  });
  result += '"';
}

std::string json_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return float_text(number);
}

// Null, a boolean or a number as JSON; nothing for other values.
std::optional<std::string> plain_json(const Value& value) {
  if (value.is<None>()) return "null";
  if (const auto* truth = value.as<bool>()) return *truth ? "true" : "false";
  if (const auto* integer = value.as<std::int64_t>()) return std::to_string(*integer);
  if (const auto* number = value.as<double>()) return json_number(*number);
  return std::nullopt;
}

class JsonWriter {
 public:
  JsonWriter(Machine& machine, const JsonStyle& style) : machine_(machine), style_(style) {}

  void write(const Value& value, int level) {
    machine_.step();
    const auto before = result_.size();
    if (const auto plain = plain_json(value)) {
      result_ += *plain;
    } else if (const auto* text = value.text()) {
      append_json_string(*text, style_.ensure_ascii, result_);
      machine_.charge(result_.size() - before);
    } else if (value.list(ListKind::list) || value.list(ListKind::tuple)) {
      const auto& items = value.list()->items;
      write_group('[', ']', items.size(), level, [&](std::size_t i) { write(items[i], level + 1); });
    } else if (const auto* dict = value.dict()) {
      write_dict(*dict, level);
    } else {
      machine_.fail(fmt::format(
          "a value of type {} cannot be written as JSON; expected texts, numbers, booleans, lists and dicts",
          type_name(value)));
    }
  }

  std::string take() { return std::move(result_); }

 private:
  void write_dict(const Dict& dict, int level) {
    std::vector<std::pair<std::string, const Value*>> members;
    members.reserve(dict.members.size());
    for (const auto& [key, member] : dict.members) members.emplace_back(key_text(key), &member);
    if (style_.sort_keys) {
      machine_.step(members.size() * 8);
      std::stable_sort(members.begin(), members.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    write_group('{', '}', members.size(), level, [&](std::size_t i) {
      append_json_string(members[i].first, style_.ensure_ascii, result_);
      result_ += style_.behind_key;
      write(*members[i].second, level + 1);
    });
  }

  template <class WriteItem>
  void write_group(char open, char close, std::size_t count, int level, WriteItem write_item) {
    result_ += open;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) result_ += style_.between_items;
      if (style_.indent) new_line(level + 1);
      write_item(i);
    }
    if (style_.indent && count > 0) new_line(level);
    result_ += close;
    machine_.charge(style_.between_items.size() * count);
  }

  void new_line(int level) {
    machine_.charge(style_.indent->size() * static_cast<std::size_t>(level) + 1);
    result_ += '\n';
    for (int i = 0; i < level; ++i) result_ += *style_.indent;
  }

  std::string key_text(const Value& key) {
    if (const auto* text = key.text()) return *text;
    if (auto plain = plain_json(key)) return *std::move(plain);
    machine_.fail(fmt::format("a key of type {} cannot be written as JSON; expected a text", type_name(key)));
  }

  Machine& machine_;
  const JsonStyle& style_;
  std::string result_;
};

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  auto text = fmt::format("{}", number);  // Python's digits and exponents, but for whole numbers
  if (std::isfinite(number) && text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string text_of(Machine& machine, const Value& value) {
  if (const auto* text = value.text()) {
    machine.charge(text->size());
    return *text;
  }
  std::string result;
  if (!value.is<Undefined>()) append_repr(machine, value, result);
  return result;
}

std::string json_of(Machine& machine, const Value& value, const JsonStyle& style) {
  JsonWriter writer(machine, style);
  writer.write(value, 0);
  return writer.take();
}

bool is_python_space(char32_t character) noexcept {
  return is_space(character) || (character >= 0x1C && character <= 0x1F);
}

std::string_view stripped(std::string_view text, Side side, const std::optional<std::string>& characters) {
  const auto goes = [&](char32_t c, std::string_view bytes) {
    return characters ? characters->find(bytes) != std::string::npos : is_python_space(c);
  };
  while (side != Side::right && !text.empty()) {
    const auto first = *first_char(text);
    if (!goes(first.code_point, text.substr(0, first.bytes))) break;
    text.remove_prefix(first.bytes);
  }
  while (side != Side::left && !text.empty()) {
    const auto begin = last_character(text);
    if (!goes(first_char(text.substr(begin))->code_point, text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::string in_case(std::string_view text, Case which) {
  std::string result;
  result.reserve(text.size());
  const auto append = [&](const std::vector<char32_t>& characters) {
    for (const char32_t c : characters) append_utf8(result, c);
  };
  bool inside = false;  // after a cased character
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const auto here = static_cast<std::size_t>(bytes.data() - text.data());
    const auto lower = [&] { c == U'\u03A3' ? append({lower_sigma(text, here)}) : append(lower_case(c)); };
    switch (which) {
      case Case::upper:
        return append(upper_case(c));
      case Case::lower:
        return lower();
      case Case::title:
      case Case::capitalize:
        inside ? lower() : append(title_case(c));
        inside = which == Case::capitalize || is_cased(c);
    }
  });
  return result;
}

std::size_t byte_of_character(std::string_view text, std::size_t character) noexcept {
  std::size_t at = 0;
  while (at < text.size() && character > 0) {
    at += std::max<std::size_t>(1, utf8_length(text.substr(at)));
    --character;
  }
  return std::min(at, text.size());
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = *first_char(text.substr(at));
    const bool ends = (c.code_point >= 0x0A && c.code_point <= 0x0D) ||
                      (c.code_point >= 0x1C && c.code_point <= 0x1E) || c.code_point == 0x85 ||
                      c.code_point == 0x2028 || c.code_point == 0x2029;
    const auto end = at;
    at += c.bytes;
    if (!ends) continue;
    if (c.code_point == U'\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::size_t find_in(std::string_view text, std::string_view part, std::size_t begin) noexcept {
  if (begin > text.size()) return std::string_view::npos;
  if (part.empty()) return begin;
  // glibc's memmem is linear, while std::string_view::find is quadratic at worst; find is as good for short
  // texts, and faster if sanitizers watch memmem.
  constexpr std::size_t kShort = 16;
  if (part.size() <= kShort) return text.find(part, begin);
  const void* found = memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data())
               : std::string_view::npos;
}

std::string replaced(Machine& machine, std::string_view text, std::string_view old, std::string_view with,
                     std::int64_t count) {
  std::string result;
  std::size_t begin = 0;
  const auto left = [&] { return count < 0 || count-- > 0; };
  machine.read(text.size());
  // An empty text is found before each character and at the end.
  const auto step = [&](std::size_t at) {
    return old.empty() ? std::max<std::size_t>(1, at < text.size() ? utf8_length(text.substr(at)) : 1) : 0;
  };
  for (std::size_t at = 0; at <= text.size();) {
    const auto found = find_in(text, old, at);
    if (found == std::string_view::npos || !left()) break;
    machine.charge(found - begin + with.size());
    result += text.substr(begin, found - begin);
    result += with;
    begin = found + old.size();
    at = begin + step(begin);
  }
  if (begin < text.size()) result += text.substr(begin);
  return result;
}

}  // namespace hooked::text::jinja
