#include "cli/info.h"

#include "engine/private.h"
