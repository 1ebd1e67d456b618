#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/load_options.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace hooked::cli {

/// Options of commands that load a model.
struct ModelOptions {
  std::string model;
  std::string device = "cpu";
  std::string dtype;
  int threads = 0;  ///< 0: LibTorch's own choice
  std::vector<std::string> process;
  bool no_processing = false;

  /// Nothing when the command line does not say.
  std::optional<WeightProcessing> processing() const;

  /// Loads the model; sets the number of threads first.
  HookedTransformer load() const;
  /// As `load`, with the weights as they are in the file.
  HookedTransformer load_raw() const;
};

/// Adds MODEL.
CLI::Option* add_model(CLI::App& app, std::string& model);

/// An option's check: an integer from 1 on.
CLI::Validator at_least_one();

/// Adds MODEL, --device, --dtype, --threads, --process and --no-processing.
void add_model_options(CLI::App& app, ModelOptions& options);

/// What the config file of a model says, without its weights. Throws as loading does.
FamilyConfig read_model_config(const std::string& model);

}  // namespace hooked::cli
