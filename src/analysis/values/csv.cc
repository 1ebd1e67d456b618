#include "analysis/values/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/json.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// Reads one record after another.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  bool at_end() const { return at_ == text_.size(); }

  CsvTable::Row next() {
    CsvTable::Row row{line_, {}};
    while (true) {
      row.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
      if (at_end()) return row;
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      at_ += line_end();
      ++line_;
      return row;
    }
  }

  [[noreturn]] void fail(std::size_t line, std::string_view what) const {
    throw CheckpointError(where_, fmt::format("line {}: {}", line, what));
  }

 private:
  /// The characters of the line end here, 0 if there is none: LF or CRLF.
  std::size_t line_end() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with('\n') ? 1 : rest.starts_with("\r\n") ? 2 : 0;
  }
  bool ends_here() const { return at_end() || text_[at_] == ',' || line_end() > 0; }

  std::string plain() {
    const auto begin = at_;
    for (; !ends_here(); ++at_) {
      if (text_[at_] == '"') fail(line_, "a quote inside a field without quotes; expected \"...\" around it");
      if (text_[at_] == '\r') fail(line_, "a carriage return without a line feed; expected LF or CRLF");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    const auto first_line = line_;
    std::string field;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] != '"') {
        line_ += text_[at_] == '\n' ? 1 : 0;
        field += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[at_++];
      } else {
        ++at_;
        if (!ends_here())
          fail(line_, "a closing quote is followed by more text; expected a comma or a new line");
        return field;
      }
    }
    fail(first_line, "a quote is opened and never closed; expected \"...\" around the field");
  }

  std::string_view text_, where_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

CsvTable parse_csv(std::string_view text, std::string_view where) {
  const std::string_view all = utf8_of_bytes(text, where);
  std::string_view rows = without_blank_end(all);
  if (rows.size() < all.size() && rows.ends_with('\r')) rows.remove_suffix(1);  // of the last line's CRLF
  CsvReader reader(rows, where);
  if (reader.at_end()) throw CheckpointError(where, "the file is empty; expected a line of column names");
  CsvTable table{.columns = reader.next().fields, .rows = {}};
  std::set<std::string_view> names;
  for (const auto& column : table.columns) {
    if (!names.insert(column).second)
      reader.fail(1, fmt::format("two columns are named '{}'; expected different names", printable(column)));
  }
  while (!reader.at_end()) {
    table.rows.push_back(reader.next());
    const auto& row = table.rows.back();
    if (row.fields.size() != table.columns.size()) {
      reader.fail(row.line, fmt::format("expected {} fields, one per column, got {}", table.columns.size(),
                                        row.fields.size()));
    }
  }
  return table;
}

std::optional<double> parse_number(std::string_view text) noexcept {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::string csv_field(std::string_view text) {
  const bool marked = text.starts_with(kByteOrderMark);  // would be lost at the beginning of a file
  if (!marked && text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace hooked
