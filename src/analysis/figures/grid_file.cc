// A grid as a file: writing it and reading it back.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "analysis/figures/svg.h"
#include "analysis/values/csv.h"
#include "analysis/values/row_major.h"
#include "core/json.h"
#include "core/json_number.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/heat_map.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"
#include "io/files/name_ending.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr std::uint64_t kMostGridBytes = std::uint64_t{1} << 31;
constexpr std::string_view kAddressColumn = " address";
constexpr const char* kTensor = "values";
constexpr const char* kRecord = "grid";

// A CSV's number: the shortest text that reads back as the same number.
std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

Json nested(const double*& next, at::IntArrayRef shape) {
  if (shape.empty()) return number_json(*next++);
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[0]; ++i) list.push_back(nested(next, shape.slice(1)));
  return list;
}

/// Everything but the numbers.
Json record_of(const Grid& grid) {
  Json record{{"title", grid.title()}, {"unit", grid.unit()}, {"axes", Json::array()}};
  for (const auto& axis : grid.axes()) {
    Json written{{"name", axis.name}, {"labels", axis.labels}};
    if (!axis.places.empty()) {
      written["places"] = Json::array();
      for (const auto& place : axis.places)
        written["places"].push_back(place ? Json(place->to_string()) : Json(nullptr));
    }
    record["axes"].push_back(std::move(written));
  }
  return record;
}

/// What a file says about a grid, checked while reading.
class RecordReader {
 public:
  explicit RecordReader(std::string where) : where_(std::move(where)) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw CheckpointError(where_, fmt::format("{}; expected a file of a saved grid", what));
  }

  Json parse(std::string_view text) const {
    try {
      return parse_json(text, {.bytes = kMostGridBytes, .depth = 128});
    } catch (const std::invalid_argument& error) {
      fail(error.what());
    }
  }

  const Json& field(const Json& object, const char* key) const {
    if (!object.is_object()) fail(fmt::format("{} where an object should stand", json_kind(object)));
    if (const auto found = object.find(key); found != object.end()) return *found;
    fail(fmt::format("'{}' is missing", key));
  }

  std::string text(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_string()) fail(fmt::format("'{}' is {}, not a string", key, json_kind(value)));
    return value.get<std::string>();
  }

  const Json& list(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_array()) fail(fmt::format("'{}' is {}, not an array", key, json_kind(value)));
    return value;
  }

  std::optional<Address> address(const std::string& text) const {
    try {
      return Address::parse(text);
    } catch (const HookError& error) {
      fail(fmt::format("the address '{}' cannot be read ({})", text, error.what()));
    }
  }

  std::vector<GridAxis> axes(const Json& record) const {
    std::vector<GridAxis> axes;
    for (const Json& written : list(record, "axes")) {
      GridAxis axis{.name = text(written, "name"), .labels = {}};
      for (const Json& label : list(written, "labels")) {
        if (!label.is_string()) fail(fmt::format("a label of axis '{}' is {}", axis.name, json_kind(label)));
        axis.labels.push_back(label.get<std::string>());
      }
      if (written.contains("places")) {
        for (const Json& place : list(written, "places")) {
          if (!place.is_null() && !place.is_string())
            fail(fmt::format("a place of axis '{}' is {}", axis.name, json_kind(place)));
          axis.places.push_back(place.is_null() ? std::nullopt : address(place.get<std::string>()));
        }
      }
      axes.push_back(std::move(axis));
    }
    return axes;
  }

  /// The numbers of `values`, nested as the axes are.
  void numbers(const Json& values, std::span<const GridAxis> axes, std::vector<double>& into) const {
    if (axes.empty()) return into.push_back(number(values));
    if (!values.is_array() || values.size() != axes.front().labels.size()) {
      fail(fmt::format("the values along axis '{}' are not one per label ({})", axes.front().name,
                       axes.front().labels.size()));
    }
    for (const Json& value : values) numbers(value, axes.subspan(1), into);
  }

  double number(std::string_view text, std::size_t line) const {
    if (const auto value = parse_number(text)) return *value;
    fail(fmt::format("line {}: '{}' is not a number", line, printable(text)));
  }

  Grid grid(const at::Tensor& values, std::vector<GridAxis> axes,
            const Grid::Description& description) const {
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const auto& axis : axes) count *= shape.emplace_back(static_cast<std::int64_t>(axis.labels.size()));
    if (values.numel() != count || values.scalar_type() != at::kDouble)
      fail("the numbers do not fit the labels");
    try {
      return Grid(values.view(shape), std::move(axes), description);
    } catch (const ShapeError& error) {
      fail(error.what());
    }
  }

 private:
  double number(const Json& value) const {
    if (value.is_number()) return value.get<double>();
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    fail(fmt::format("{} where a number should stand", json_kind(value)));
  }

  std::string where_;
};

Grid grid_of_json(std::string_view text, const RecordReader& reader) {
  const Json record = reader.parse(text);
  auto axes = reader.axes(record);
  std::vector<double> numbers;
  reader.numbers(reader.field(record, "values"), axes, numbers);
  return reader.grid(at::tensor(numbers, at::kDouble), std::move(axes),
                     {.title = reader.text(record, "title"), .unit = reader.text(record, "unit")});
}

Grid grid_of_safetensors(const std::filesystem::path& path, const RecordReader& reader) {
  const auto file = SafetensorsFile::open(path);
  const auto found = file.metadata().find(kRecord);
  if (found == file.metadata().end() || file.find(kTensor) == nullptr) reader.fail("the file holds no grid");
  const Json record = reader.parse(found->second);
  return reader.grid(file.read(kTensor), reader.axes(record),
                     {.title = reader.text(record, "title"), .unit = reader.text(record, "unit")});
}

// The columns of a CSV that belong to an axis.
struct AxisColumns {
  std::size_t label;
  std::optional<std::size_t> address;
};

std::vector<AxisColumns> axis_columns(const CsvTable& table, const RecordReader& reader) {
  const auto n = table.columns.size();
  if (n < 3 || table.columns[n - 3] != "value" || table.columns[n - 2] != "unit" ||
      table.columns[n - 1] != "title") {
    reader.fail("the last columns are not value, unit and title");
  }
  if (table.rows.empty()) reader.fail("there is no number");
  std::vector<AxisColumns> axes;
  for (std::size_t c = 0; c < n - 3; ++c) {
    const bool is_address = !axes.empty() && c == axes.back().label + 1 &&
                            table.columns[c] == table.columns[c - 1] + std::string(kAddressColumn);
    if (is_address) {
      axes.back().address = c;
    } else {
      axes.push_back({c, std::nullopt});
    }
  }
  return axes;
}

Grid grid_of_csv(std::string_view text, std::string_view where, const RecordReader& reader) {
  const CsvTable table = parse_csv(text, where);
  const auto columns = axis_columns(table, reader);
  std::vector<GridAxis> axes;
  for (const auto& column : columns) {
    GridAxis axis{.name = table.columns[column.label], .labels = {}};
    std::set<std::string> seen;
    for (const auto& row : table.rows) {
      if (!seen.insert(row.fields[column.label]).second) continue;
      axis.labels.push_back(row.fields[column.label]);
      if (!column.address) continue;
      const auto& address = row.fields[*column.address];
      axis.places.push_back(address.empty() ? std::nullopt : reader.address(address));
    }
    axes.push_back(std::move(axis));
  }
  std::vector<double> numbers;
  const auto n = table.columns.size();
  for (const auto& row : table.rows) {
    const auto index = index_of(static_cast<std::int64_t>(numbers.size()), axes);
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto place = static_cast<std::size_t>(index[i]);
      const auto& expected = axes[i].labels[place];
      if (row.fields[columns[i].label] != expected) {
        reader.fail(fmt::format(
            "line {}: {} '{}' where '{}' should stand: rows are missing or in another order", row.line,
            axes[i].name, printable(row.fields[columns[i].label]), printable(expected)));
      }
      if (columns[i].address && row.fields[*columns[i].address] !=
                                    (axes[i].places[place] ? axes[i].places[place]->to_string() : ""))
        reader.fail(fmt::format("line {}: another address than the same place has before", row.line));
    }
    if (row.fields[n - 2] != table.rows[0].fields[n - 2] || row.fields[n - 1] != table.rows[0].fields[n - 1])
      reader.fail(fmt::format("line {}: the unit or the title changes within the file", row.line));
    numbers.push_back(reader.number(row.fields[n - 3], row.line));
  }
  return reader.grid(at::tensor(numbers, at::kDouble), std::move(axes),
                     {.title = table.rows[0].fields[n - 1], .unit = table.rows[0].fields[n - 2]});
}

// A CSV distinguishes places only by their labels.
void require_csv_can_hold(const Grid& grid) {
  const auto refuse = [&](const std::string& what) {
    throw ShapeError(grid.title(), what + "; save it as .json or .safetensors");
  };
  if (grid.values().numel() == 0) refuse("a CSV has a line per number, and this grid has none");
  for (const auto& axis : grid.axes()) {
    if (axis.name.ends_with(kAddressColumn))
      refuse(fmt::format("the axis '{}' reads as the addresses of another one in a CSV", axis.name));
    std::set<std::string_view> seen;
    for (const auto& label : axis.labels) {
      if (!seen.insert(label).second)
        refuse(fmt::format("a CSV cannot tell places of axis {} apart that have the same label '{}'",
                           axis.name, printable(label)));
    }
  }
}

bool is_own_picture(const std::filesystem::path& file) {
  const auto picture = InputFile::open(file);
  std::string start(std::min<std::uint64_t>(picture.size(), kPictureStart.size()), '\0');
  picture.read(0, std::as_writable_bytes(std::span(start)));
  return start == kPictureStart;
}

bool is_own_grid(const std::filesystem::path& file) {
  if (file.extension() == ".svg") return is_own_picture(file);
  Grid::load(file);
  return true;
}

}  // namespace

void Grid::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(
      file, {.name = "a grid", .endings = {".csv", ".json", ".svg", ".safetensors"}, .is_ours = is_own_grid},
      overwrite);
}

std::string Grid::to_csv() const {
  require_csv_can_hold(*this);
  std::string text;
  for (const auto& axis : axes_) {
    text += csv_field(axis.name) + ',';
    if (!axis.places.empty()) text += csv_field(axis.name + std::string(kAddressColumn)) + ',';
  }
  text += "value,unit,title\n";
  const auto ending = ',' + csv_field(unit()) + ',' + csv_field(title()) + '\n';
  const auto* numbers = values().const_data_ptr<double>();
  for (std::int64_t i = 0; i < values().numel(); ++i) {
    const auto index = index_of(i, axes_);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const auto place = static_cast<std::size_t>(index[a]);
      text += csv_field(axes_[a].labels[place]) + ',';
      if (axes_[a].places.empty()) continue;
      const auto& address = axes_[a].places[place];
      text += csv_field(address ? address->to_string() : "") + ',';
    }
    text += number_text(numbers[i]) + ending;
  }
  return text;
}

std::string Grid::to_json() const {
  Json json = record_of(*this);
  const auto* numbers = values().const_data_ptr<double>();
  json["values"] = nested(numbers, values().sizes());
  return json_text(json) + '\n';
}

void Grid::save(const std::filesystem::path& file, Overwrite overwrite) const {
  require_can_save(file, overwrite);
  const auto ending = file.extension();
  if (ending == ".svg") return write_file(file, heat_map_svg(*this));
  if (ending == ".csv") return write_file(file, to_csv());
  if (ending == ".json") return write_file(file, to_json());
  // A safetensors file has a limited number of axes; the labels give the original number.
  const bool fits = values().dim() <= static_cast<std::int64_t>(SafetensorsLimits::kRank);
  TensorAxes axes;
  if (fits && !axes_.empty()) {
    for (const auto& axis : axes_) axes[kTensor].push_back(axis.name);
  }
  const Provenance provenance{.more = {{kRecord, json_text(record_of(*this))}}};
  save_safetensors(file, {{kTensor, fits ? values() : values().flatten()}},
                   {.metadata = to_metadata(provenance, axes)});
}

void Grid::save(const std::filesystem::path& file, const HeatMapOptions& options, Overwrite overwrite) const {
  if (file.extension() != ".svg") {
    throw IoError(
        file.string(),
        fmt::format("only pictures have heat map options; expected a name ending in .svg, got '{}'; "
                    "leave out the options or change the name",
                    file.extension().string()));
  }
  require_can_save(file, overwrite);
  write_file(file, heat_map_svg(*this, options));
}

Grid Grid::load(const std::filesystem::path& file) {
  const auto ending = file.extension();
  const RecordReader reader(file.string());
  if (ending == ".safetensors") return grid_of_safetensors(file, reader);
  if (ending == ".csv") return grid_of_csv(read_text_file(file, kMostGridBytes), file.string(), reader);
  if (ending == ".json") return grid_of_json(read_text_file(file, kMostGridBytes), reader);
  refuse_ending(file, "a grid", ".csv, .json or .safetensors");
}

}  // namespace hooked
