// The options of `hooked save`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_save(CLI::App& app) {
  auto options = std::make_shared<SaveOptions>();
  add_model_options(app, options->model);
  app.add_option("--out", options->out,
                 "the folder to write: new, empty, or with nothing but a model that hooked saved, which goes")
      ->option_text(kFolderWord)
      ->required();
  app.add_flag("--packed", options->packed,
               "matrices as this processor multiplies them: mapped at load, shared by processes");
  add_json_option(app, options->json);
  return [options] { return *options; };
}

}  // namespace hooked::cli
