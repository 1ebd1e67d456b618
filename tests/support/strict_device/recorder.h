#pragma once

#include <functional>

/// What the strict device is handed, kept so that it can be handed out again: how it records runs.
namespace hooked::strict {

/// One thing that the device was handed, as it can be done again.
using Step = std::function<void()>;

/// Whether this thread is recording.
bool is_recording() noexcept;
/// Adds what was just done to the recording of this thread, if there is one.
void record_step(Step step);

}  // namespace hooked::strict
