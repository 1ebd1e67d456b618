#include "hooked/weights/processing.h"

namespace hooked {

class Twice {};
using Other = int;
constexpr int kTwice = 1;

int twice(const Other& first, int second = 1) { return first + second; }

namespace {
struct Once {};
}  // namespace

}  // namespace hooked
