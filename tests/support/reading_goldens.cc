#include "tests/support/reading_goldens.h"

#include <fstream>

namespace hooked {
namespace {

std::filesystem::path reading_folder() {
  return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/reading";
}

Json read_reading_index() { return Json::parse(std::ifstream(reading_folder() / "index.json")); }

std::vector<ReadingCall> read_calls() {
  std::vector<ReadingCall> calls;
  const auto index = read_reading_index();
  for (const auto& row : index.at("calls"))
    calls.push_back({row.at("method").get<std::string>(), row.at("arguments")});
  return calls;
}

std::vector<ReadingGolden> read_models() {
  std::vector<ReadingGolden> goldens;
  const auto index = read_reading_index();
  for (const auto& row : index.at("models")) {
    ReadingGolden golden{.model = row.at("model").get<std::string>(),
                         .folder = reading_folder().parent_path() / row.at("folder").get<std::string>(),
                         .processing = row.at("processing"),
                         .labels = {},
                         .absent = {}};
    for (const auto& [number, labels] : row.at("labels").items())
      golden.labels[std::stoul(number)] = labels.get<std::vector<std::string>>();
    for (const auto& [file, steps] : golden.processing) golden.absent[file];
    for (const auto& call : row.at("absent")) {
      golden.absent[call.at("file").get<std::string>()][call.at("call").get<std::size_t>()] =
          call.at("reason").get<std::string>();
    }
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

}  // namespace

const std::vector<ReadingCall>& reading_calls() {
  static const std::vector<ReadingCall> calls = read_calls();
  return calls;
}

const std::vector<ReadingGolden>& reading_goldens() {
  static const std::vector<ReadingGolden> goldens = read_models();
  return goldens;
}

RecordedTensors ReadingGolden::read(const std::string& file) const {
  return read_recorded(reading_folder() / model / (file + ".safetensors"));
}

}  // namespace hooked
