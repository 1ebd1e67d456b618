#pragma once

// Everything a user needs, and the tensor operations that go with it. Smaller parts: run.h, patching.h,
// circuits.h.

#include "hooked/analysis/attention_grid.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/features.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/interchange.h"
#include "hooked/analysis/lens_maps.h"
#include "hooked/analysis/linear_fit.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/probe.h"
#include "hooked/analysis/probe_fits.h"
#include "hooked/analysis/repetition.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/row_intervals.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/analysis/superposition.h"
#include "hooked/analysis/token_axis.h"
#include "hooked/circuits.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/harvest/harvest.h"
#include "hooked/harvest/reductions.h"
#include "hooked/report/page.h"
#include "hooked/report/report.h"
