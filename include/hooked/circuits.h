#pragma once

// Circuits: of nodes and edges, judged by runs, of the weights alone, and graphs of features.

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/circuit_links.h"
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/analysis/graph_file.h"
#include "hooked/analysis/graph_interventions.h"
#include "hooked/analysis/graph_links.h"
#include "hooked/analysis/graph_pruning.h"
#include "hooked/analysis/node_links.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/singular_directions.h"
#include "hooked/analysis/virtual_weights.h"
#include "hooked/patching.h"
