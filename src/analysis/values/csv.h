#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// A table of a CSV file (RFC 4180): one line of column names, then rows with that number of fields.
struct CsvTable {
  struct Row {
    std::size_t line;  ///< of the file, from 1: where the row begins
    std::vector<std::string> fields;
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

/// Parses the text in a CSV file's bytes (utf8_of_bytes), whose lines end with LF or CRLF; fields in double
/// quotes may hold any character, and keep it. Throws CheckpointError naming `where` and the line for quotes
/// that do not match, another number of fields, or a duplicate column name.
CsvTable parse_csv(std::string_view text, std::string_view where);

/// The number that all of `text` spells, possibly `nan` or `inf`; nothing if it spells none.
std::optional<double> parse_number(std::string_view text) noexcept;

/// A field as it is written: in quotes if necessary.
std::string csv_field(std::string_view text);

}  // namespace hooked
