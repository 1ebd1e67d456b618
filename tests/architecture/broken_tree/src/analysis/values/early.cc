#include "analysis/runs/late.h"
#include "hooked/analysis/head_place.h"
