#pragma once

// Circuits: of nodes and edges, judged by runs, and of the weights alone.

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/singular_directions.h"
#include "hooked/analysis/virtual_weights.h"
#include "hooked/patching.h"
