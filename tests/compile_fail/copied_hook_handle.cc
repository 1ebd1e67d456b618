// expect: deleted
#include "hooked/engine/hook_handle.h"

hooked::HookHandle moved(hooked::HookHandle&& handle) { return std::move(handle); }

#ifdef HOOKED_MUST_NOT_COMPILE
hooked::HookHandle copied(const hooked::HookHandle& handle) { return handle; }
#endif
