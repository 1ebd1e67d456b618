// Pairs of prompts as JSON lines, and as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "analysis/values/csv.h"
#include "core/json.h"
#include "core/nearest.h"
#include "core/parse_integer.h"
#include "core/split.h"
#include "core/text_lines.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/name_ending.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr std::uint64_t kMostPairBytes = std::uint64_t{1} << 30;

/// Reports errors with the file and the line.
class PairReader {
 public:
  PairReader(const std::filesystem::path& file, std::size_t line) : where_(file.string()), line_(line) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw CheckpointError(where_, fmt::format("line {}: {}", line_, what));
  }

  [[noreturn]] void fail_unknown(const std::string& name, const std::vector<std::string>& known) const {
    fail(fmt::format("'{}' is not known; expected one of [{}]{}", printable(name), fmt::join(known, ", "),
                     nearest_text("; the nearest is '{}'", name, known)));
  }

  std::int64_t integer(const Json& value, std::string_view what) const {
    if (!value.is_number_integer())
      fail(fmt::format("{} is {}; expected an integer", what, json_kind(value)));
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
      fail(fmt::format("{} is {}; expected at most {}", what, value.get<std::uint64_t>(), INT64_MAX));
    return value.get<std::int64_t>();
  }

  std::vector<std::int64_t> ids(const Json& list, std::string_view what) const {
    std::vector<std::int64_t> ids;
    for (const Json& id : list) ids.push_back(integer(id, what));
    return ids;
  }

  Prompt prompt(const Json& value, std::string_view what) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) return ids(value, what);
    fail(fmt::format("{} is {}; expected a text or an array of ids", what, json_kind(value)));
  }

  /// A text or an integer.
  template <typename Kind>
  Kind text_or_number(const Json& value, std::string_view what) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_integer()) return integer(value, what);
    fail(fmt::format("{} is {}; expected a text or an integer", what, json_kind(value)));
  }

  std::vector<PromptToken> tokens(const Json& value, std::string_view what) const {
    if (!value.is_array()) return {text_or_number<PromptToken>(value, what)};
    std::vector<PromptToken> tokens;
    for (const Json& token : value) tokens.push_back(text_or_number<PromptToken>(token, what));
    return tokens;
  }

  PlaceOfPair place_of_pair(const Json& value, const std::string& what) const {
    if (!value.is_object()) {
      const auto both = text_or_number<PromptPlace>(value, what);
      return {both, both};
    }
    for (const auto& [key, _] : value.items()) {
      if (key != "clean" && key != "corrupted") fail_unknown(key, {"clean", "corrupted"});
    }
    if (value.size() != 2) fail(what + " lacks a side; expected {\"clean\": ..., \"corrupted\": ...}");
    return {text_or_number<PromptPlace>(value.at("clean"), what),
            text_or_number<PromptPlace>(value.at("corrupted"), what)};
  }

  PromptPair pair(const Json& object) const {
    if (!object.is_object()) fail(fmt::format("{} where an object should stand", json_kind(object)));
    PromptPair pair;
    for (const auto& [key, value] : object.items()) {
      if (key == "clean") {
        pair.clean = prompt(value, key);
      } else if (key == "corrupted") {
        pair.corrupted = prompt(value, key);
      } else if (key == "answers") {
        pair.answers = tokens(value, key);
      } else if (key == "against") {
        pair.against = tokens(value, key);
      } else if (key == "places") {
        if (!value.is_object()) fail(fmt::format("places is {}; expected an object", json_kind(value)));
        for (const auto& [name, place_of] : value.items())
          pair.places[name] = place_of_pair(place_of, fmt::format("place '{}'", name));
      } else {
        fail_unknown(key, {"clean", "corrupted", "answers", "against", "places"});
      }
    }
    for (const char* key : {"clean", "corrupted"}) {
      if (!object.contains(key)) fail(fmt::format("'{}' is missing", key));
    }
    return pair;
  }

  std::vector<std::int64_t> ids(std::string_view text) const {
    std::vector<std::int64_t> ids;
    for (const std::string_view word : split(text, ' ')) {
      if (word.empty()) continue;
      const auto id = parse_integer(word);
      if (!id) fail(fmt::format("'{}' is not an id; expected ids between blanks", printable(word)));
      ids.push_back(*id);
    }
    return ids;
  }

 private:
  std::string where_;
  std::size_t line_;
};

std::vector<PromptPair> pairs_of_lines(const std::filesystem::path& file, std::string_view text) {
  std::vector<PromptPair> pairs;
  std::size_t line = 0;
  for (const std::string_view json : split(text, '\n')) {
    ++line;
    if (json.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const PairReader reader(file, line);
    try {
      pairs.push_back(reader.pair(parse_json(json, {.bytes = kMostPairBytes})));
    } catch (const std::invalid_argument& error) {
      reader.fail(error.what());
    }
  }
  return pairs;
}

// What a column of a table fills in.
using FillIn = void (*)(const PairReader&, PromptPair&, const std::string& field);

std::vector<PromptToken> answers_of(const std::string& field) {
  std::vector<PromptToken> answers;
  if (field.empty()) return answers;
  for (const std::string_view answer : split(field, '|')) answers.emplace_back(std::string(answer));
  return answers;
}

std::vector<PromptToken> tokens_of(const PairReader& reader, const std::string& field) {
  std::vector<PromptToken> tokens;
  for (const auto id : reader.ids(field)) tokens.emplace_back(id);
  return tokens;
}

struct Column {
  const char* name;
  FillIn fill_in;
};

constexpr std::array kColumns = {
    Column{"clean", [](const PairReader&, PromptPair& p, const std::string& f) { p.clean = f; }},
    Column{"corrupted", [](const PairReader&, PromptPair& p, const std::string& f) { p.corrupted = f; }},
    Column{"answers",
           [](const PairReader&, PromptPair& p, const std::string& f) { p.answers = answers_of(f); }},
    Column{"against",
           [](const PairReader&, PromptPair& p, const std::string& f) { p.against = answers_of(f); }},
    Column{"clean_tokens",
           [](const PairReader& r, PromptPair& p, const std::string& f) { p.clean = r.ids(f); }},
    Column{"corrupted_tokens",
           [](const PairReader& r, PromptPair& p, const std::string& f) { p.corrupted = r.ids(f); }},
    Column{"answer_tokens",
           [](const PairReader& r, PromptPair& p, const std::string& f) { p.answers = tokens_of(r, f); }},
    Column{"against_tokens",
           [](const PairReader& r, PromptPair& p, const std::string& f) { p.against = tokens_of(r, f); }},
};

PromptPlace place_of(const std::string& field) {
  if (const auto index = parse_integer(field)) return *index;
  return field;
}

void fill_in(const PairReader& reader, PromptPair& pair, const std::string& column,
             const std::string& field) {
  for (const auto& known : kColumns) {
    if (column == known.name) return known.fill_in(reader, pair, field);
  }
  const auto colon = column.find(':');
  const auto kind = column.substr(0, colon);
  if (colon == std::string::npos || (kind != "place" && kind != "clean_place" && kind != "corrupted_place")) {
    std::vector<std::string> names;
    for (const auto& known : kColumns) names.emplace_back(known.name);
    for (const char* place : {"place:NAME", "clean_place:NAME", "corrupted_place:NAME"})
      names.emplace_back(place);
    reader.fail_unknown(column, names);
  }
  if (field.empty()) return;
  auto& place = pair.places[column.substr(colon + 1)];
  if (kind != "corrupted_place") place.clean = place_of(field);
  if (kind != "clean_place") place.corrupted = place_of(field);
}

std::vector<PromptPair> pairs_of_table(const std::filesystem::path& file, std::string_view text) {
  const CsvTable table = parse_csv(text, file.string());
  const PairReader head(file, 1);
  const auto has = [&](const std::string& name) {
    return std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end();
  };
  for (const std::pair<const char*, const char*>& either :
       {std::pair{"clean", "clean_tokens"}, {"corrupted", "corrupted_tokens"}}) {
    if (has(either.first) == has(either.second))
      head.fail(fmt::format("expected one of the columns '{}' and '{}'", either.first, either.second));
  }
  for (const std::pair<const char*, const char*>& both :
       {std::pair{"answers", "answer_tokens"}, {"against", "against_tokens"}}) {
    if (has(both.first) && has(both.second))
      head.fail(fmt::format("expected one of the columns '{}' and '{}', or none", both.first, both.second));
  }
  for (const auto& column : table.columns) {
    for (const auto& [one, other] : {std::pair<std::string, std::string>{"clean_place:", "corrupted_place:"},
                                     {"corrupted_place:", "clean_place:"}}) {
      if (!column.starts_with(one)) continue;
      const auto name = column.substr(one.size());
      if (!has(other + name) || has("place:" + name))
        head.fail(fmt::format(
            "the column '{}' has no counterpart; expected '{}' as well, or 'place:{}' instead of both",
            printable(column), printable(other + name), printable(name)));
    }
  }
  std::vector<PromptPair> pairs;
  for (const auto& row : table.rows) {
    const PairReader reader(file, row.line);
    auto& pair = pairs.emplace_back();
    std::map<std::string, std::size_t> sides;  // of places with a column for each prompt
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      fill_in(reader, pair, table.columns[c], row.fields[c]);
      for (const std::string_view side : {"clean_place:", "corrupted_place:"}) {
        if (table.columns[c].starts_with(side) && !row.fields[c].empty())
          ++sides[table.columns[c].substr(side.size())];
      }
    }
    for (const auto& [name, count] : sides) {
      if (count != 2)
        reader.fail(
            fmt::format("place '{}' is given in one of the prompts; expected it in both, or in neither",
                        printable(name)));
    }
  }
  return pairs;
}

Json json_of(const std::vector<PromptToken>& tokens) {
  Json list = Json::array();
  for (const auto& token : tokens) std::visit([&](const auto& value) { list.push_back(value); }, token);
  return list;
}

}  // namespace

std::vector<PromptPair> read_prompt_pairs(const std::filesystem::path& file) {
  const auto ending = file.extension();
  if (ending != ".jsonl" && ending != ".csv") refuse_ending(file, "pairs of prompts", ".jsonl or .csv");
  const auto text = text_of_bytes(read_text_file(file, kMostPairBytes), file.string());
  auto pairs = ending == ".csv" ? pairs_of_table(file, text) : pairs_of_lines(file, text);
  if (pairs.empty())
    throw CheckpointError(file.string(), "there is no pair of prompts; expected at least one");
  return pairs;
}

void write_prompt_pairs(const std::filesystem::path& file, const std::vector<PromptPair>& pairs,
                        Overwrite overwrite) {
  require_replaceable(file, {.name = "a file of prompt pairs", .endings = {".jsonl"}, .is_ours = nullptr},
                      overwrite);
  std::string text;
  const auto json_value = [](const auto& kind) {
    return std::visit([](const auto& value) { return Json(value); }, kind);
  };
  for (const auto& pair : pairs) {
    Json json{{"clean", json_value(pair.clean)}, {"corrupted", json_value(pair.corrupted)}};
    if (!pair.answers.empty()) json["answers"] = json_of(pair.answers);
    if (!pair.against.empty()) json["against"] = json_of(pair.against);
    for (const auto& [name, place] : pair.places) {
      json["places"][name] =
          place.clean == place.corrupted
              ? json_value(place.clean)
              : Json{{"clean", json_value(place.clean)}, {"corrupted", json_value(place.corrupted)}};
    }
    text += json_text(json) + '\n';
  }
  write_file(file, text);
}

}  // namespace hooked
