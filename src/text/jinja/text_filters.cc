// The filters from texts and numbers to texts and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

template <Case which>
Value in_case_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "this filter", arguments, {});
  return machine.text(in_case(text_of(machine, value), which));
}

Value title_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "title", arguments, {});
  const std::string text = text_of(machine, value);
  std::string result;
  bool parted = true;
  // Words and their separators; the first character of each word becomes upper case.
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    for (bool first = true; end < text.size(); first = false) {
      const auto c = *first_char(std::string_view(text).substr(end));
      const bool parts =
          is_python_space(c.code_point) ||
          (c.bytes == 1 && std::string_view("-({[<").find(text[end]) != std::string_view::npos);
      if (first) parted = parts;
      if (parts != parted) break;
      end += c.bytes;
    }
    const auto word = std::string_view(text).substr(begin, end - begin);
    const auto first = first_char(word)->bytes;
    result += in_case(word.substr(0, first), Case::upper) + in_case(word.substr(first), Case::lower);
    begin = end;
  }
  return machine.text(std::move(result));
}

Value string_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "string", arguments, {});
  return machine.text(text_of(machine, value));
}

Value escape_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "escape", arguments, {});
  constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  std::string escaped;
  for (const char c : text_of(machine, value)) {
    const auto* found = std::ranges::find(kEscapes, c, [](const auto& row) { return row.first; });
    if (found == std::end(kEscapes)) {
      escaped += c;
    } else {
      escaped += found->second;
    }
  }
  return machine.text(std::move(escaped));
}

Value trim_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "trim", arguments, {"chars"});
  const auto text = text_of(machine, value);
  const auto characters = given.text(0);
  machine.step(1 + text.size() * (characters ? 1 + characters->size() / 32 : 1) / 32);
  return machine.text(std::string(stripped(text, Side::both, characters)));
}

Value replace_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "replace", arguments, {"old", "new", "count"});
  return machine.text(replaced(machine, text_of(machine, value), text_of(machine, given.required(0)),
                               text_of(machine, given.required(1)), given.integer(2, -1)));
}

Value indent_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "indent", arguments, {"width", "first", "blank"});
  require_defined(machine, value);
  if (!value.text()) machine.fail(fmt::format("indent is given {}; expected a text", type_name(value)));
  std::string indention;
  if (given[0] && given[0]->text()) {
    indention = *given[0]->text();
  } else {
    indention = *arithmetic(machine, Arithmetic::multiply, machine.text(" "), given.integer(0, 4)).text();
  }
  const bool blank = given.truth(2, false);
  const std::string text = *value.text() + "\n";
  std::string result = given.truth(1, false) ? indention : "";
  bool first = true;
  for (const auto line : lines_of(text)) {
    machine.charge(line.size() + indention.size() + 1);
    if (!first) {
      result += '\n';
      if (blank || !line.empty()) result += indention;
    }
    result += line;
    first = false;
  }
  return machine.text(std::move(result));
}

Value format_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty()) machine.unsupported("format with values by name");
  const auto format = text_of(machine, value);
  return machine.text(percent_format(machine, format, machine.list(arguments.positional, ListKind::tuple)));
}

// A text as Python's int() and float() read numbers: white space around it, single underscores between
// digits.
std::string number_spelling(std::string_view text) {
  text = stripped(text, Side::both);
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string plain;
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_' || i == 0 || !digit(i - 1) || !digit(i + 1)) plain += text[i];
  }
  return plain;
}

std::optional<double> read_float(std::string_view text) {
  const auto plain = number_spelling(text);
  double number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (plain.empty() || plain.starts_with("-+") || end != plain.data() + plain.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(plain.c_str(), nullptr);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::int64_t truncated(Machine& machine, double number) {
  if (!(std::abs(number) < 9.2e18)) machine.fail("a number is too large; expected integers of 64 bits");
  return static_cast<std::int64_t>(number);
}

Value int_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "int", arguments, {"default", "base"});
  require_defined(machine, value);
  if (const auto integer = integer_of(value)) return *integer;
  if (const auto* number = value.as<double>()) return truncated(machine, *number);
  const Value otherwise = given[0] ? *given[0] : std::int64_t{0};
  if (!value.text()) return otherwise;
  if (given.integer(1, 10) != 10) machine.unsupported("int with another base than 10");
  machine.read(value.text()->size());
  const auto plain = number_spelling(*value.text());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (end == plain.data() + plain.size() && !plain.empty()) {
    if (error == std::errc::result_out_of_range)
      machine.fail("a number is too large; expected integers of 64 bits");
    if (error == std::errc()) return number;
  }
  const auto real = read_float(*value.text());
  if (!real || !std::isfinite(*real)) return otherwise;
  return truncated(machine, *real);
}

Value float_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "float", arguments, {"default"});
  require_defined(machine, value);
  if (is_number(value)) return number_of(value);
  if (value.text()) {
    machine.read(value.text()->size());
    if (const auto real = read_float(*value.text())) return *real;
  }
  return given[0] ? *given[0] : 0.0;
}

Value tojson_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = given.truth(0, false), .sort_keys = given.truth(3, false)};
  if (given[1] && !given[1]->is<None>()) {
    const auto* indent = given[1]->text();
    const auto width = indent ? 0 : std::clamp<std::int64_t>(given.integer(1, 0), 0, 1000);
    style.indent = indent ? *indent : std::string(static_cast<std::size_t>(width), ' ');
    style.between_items = ",";
  }
  if (given[2] && !given[2]->is<None>()) {
    const auto parts = items_of(machine, *given[2]);
    if (parts.size() != 2 || !parts[0].text() || !parts[1].text())
      machine.fail("tojson is given other separators; expected two texts");
    style.between_items = *parts[0].text();
    style.behind_key = *parts[1].text();
  }
  return machine.text(json_of(machine, value, style));
}

constexpr MethodRow kTextFilters[] = {
    {"abs", nullptr},
    {"capitalize", in_case_filter<Case::capitalize>},
    {"center", nullptr},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"filesizeformat", nullptr},
    {"float", float_filter},
    {"forceescape", nullptr},
    {"format", format_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"lower", in_case_filter<Case::lower>},
    {"pprint", nullptr},
    {"replace", replace_filter},
    {"round", nullptr},
    {"safe", string_filter},
    {"string", string_filter},
    {"striptags", nullptr},
    {"title", title_filter},
    {"tojson", tojson_filter},
    {"trim", trim_filter},
    {"truncate", nullptr},
    {"upper", in_case_filter<Case::upper>},
    {"urlencode", nullptr},
    {"urlize", nullptr},
    {"wordcount", nullptr},
    {"wordwrap", nullptr},
    {"xmlattr", nullptr},
};

}  // namespace

const MethodRow* find_text_filter(std::string_view name) { return find_row(kTextFilters, name); }

}  // namespace hooked::text::jinja
