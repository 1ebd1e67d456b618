#pragma once

/// What a shared library built from hooked exports: everything that a public header declares in `namespace
/// HOOKED_EXPORT hooked`. The rest, and the libraries compiled into it, stay hidden.
#define HOOKED_EXPORT [[gnu::visibility("default")]]
