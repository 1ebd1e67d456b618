#include "tests/support/drawn.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "hooked/io/safetensors.h"
#include "tests/support/counter.h"

namespace hooked {
namespace {

/// A dtype, and how many bits of a number are drawn.
struct DrawnType {
  at::ScalarType dtype;
  int bits;
};

const DrawnType& type_of(const DrawnTensor& tensor) {
  static const std::map<std::string, DrawnType> types = {{"F64", {at::kDouble, 53}},
                                                         {"F32", {at::kFloat, 11}},
                                                         {"F16", {at::kHalf, 11}},
                                                         {"BF16", {at::kBFloat16, 8}}};
  const auto found = types.find(tensor.dtype);
  if (found == types.end()) throw std::runtime_error(tensor.name + ": unknown dtype " + tensor.dtype);
  return found->second;
}

/// A name with `{0-3}` as its four names.
std::vector<std::string> unfolded(const std::string& name) {
  static const std::regex braces(R"(\{(\d+)-(\d+)\})");
  std::smatch range;
  if (!std::regex_search(name, range, braces)) return {name};
  std::vector<std::string> names;
  for (int number = std::stoi(range[1]); number <= std::stoi(range[2]); ++number) {
    for (const std::string& rest : unfolded(range.suffix()))
      names.push_back(range.prefix().str() + std::to_string(number) + rest);
  }
  return names;
}

std::vector<std::int64_t> sizes_from(const std::string& text) {
  std::vector<std::int64_t> sizes;
  std::istringstream stream(text == "-" ? "" : text);
  for (std::string size; std::getline(stream, size, ',');) sizes.push_back(std::stoll(size));
  return sizes;
}

/// A folder's tensors; those that are copies get what they copy.
std::vector<std::pair<std::string, at::Tensor>> draw_all(const std::string& folder,
                                                         const std::vector<DrawnTensor>& list) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const DrawnTensor& tensor : list) {
    const bool copied = tensor.how.starts_with('@');
    const auto source =
        std::ranges::find(list, copied ? tensor.how.substr(1) : tensor.name, &DrawnTensor::name);
    if (source == list.end())
      throw std::runtime_error(tensor.name + " is a copy of no tensor: " + tensor.how);
    tensors.emplace_back(tensor.name, draw(folder, *source));
  }
  return tensors;
}

/// Copies a folder without its recorded files.
void copy_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  static const std::set<std::string> recorded = {"golden.safetensors", "golden_processed.safetensors",
                                                 "gradients.safetensors", "expected.safetensors"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (entry.is_directory() || recorded.contains(entry.path().filename().string())) continue;
    const auto file = to / entry.path().lexically_relative(from);
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(entry.path(), file);
  }
}

}  // namespace

std::map<std::string, std::vector<DrawnTensor>> read_drawn(const std::filesystem::path& file) {
  std::ifstream lines(file);
  if (!lines) throw std::runtime_error("cannot read " + file.string());
  std::map<std::string, std::vector<DrawnTensor>> folders;
  std::vector<DrawnTensor>* tensors = nullptr;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, dtype, shape, how, more;
    if (!(words >> name >> dtype)) {
      tensors = &folders[name];
    } else if (tensors == nullptr || !(words >> shape >> how) || words >> more) {
      throw std::runtime_error(file.string() + ": " + line);
    } else {
      for (std::string& one : unfolded(name))
        tensors->push_back({std::move(one), dtype, sizes_from(shape), how});
    }
  }
  return folders;
}

at::Tensor draw(const std::string& folder, const DrawnTensor& tensor) {
  const auto& [dtype, bits] = type_of(tensor);
  const std::string& how = tensor.how;
  const bool norm = how == "norm";
  const std::uint64_t first = hash_of(folder + "/" + tensor.name);
  at::Tensor numbers = at::empty(tensor.shape, at::kDouble);
  if (how.starts_with('=')) return numbers.fill_(std::stod(how.substr(1))).to(dtype);
  int exponent = 0;
  std::istringstream number_text(how);
  if (!norm && (!(number_text >> exponent) || !number_text.eof()))
    throw std::runtime_error(tensor.name + ": drawn how? " + how);
  auto* number = numbers.data_ptr<double>();
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    const std::uint64_t drawn = splitmix64(first + static_cast<std::uint64_t>(i)) >> (64 - (norm ? 6 : bits));
    const double odd =
        static_cast<double>(2 * static_cast<std::int64_t>(drawn) + 1 - (std::int64_t{1} << bits));
    number[i] = norm ? (static_cast<double>(drawn) + 32) / 64 : std::ldexp(odd, exponent - bits);
  }
  return numbers.to(dtype);
}

void write_model_folders(const std::filesystem::path& goldens, const std::filesystem::path& out) {
  // Moved into place when complete, for tests that run meanwhile.
  const std::filesystem::path made = out.string() + ".partial", before = out.string() + ".before";
  std::filesystem::remove_all(made);
  const auto drawn = read_drawn(goldens / "tensors.txt");
  std::size_t listed = 0;
  for (const char* kind : {"cases", "models", "adapters"}) {
    for (const auto& entry : std::filesystem::directory_iterator(goldens / kind)) {
      const std::string folder = kind + std::string("/") + entry.path().filename().string();
      copy_model(entry.path(), made / folder);
      const auto list = drawn.find(folder);
      if (list == drawn.end()) continue;
      save_safetensors(made / folder / "model.safetensors", draw_all(folder, list->second),
                       {.metadata = {{"format", "pt"}}});
      ++listed;
    }
  }
  if (listed != drawn.size()) throw std::runtime_error("tensors.txt lists a missing folder");
  std::filesystem::remove_all(before);
  if (std::filesystem::exists(out)) std::filesystem::rename(out, before);
  std::filesystem::rename(made, out);
  std::filesystem::remove_all(before);
}

}  // namespace hooked
