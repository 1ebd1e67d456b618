#include <hooked/core/error.h>

#include <CLI/CLI.hpp>

#include "neighbour.h"

namespace hooked {

enum class Other { one };
const int kTwice{2};

int twice(const Other& one, int) { return 2; }
int twice(int overload) { return overload; }

namespace {
struct Once {};
}  // namespace

}  // namespace hooked
