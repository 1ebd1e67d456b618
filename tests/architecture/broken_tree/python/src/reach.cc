#include "engine/private.h"
