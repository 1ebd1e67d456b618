#include "analysis/runs/late.h"
