#pragma once

/// What a shared library made of hooked shows: everything that a public header declares in
/// `namespace HOOKED_EXPORT hooked`. The rest, and the libraries compiled into it, stays hidden.
#define HOOKED_EXPORT [[gnu::visibility("default")]]
