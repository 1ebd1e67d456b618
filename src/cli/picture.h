#pragma once

#include <string>

#include "cli/caption.h"
#include "cli/patch_output.h"
#include "cli/patch_prompts.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/heat_map.h"
#include "options/command_options.h"

namespace hooked::cli {

/// Whether a file is a picture, by its ending.
bool is_picture(const std::string& file);

/// How a result is saved.
struct GridSave {
  bool force;  ///< --force
  /// Not ended early. Then cells without a number are places that do not exist, such as edges from later to
  /// earlier layers, and a picture leaves them empty.
  bool whole;
  Caption caption;  ///< of a picture
  HeatMapOptions picture = {};
};

/// Saves a result as data, or as a picture, which has the caption in its title and its unit. A picture of the
/// parts of a model is a table of layers and heads, in which parts without a layer have rows of their own.
void save_grid(const Grid& grid, const std::string& file, const GridSave& how);

/// Saves the numbers of a sweep. A picture is rescaled unless --scores is given or nothing can be rescaled,
/// has no colour where a patch changes nothing, and names model, prompts and answers. Returns false, and
/// saves nothing, if the sweep was ended before its first number.
bool save_sweep(const SweepNumbers& sweep, const PatchOptions& options, const PatchPrompts& prompts,
                const std::string& file);

/// Saves the scores of nodes or edges; a picture names model, prompts and answers. Without any number there
/// is no file.
void save_parts(const Grid& scores, bool whole, const CircuitsOptions& options, const PatchPrompts& prompts);

}  // namespace hooked::cli
