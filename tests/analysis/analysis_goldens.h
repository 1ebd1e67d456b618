#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/golden_folder.h"
#include "tests/support/recorded.h"

namespace hooked {

/// tests/golden/<analysis>: an oracle's results of one kind of analysis for some models
/// (tests/golden/README.md, "Analyses").
inline std::filesystem::path analysis_folder(const std::string& analysis) {
  return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden" / analysis;
}

/// Its index: the models, and further facts of the analysis.
inline Json analysis_index(const std::string& analysis) {
  return Json::parse(std::ifstream(analysis_folder(analysis) / "index.json"));
}

/// One model of the index.
struct AnalysedModel {
  std::string analysis;
  std::string name;
  Json row;  ///< of the index, with what an analysis says of each model

  /// `raw`, and perhaps `folded`: the processing steps of each.
  std::map<std::string, std::vector<std::string>> processing() const {
    return row.at("processing").get<std::map<std::string, std::vector<std::string>>>();
  }

  /// The model in float64, processed as one of these entries says.
  HookedTransformer load(const std::string& processed = "raw") const {
    const std::vector<std::string> names = processing().at(processed);
    std::vector<ProcessingStep> steps;
    for (const std::string& step : names) steps.push_back(parse_processing_step(step));
    return HookedTransformer::load(golden_folder(row.at("folder").get<std::string>()).string(),
                                   {.dtype = at::kDouble, .processing = WeightProcessing::only(steps)});
  }

  /// The contents of a file of the model.
  RecordedTensors read(const std::string& file = "raw") const {
    return read_recorded(analysis_folder(analysis) / name / (file + ".safetensors"));
  }
};

/// Every model, in the order of the index.
inline std::vector<AnalysedModel> analysed_models(const std::string& analysis) {
  std::vector<AnalysedModel> models;
  const Json index = analysis_index(analysis);
  for (const Json& row : index.at("models"))
    models.push_back({analysis, row.at("model").get<std::string>(), row});
  return models;
}

/// A model processed in one way.
struct AnalysedWeights {
  AnalysedModel model;
  std::string processed;  ///< `raw` or `folded`

  std::string name() const { return model.name + "_" + processed; }
  HookedTransformer load() const { return model.load(processed); }
};

inline std::vector<AnalysedWeights> analysed_weights(const std::string& analysis) {
  std::vector<AnalysedWeights> all;
  for (const AnalysedModel& model : analysed_models(analysis)) {
    for (const auto& [processed, steps] : model.processing()) all.push_back({model, processed});
  }
  return all;
}

// For gtest.
inline void PrintTo(const AnalysedModel& model, std::ostream* out) { *out << model.name; }
inline void PrintTo(const AnalysedWeights& weights, std::ostream* out) { *out << weights.name(); }

}  // namespace hooked
