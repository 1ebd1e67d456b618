#include "tests/support/patching_goldens.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace hooked {
namespace {

std::vector<PatchingGolden> read_patching_index() {
  const auto index = nlohmann::json::parse(std::ifstream(patching_folder() / "index.json"));
  std::vector<PatchingGolden> goldens;
  for (const auto& row : index.at("models")) {
    goldens.push_back({.model = row.at("model"),
                       .folder = patching_folder().parent_path() / row.at("folder").get<std::string>(),
                       .processing = row.at("processing"),
                       .exceptions = {}});
  }
  for (const auto& row : index.at("exceptions")) {
    const auto golden =
        std::ranges::find(goldens, row.at("model").get<std::string>(), &PatchingGolden::model);
    if (golden == goldens.end()) throw std::out_of_range("an exception of no model: " + row.dump());
    golden->exceptions.push_back({.files = row.at("files"),
                                  .functions = row.at("functions"),
                                  .kind = row.at("kind"),
                                  .reason = row.at("reason")});
  }
  return goldens;
}

}  // namespace

std::filesystem::path patching_folder() {
  return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/patching";
}

const std::vector<PatchingGolden>& patching_goldens() {
  static const std::vector<PatchingGolden> goldens = read_patching_index();
  return goldens;
}

const PatchingException* PatchingGolden::exception(const std::string& file,
                                                   const std::string& function) const {
  const auto found = std::ranges::find_if(exceptions, [&](const PatchingException& one) {
    return one.files.contains(file) && one.functions.contains(function);
  });
  return found == exceptions.end() ? nullptr : &*found;
}

RecordedTensors PatchingGolden::read(const std::string& file) const {
  return read_recorded(patching_folder() / model / (file + ".safetensors"));
}

}  // namespace hooked
