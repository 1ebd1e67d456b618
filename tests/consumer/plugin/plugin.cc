// A plug-in that exports one function of its own.
#include <hooked/hooked.h>

static_assert(HOOKED_VERSION_MAJOR * 100 + HOOKED_VERSION_MINOR >= 1);

extern "C" [[gnu::visibility("default")]] int plugin_layers(const char* folder) {
  try {
    const auto model = hooked::HookedTransformer::load(folder);
    return static_cast<int>(model.config().n_layers);
  } catch (const hooked::Error&) {
    return -1;
  }
}
