#include <hooked/core/error.h>

#include <CLI/CLI.hpp>

#include "neighbour.h"

namespace hooked {

enum class Other { one };
const int kTwice{2};

int twice(const Other& one, int) { return 2; }
const char* kAdvice =
    "expected "  // two literals are one text
    "Other::one";

int twice(int overload) { return overload; }

namespace {
struct Once {};
}  // namespace

}  // namespace hooked
