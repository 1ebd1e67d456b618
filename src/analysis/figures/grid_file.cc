// A grid as a file: writing it and reading it back.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "analysis/figures/grid_csv.h"
#include "analysis/figures/grid_record.h"
#include "analysis/figures/svg.h"
#include "core/json.h"
#include "core/json_number.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/heat_map.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"
#include "io/files/file_start.h"
#include "io/files/name_ending.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr const char* kTensor = "values";
constexpr const char* kLow = "low";
constexpr const char* kHigh = "high";
constexpr const char* kRecord = "grid";
constexpr const char* kInterval = "interval";
constexpr const char* kAbout = "about";

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
  if (grid.interval()) record[kInterval] = {{kAbout, grid.interval()->about}};
  return record;
}

Grid grid_of_json(std::string_view text, const RecordReader& reader) {
  const Json record = reader.parse(text);
  const auto axes = reader.axes(record);
  const auto numbers_of = [&](const Json& object, const char* key) {
    std::vector<double> numbers;
    reader.numbers(reader.field(object, key), axes, numbers);
    return at::tensor(numbers, at::kDouble);
  };
  const Grid grid = reader.grid(numbers_of(record, kTensor), axes, reader.description(record));
  const auto found = record.find(kInterval);
  if (found == record.end()) return grid;
  return reader.with_interval(
      grid, {numbers_of(*found, kLow), numbers_of(*found, kHigh), reader.text(*found, kAbout)});
}

Grid grid_of_safetensors(const std::filesystem::path& path, const RecordReader& reader) {
  const auto file = SafetensorsFile::open(path);
  const auto found = file.metadata().find(kRecord);
  if (found == file.metadata().end() || file.find(kTensor) == nullptr) reader.fail("the file holds no grid");
  const Json record = reader.parse(found->second);
  const Grid grid = reader.grid(file.read(kTensor), reader.axes(record), reader.description(record));
  const auto interval = record.find(kInterval);
  if (interval == record.end()) return grid;
  if (file.find(kLow) == nullptr || file.find(kHigh) == nullptr)
    reader.fail("the ranges of the numbers are missing");
  return reader.with_interval(grid, {file.read(kLow), file.read(kHigh), reader.text(*interval, kAbout)});
}

bool is_own_grid(const std::filesystem::path& file) {
  if (file.extension() == ".svg") return file_starts_with(file, kPictureStart);
  Grid::load(file);
  return true;
}

}  // namespace

void Grid::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(
      file, {.name = "a grid", .endings = {".csv", ".json", ".svg", ".safetensors"}, .is_ours = is_own_grid},
      overwrite);
}

std::string Grid::to_json() const {
  Json json = record_of(*this);
  const auto write = [&](Json& object, const char* key, const at::Tensor& tensor) {
    const auto* numbers = tensor.const_data_ptr<double>();
    object[key] = nested(numbers, tensor.sizes());
  };
  write(json, kTensor, values());
  if (interval_) {
    write(json[kInterval], kLow, interval_->low);
    write(json[kInterval], kHigh, interval_->high);
  }
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
  std::vector<std::pair<std::string, at::Tensor>> tensors{{kTensor, values()}};
  if (interval_) {
    tensors.emplace_back(kLow, interval_->low);
    tensors.emplace_back(kHigh, interval_->high);
  }
  TensorAxes axes;
  for (auto& [name, tensor] : tensors) {
    if (!fits) tensor = tensor.flatten();
    if (!fits || axes_.empty()) continue;
    for (const auto& axis : axes_) axes[name].push_back(axis.name);
  }
  const Provenance provenance{.more = {{kRecord, json_text(record_of(*this))}}};
  save_safetensors(file, tensors, {.metadata = to_metadata(provenance, axes)});
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
