#pragma once

// Activation patching: sweeps, ablations, paths, their estimates by gradients, and the grids that they
// return.

#include "hooked/analysis/ablation.h"
#include "hooked/analysis/answers.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/bar_plot.h"
#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/feature_patching.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/head_runs.h"
#include "hooked/analysis/heat_map.h"
#include "hooked/analysis/line_plot.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/patch_source.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/analysis/spelling.h"
#include "hooked/analysis/sweep.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/run.h"
