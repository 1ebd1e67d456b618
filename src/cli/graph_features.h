#pragma once

#include <vector>

#include "cli/input_options.h"
#include "hooked/analysis/attribution_graph.h"

namespace hooked::cli {

/// Dictionaries of the command line, which replace the MLPs of a graph; without any the neurons.
GraphFeatures graph_features(const std::vector<GivenDictionary>& dictionaries);

}  // namespace hooked::cli
