#include "text/jinja/formatting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/json.h"
#include "core/utf8.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

constexpr std::int64_t kWidest = 100'000;
constexpr std::int64_t kMostPrecise = 100;

/// How one value is laid out.
struct Layout {
  char32_t fill = U' ';
  char align = 0;  ///< < > ^ or =; 0: as the type has it
  char sign = '-';
  bool alternate = false, zero = false, comma = false;
  std::int64_t width = 0;
  std::optional<std::int64_t> precision{};
  char type = 0;
};

std::int64_t read_number(Machine& machine, std::string_view& text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > most)
    machine.fail(fmt::format("a format asks for a width or precision that is not a number up to {}", most));
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool begins_with_digit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// Fills `body` up to the layout's width; a sign or prefix stays before what `=` fills in.
std::string filled(Machine& machine, const std::string& body, const Layout& layout, char usual_align) {
  const auto length = static_cast<std::int64_t>(count_characters(body));
  const auto missing = std::max<std::int64_t>(0, layout.width - length);
  machine.charge(body.size() + static_cast<std::uint64_t>(missing) * 4);
  std::string fill;
  append_utf8(fill, layout.fill);
  const auto times = [&](std::int64_t count) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) text += fill;
    return text;
  };
  switch (layout.align ? layout.align : usual_align) {
    case '<':
      return body + times(missing);
    case '^':
      return times(missing / 2) + body + times(missing - missing / 2);
    case '=': {
      const std::size_t sign = !body.empty() && (body[0] == '-' || body[0] == '+' || body[0] == ' ') ? 1 : 0;
      return body.substr(0, sign) + times(missing) + body.substr(sign);
    }
    default:
      return times(missing) + body;
  }
}

void put_commas(std::string& digits) {
  auto end = std::min(digits.find('.'), digits.size());
  while (end > 3) {
    end -= 3;
    digits.insert(end, ",");
  }
}

std::string signed_digits(bool negative, std::string digits, const Layout& layout) {
  if (layout.comma) put_commas(digits);
  if (negative) return "-" + digits;
  return layout.sign == '-' ? digits : layout.sign + digits;
}

std::string integer_digits(std::int64_t number, const Layout& layout) {
  const auto size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  switch (layout.type) {
    case 'x':
      return fmt::format("{}{:x}", layout.alternate ? "0x" : "", size);
    case 'X':
      return fmt::format("{}{:X}", layout.alternate ? "0X" : "", size);
    case 'o':
      return fmt::format("{}{:o}", layout.alternate ? "0o" : "", size);
    case 'b':
      return fmt::format("{}{:b}", layout.alternate ? "0b" : "", size);
    default:
      return std::to_string(size);
  }
}

std::string float_digits(double size, const Layout& layout) {
  const std::array<char, 5> format{'%', '.', '*', layout.type == '%' ? 'f' : layout.type, '\0'};
  std::array<char, 512> room{};
  const auto precision = static_cast<int>(layout.precision.value_or(6));
  const double shown = layout.type == '%' ? size * 100 : size;
  const int length = std::snprintf(room.data(), room.size(), format.data(), precision, shown);
  return std::string(room.data(), static_cast<std::size_t>(std::max(0, length))) +
         (layout.type == '%' ? "%" : "");
}

bool is_one_of(char c, std::string_view characters) { return characters.find(c) != characters.npos; }

// A number in a layout; `usual_align` is the default for numbers.
std::string number_in(Machine& machine, const Value& value, Layout layout) {
  if (layout.zero && !layout.align) {
    layout.fill = U'0';
    layout.align = '=';
  }
  const auto integer = integer_of(value);
  if (integer && is_one_of(layout.type, std::string_view("\0dnxXob", 7))) {
    return filled(machine, signed_digits(*integer < 0, integer_digits(*integer, layout), layout), layout,
                  '>');
  }
  const double number = number_of(value);
  const bool negative = std::signbit(number);
  std::string digits;
  if (!layout.type && !layout.precision) {
    digits = float_text(std::abs(number));
  } else if (is_one_of(layout.type, "fFeEgG%")) {
    digits = float_digits(std::abs(number), layout);
  } else {
    machine.unsupported("this format of a number");
  }
  return filled(machine, signed_digits(negative, digits, layout), layout, '>');
}

std::string text_in(Machine& machine, std::string text, const Layout& layout, char usual_align) {
  if (layout.precision) text.resize(byte_of_character(text, static_cast<std::size_t>(*layout.precision)));
  return filled(machine, text, layout, usual_align);
}

// Puts the values of a % format in their places.
class PercentFormat {
 public:
  PercentFormat(Machine& machine, std::string_view format, const Value& values)
      : machine_(machine), rest_(format), values_(values), tuple_(values.list(ListKind::tuple)) {}

  std::string write() {
    while (!rest_.empty()) {
      const auto percent = std::min(rest_.find('%'), rest_.size());
      result_ += rest_.substr(0, percent);
      rest_.remove_prefix(percent);
      if (rest_.empty()) break;
      rest_.remove_prefix(1);
      write_value();
    }
    const auto given = tuple_ ? tuple_->items.size() : values_.dict() || values_.list() ? 0 : 1;
    if (next_ < given) machine_.fail("a % format has more values than places");
    machine_.charge(result_.size());
    return std::move(result_);
  }

 private:
  void write_value() {
    machine_.step();
    const Value* value = nullptr;
    if (rest_.starts_with('(')) value = named();
    Layout layout;
    layout.type = 's';
    for (; !rest_.empty() && is_one_of(rest_[0], "-+ #0"); rest_.remove_prefix(1)) {
      if (rest_[0] == '-') layout.align = '<';
      if (rest_[0] == '+' || (rest_[0] == ' ' && layout.sign != '+')) layout.sign = rest_[0];
      if (rest_[0] == '#') layout.alternate = true;
      if (rest_[0] == '0') layout.zero = true;
    }
    if (rest_.starts_with('*')) machine_.unsupported("a width that is a value of a % format");
    if (begins_with_digit(rest_)) layout.width = read_number(machine_, rest_, kWidest);
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      layout.precision = begins_with_digit(rest_) ? read_number(machine_, rest_, kMostPrecise) : 0;
    }
    if (rest_.empty()) machine_.fail("a % format ends within a place for a value");
    layout.type = rest_[0];
    rest_.remove_prefix(1);
    if (layout.type == '%') {
      result_ += '%';
      return;
    }
    if (!value) value = &next();
    result_ += laid_out(*value, layout);
  }

  std::string laid_out(const Value& value, Layout layout) {
    if (layout.type == 's') return text_in(machine_, text_of(machine_, value), layout, '>');
    if (layout.type == 'r') return text_in(machine_, repr_of(machine_, value), layout, '>');
    require_defined(machine_, value);
    if (!is_one_of(layout.type, "diuxXofFeEgG"))
      machine_.unsupported(fmt::format("'%{}' in a format", printable({&layout.type, 1})));
    if (!is_number(value)) machine_.fail(fmt::format("a % format wants a number, got {}", type_name(value)));
    if (is_one_of(layout.type, "diu")) {
      layout.type = 'd';
      if (const auto* number = value.as<double>()) {
        if (!(std::abs(*number) < 9e18)) machine_.fail("a number is too large; expected integers of 64 bits");
        return number_in(machine_, static_cast<std::int64_t>(*number), layout);
      }
    }
    return number_in(machine_, value, layout);
  }

  const Value& next() {
    if (tuple_) {
      if (next_ >= tuple_->items.size()) machine_.fail("a % format has fewer values than places");
      return tuple_->items[next_++];
    }
    if (next_++ > 0) machine_.fail("a % format has fewer values than places");
    return values_;
  }

  const Value* named() {
    const auto end = rest_.find(')');
    if (end == rest_.npos || !values_.dict())
      machine_.fail("a % format names a value; expected a dict of them");
    const auto* found = values_.dict()->find(rest_.substr(1, end - 1));
    if (!found) machine_.fail("a % format names a value that is not given");
    rest_.remove_prefix(end + 1);
    return found;
  }

  Machine& machine_;
  std::string_view rest_;
  const Value& values_;
  const List* tuple_;
  std::size_t next_ = 0;
  std::string result_;
};

// The text after the colon of a place `{name:>10}`.
Layout read_layout(Machine& machine, std::string_view text) {
  Layout layout;
  const auto first = text.empty() ? 0 : first_char(text)->bytes;
  if (text.size() > first && first > 0 && is_one_of(text[first], "<>^=")) {
    layout.fill = first_char(text)->code_point;
    layout.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_one_of(text[0], "<>^=")) {
    layout.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view characters) {
    if (text.empty() || !is_one_of(text[0], characters)) return '\0';
    const char taken = text[0];
    text.remove_prefix(1);
    return taken;
  };
  if (const char sign = take("+- ")) layout.sign = sign;
  layout.alternate = take("#") != 0;
  layout.zero = take("0") != 0;
  if (begins_with_digit(text)) layout.width = read_number(machine, text, kWidest);
  layout.comma = take(",") != 0;
  if (take(".")) layout.precision = read_number(machine, text, kMostPrecise);
  layout.type = take("sdnxXobfFeEgG%");
  if (!text.empty()) machine.unsupported("this layout of a format");
  return layout;
}

// The value that a place `0.name[key]` names.
Value value_at(Machine& machine, std::string_view name, const Arguments& arguments, std::size_t& next) {
  const auto end = std::min(name.find_first_of(".["), name.size());
  const auto first = name.substr(0, end);
  Value value;
  if (first.empty() || begins_with_digit(first)) {
    std::string_view digits = first;
    const auto number =
        first.empty() ? next++ : static_cast<std::size_t>(read_number(machine, digits, kWidest));
    if (number >= arguments.positional.size()) machine.fail("a format has fewer values than places");
    value = arguments.positional[number];
  } else {
    const auto found = std::ranges::find(arguments.named, first,
                                         [](const auto& pair) { return std::string_view(pair.first); });
    if (found == arguments.named.end()) machine.fail("a format names a value that is not given");
    value = found->second;
  }
  if (end < name.size()) machine.unsupported("a member of a value in a format");
  return value;
}

}  // namespace

std::string percent_format(Machine& machine, std::string_view format, const Value& values) {
  machine.read(format.size());
  return PercentFormat(machine, format, values).write();
}

std::string brace_format(Machine& machine, std::string_view format, const Arguments& arguments) {
  std::string result;
  std::size_t next = 0;
  machine.read(format.size());
  while (!format.empty()) {
    const auto brace = std::min(format.find_first_of("{}"), format.size());
    result += format.substr(0, brace);
    format.remove_prefix(brace);
    if (format.empty()) break;
    if (format.size() > 1 && format[0] == format[1]) {
      result += format[0];
      format.remove_prefix(2);
      continue;
    }
    const auto end = format.find('}');
    if (format[0] == '}' || end == format.npos) machine.fail("a format has a brace without its partner");
    auto place = format.substr(1, end - 1);
    format.remove_prefix(end + 1);
    if (place.find('{') != place.npos) machine.unsupported("a place within a place of a format");
    machine.step();
    const auto colon = std::min(place.find(':'), place.size());
    const auto layout = read_layout(machine, place.substr(std::min(colon + 1, place.size())));
    auto name = place.substr(0, colon);
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    const Value value = value_at(machine, name, arguments, next);
    if (conversion == 0 && is_number(value) && !value.is<bool>()) {
      result += number_in(machine, value, layout);
    } else {
      if (layout.type && layout.type != 's')
        machine.fail("a format asks for a number, and the value is none");
      result += text_in(machine, conversion == 'r' ? repr_of(machine, value) : text_of(machine, value),
                        layout, '<');
    }
  }
  machine.charge(result.size());
  return result;
}

}  // namespace hooked::text::jinja
