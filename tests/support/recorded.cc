#include "tests/support/recorded.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "hooked/io/safetensors.h"
#include "tests/support/counter.h"

namespace hooked {
namespace {

/// In [-1, 1), and a multiple of 2^-52.
double weight(std::uint64_t seed, std::uint64_t which, std::uint64_t place) {
  const std::uint64_t drawn = splitmix64(seed + (which << 32) + place) >> 11;
  return 2.0 * (static_cast<double>(drawn) * 0x1p-53) - 1.0;
}

/// A line of the metadata: name, shape and perhaps three numbers about places.
Projection parse_line(const std::string& line) {
  Projection read;
  std::string shape;
  std::istringstream text(line);
  text >> read.name >> shape;
  std::istringstream sizes(shape);
  for (std::string size; std::getline(sizes, size, ',');) read.shape.push_back(std::stoll(size));
  text >> read.minus_infinities >> read.left_out >> std::hex >> read.places;
  return read;
}

}  // namespace

Projection projection_of(const std::string& name, const at::Tensor& value, const at::Tensor& left_out) {
  Projection made{.name = name, .shape = value.sizes().vec()};
  const at::Tensor numbers = value.detach().to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor skipped = left_out.defined() ? left_out.to(at::kCPU).contiguous() : left_out;
  const bool* skip = skipped.defined() ? skipped.const_data_ptr<bool>() : nullptr;
  const double* x = numbers.const_data_ptr<double>();
  const std::uint64_t seed = hash_of(name);
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    const auto place = static_cast<std::uint64_t>(i);
    const bool is_left_out = skip != nullptr && skip[i];
    if (!is_left_out && std::isfinite(x[i])) {
      made.largest = std::max(made.largest, std::abs(x[i]));
      for (std::size_t sum = 0; sum < made.sums.size(); ++sum)
        made.sums[sum] += weight(seed, sum, place) * x[i];
      continue;
    }
    const std::uint64_t kind = is_left_out ? 2 : x[i] == -INFINITY ? 1 : 3;
    ++(kind == 1 ? made.minus_infinities : kind == 2 ? made.left_out : made.not_finite);
    made.places += splitmix64(place + (kind << 32));
  }
  return made;
}

at::IntArrayRef Recorded::sizes() const {
  return numbers() != nullptr ? numbers()->sizes() : at::IntArrayRef(projection().shape);
}

Recorded Recorded::reshaped(at::IntArrayRef shape) const {
  if (numbers() != nullptr) return numbers()->reshape(shape);
  Projection same = projection();
  same.shape = shape.vec();
  return same;
}

RecordedTensors read_recorded(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  RecordedTensors recorded;
  for (const TensorInfo& info : file.tensors()) recorded.emplace(info.name, file.read(info.name));
  const auto projected = file.metadata().find("projected");
  if (projected == file.metadata().end()) return recorded;
  const at::Tensor table = recorded.extract("projections").mapped().tensor();  // [tensor, largest and sums]
  const double* row = table.const_data_ptr<double>();
  std::istringstream lines(projected->second);
  for (std::string line; std::getline(lines, line); row += table.size(1)) {
    Projection read = parse_line(line);
    read.largest = row[0];
    std::copy_n(row + 1, read.sums.size(), read.sums.begin());
    recorded.emplace(read.name, read);
  }
  return recorded;
}

}  // namespace hooked
