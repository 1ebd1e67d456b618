#pragma once

#include "hooked/hooks/activation_name.h"

namespace hooked {

/// In a handler: throws on what a hook has thrown, of the same type, and says at which point. Standard
/// exceptions and ours get a new text, with the one that was thrown nested in them; an error of LibTorch gets
/// a line of context; what is of a type of its own is passed on as it is.
[[noreturn]] void rethrow_from_hook(const ActivationName& point);

}  // namespace hooked
