#include "tests/support/strict_device/counts.h"

#include <c10/util/Exception.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "tests/support/strict_device/places.h"
#include "tests/support/strict_device/recorder.h"

namespace hooked::strict {
namespace {

struct Log {
  std::atomic<std::int64_t> launches = 0, waits = 0;
  std::atomic<int> recordings = 0;
  std::atomic<int> waits_traced = 0, launches_traced = 0;
  std::mutex mutex;  // of what follows
  std::map<std::tuple<const char*, std::string, Frames>, std::int64_t> events;
};

// The last tensors may go after every static.
Log& log() {
  static auto* const one = new Log;
  return *one;
}

void trace(const char* kind, const std::string& what) {
  const std::lock_guard lock(log().mutex);
  ++log().events[{kind, what, frames_here()}];
}

thread_local bool uncounted = false;
thread_local std::vector<std::string>* launched = nullptr;

}  // namespace

Counts counts() { return {.launches = log().launches, .waits = log().waits}; }

void note_launch(const std::string& what) {
  if (uncounted) return;
  ++log().launches;
  if (launched != nullptr) launched->push_back(what);
  if (log().launches_traced > 0) trace("launches", what);
}

void note_wait(const std::string& what) {
  ++log().waits;
  if (log().waits_traced > 0) trace("waits", what);
  TORCH_CHECK(log().recordings == 0 && !is_recording(), "strict device: ", what,
              " makes the host wait for the device, which is refused while its work is recorded\n",
              described(frames_here()));
}

LaunchList::LaunchList() { launched = &names_; }
LaunchList::~LaunchList() { launched = nullptr; }

Trace::Trace(Of of) {
  const std::lock_guard lock(log().mutex);
  log().events.clear();
  ++log().waits_traced;
  log().launches_traced = of == Of::waits_and_launches ? 1 : 0;
}

Trace::~Trace() {
  --log().waits_traced;
  log().launches_traced = 0;
}

std::string Trace::text() const {
  const std::lock_guard lock(log().mutex);
  std::string text;
  for (const auto& [event, times] : log().events) {
    const auto& [kind, what, frames] = event;
    text += fmt::format("{} {}: {}{}\n", times, kind, what, described(frames));
  }
  return text;
}

Uncounted::Uncounted() { uncounted = true; }
Uncounted::~Uncounted() { uncounted = false; }

Recording::Recording() { ++log().recordings; }
Recording::~Recording() { --log().recordings; }

}  // namespace hooked::strict
