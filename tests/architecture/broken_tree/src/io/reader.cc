#include <hooked/core/error.h>

#include <CLI/CLI.hpp>

#include "neighbour.h"
