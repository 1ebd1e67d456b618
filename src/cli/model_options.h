#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/load_options.h"

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

  /// How it is loaded.
  LoadOptions load_options() const;

  /// Loads the model; sets the number of threads first.
  HookedTransformer load() const;
};

/// Adds MODEL.
CLI::Option* add_model(CLI::App& app, std::string& model);

/// An option's check: an integer from 1 on.
CLI::Validator at_least_one();

/// Adds MODEL, --device, --dtype, --threads, --process and --no-processing.
void add_model_options(CLI::App& app, ModelOptions& options);

}  // namespace hooked::cli
