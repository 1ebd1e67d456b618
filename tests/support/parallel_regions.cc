#include "tests/support/parallel_regions.h"

#include <dlfcn.h>

#include <atomic>

namespace {

std::atomic<std::int64_t> entered{0};

}  // namespace

// The program's own definition, which it must export (-rdynamic), comes before that of libgomp, which it
// calls.
extern "C" [[gnu::visibility("default")]] void GOMP_parallel(void (*work)(void*), void* data,
                                                             unsigned threads, unsigned flags) {
  using Enter = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto kEnter = reinterpret_cast<Enter>(::dlsym(RTLD_NEXT, "GOMP_parallel"));
  ++entered;
  kEnter(work, data, threads, flags);
}

std::int64_t hooked::parallel_regions() { return entered; }
