#include "hooked/analysis/grid.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <ostream>

#include "core/json.h"
#include "hooked/analysis/heat_map.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

using Json = nlohmann::ordered_json;

const double* numbers(const at::Tensor& values) { return values.const_data_ptr<double>(); }

/// The index per axis of the `flat`th number in row-major order.
std::vector<std::int64_t> unflatten(std::int64_t flat, at::IntArrayRef shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

Json nested(const at::Tensor& values) {
  if (values.dim() == 0) {
    const double value = values.item<double>();
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) list.push_back(nested(values[i]));
  return list;
}

/// Characters of a UTF-8 text, for alignment.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded_left(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, width(text)), ' ') + text;
}

/// Prints values [row, column] with labels in front and above.
void print_table(std::ostream& out, const at::Tensor& values, const GridAxis* rows, const GridAxis& columns) {
  const std::string corner = rows ? rows->name + " \\ " + columns.name : columns.name;
  std::size_t margin = width(corner);
  if (rows) {
    for (const auto& label : rows->labels) margin = std::max(margin, width(label));
  }
  std::vector<std::size_t> widths;
  for (std::int64_t c = 0; c < values.size(1); ++c) {
    std::size_t widest = width(columns.labels[static_cast<std::size_t>(c)]);
    for (std::int64_t r = 0; r < values.size(0); ++r) {
      widest = std::max(widest, fmt::formatted_size("{:.3f}", values[r][c].item<double>()));
    }
    widths.push_back(widest);
  }
  out << padded_left(corner, margin);
  for (std::size_t c = 0; c < widths.size(); ++c) out << "  " << padded_left(columns.labels[c], widths[c]);
  out << '\n';
  for (std::int64_t r = 0; r < values.size(0); ++r) {
    out << padded_left(rows ? rows->labels[static_cast<std::size_t>(r)] : "", margin);
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const double value = values[r][static_cast<std::int64_t>(c)].item<double>();
      out << "  " << padded_left(fmt::format("{:.3f}", value), widths[c]);
    }
    out << '\n';
  }
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw IoError(file.string(), "could not be written; check that the folder exists and has room");
}

}  // namespace

Grid::Grid(at::Tensor values, std::vector<GridAxis> axes, Description description)
    : values_(values.detach().to(at::kCPU, at::kDouble).contiguous()),
      axes_(std::move(axes)),
      description_(std::move(description)) {
  if (axes_.empty() || axes_.size() > 3 || static_cast<std::size_t>(values_.dim()) != axes_.size()) {
    throw ShapeError(
        title(), fmt::format("a grid has one to three axes, each with labels; expected values of {} axes, "
                             "got {}",
                             axes_.size(), shape_text(values_.sizes())));
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (values_.size(static_cast<std::int64_t>(i)) == static_cast<std::int64_t>(axes_[i].labels.size()))
      continue;
    throw ShapeError(
        title(), fmt::format("axis {} has {} labels; expected {}, one per place of values {}", axes_[i].name,
                             axes_[i].labels.size(), values_.size(static_cast<std::int64_t>(i)),
                             shape_text(values_.sizes())));
  }
}

double Grid::at(const std::vector<std::int64_t>& index) const {
  if (index.size() != axes_.size()) {
    throw ShapeError(title(), fmt::format("expected {} indices, got {}", axes_.size(), index.size()));
  }
  at::Tensor value = values_;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t size = value.size(0);
    if (index[i] < -size || index[i] >= size) {
      throw ShapeError(title(), fmt::format("index {} is out of range on axis {} of size {}", index[i],
                                            axes_[i].name, size));
    }
    value = value.select(0, index[i]);
  }
  return value.item<double>();
}

std::vector<GridCell> Grid::largest(std::size_t count) const {
  std::vector<GridCell> cells;
  for (std::int64_t i = 0; i < values_.numel(); ++i) {
    const double value = numbers(values_)[i];
    if (!std::isnan(value)) cells.push_back({unflatten(i, values_.sizes()), value});
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const auto& a, const auto& b) { return a.value > b.value; });
  cells.resize(std::min(count, cells.size()));
  return cells;
}

Grid Grid::rescaled(double zero, double one, std::string unit) const {
  if (zero == one) {
    throw ShapeError(
        title(),
        fmt::format("no scale has 0 and 1 at the same number; expected two numbers, got {} twice", zero));
  }
  return Grid((values_ - zero) / (one - zero), axes_, {.title = title(), .unit = std::move(unit)});
}

std::string Grid::to_csv() const {
  std::string text;
  for (const auto& axis : axes_) text += csv_field(axis.name) + ',';
  text += csv_field(unit()) + '\n';
  for (std::int64_t i = 0; i < values_.numel(); ++i) {
    const auto index = unflatten(i, values_.sizes());
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      text += csv_field(axes_[axis].labels[static_cast<std::size_t>(index[axis])]) + ',';
    }
    text += fmt::format("{}\n", numbers(values_)[i]);
  }
  return text;
}

std::string Grid::to_json() const {
  Json json{{"title", title()}, {"unit", unit()}, {"axes", Json::array()}};
  for (const auto& axis : axes_) json["axes"].push_back({{"name", axis.name}, {"labels", axis.labels}});
  json["values"] = nested(values_);
  return json.dump() + '\n';
}

void Grid::save(const std::filesystem::path& file) const {
  const auto ending = file.extension();
  if (ending == ".svg") return write_text(file, heat_map_svg(*this));
  if (ending == ".csv") return write_text(file, to_csv());
  if (ending == ".json") return write_text(file, to_json());
  throw IoError(file.string(),
                fmt::format("a grid cannot be saved as '{}'; expected a name ending in .svg, .csv or .json",
                            ending.string()));
}

void Grid::save(const std::filesystem::path& file, const HeatMapOptions& options) const {
  if (file.extension() != ".svg") {
    throw IoError(
        file.string(),
        fmt::format("only pictures have heat map options; expected a name ending in .svg, got '{}'; "
                    "leave out the options or change the name",
                    file.extension().string()));
  }
  write_text(file, heat_map_svg(*this, options));
}

std::ostream& operator<<(std::ostream& out, const Grid& grid) {
  const auto& axes = grid.axes();
  out << grid.title() << " (" << grid.unit() << ")\n";
  if (axes.size() == 1) {
    print_table(out, grid.values().unsqueeze(0), nullptr, axes[0]);
  } else if (axes.size() == 2) {
    print_table(out, grid.values(), &axes[0], axes[1]);
  } else {
    for (std::size_t i = 0; i < axes[0].labels.size(); ++i) {
      out << axes[0].name << ' ' << axes[0].labels[i] << '\n';
      print_table(out, grid.values()[static_cast<std::int64_t>(i)], &axes[1], axes[2]);
    }
  }
  return out;
}

}  // namespace hooked
