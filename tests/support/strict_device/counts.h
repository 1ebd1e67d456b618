#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What happened on the strict device.
namespace hooked::strict {

/// Counts of the whole process.
struct Counts {
  /// Operators that launch at least one kernel, and copies for which the host does not wait. Views and
  /// allocations launch none; sort, topk and cumsum count once.
  std::int64_t launches = 0;
  /// Times that the host would have waited for a GPU: for a number, a size, or a copy that is not between
  /// pinned memory and the device.
  std::int64_t waits = 0;

  friend Counts operator-(const Counts& a, const Counts& b) {
    return {a.launches - b.launches, a.waits - b.waits};
  }
  friend Counts operator+(const Counts& a, const Counts& b) {
    return {a.launches + b.launches, a.waits + b.waits};
  }
  bool operator==(const Counts&) const = default;
};

/// Since the process began.
Counts counts();

/// Those of a call.
template <typename Call>
Counts counts_of(const Call& call) {
  const Counts before = counts();
  call();
  return counts() - before;
}

/// The names of the operators that this thread launches while it lives, in order.
class LaunchList {
 public:
  LaunchList();
  ~LaunchList();
  LaunchList(const LaunchList&) = delete;
  LaunchList& operator=(const LaunchList&) = delete;

  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
};

/// Records the events while it lives, with the place in the program that each comes from.
class Trace {
 public:
  enum class Of : std::uint8_t { waits, waits_and_launches };
  explicit Trace(Of of = Of::waits);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// A line for each kind of event and place: `2 waits: item < hooked::Sampler::pick < ...`, the functions of
  /// the program's own code from the innermost on.
  std::string text() const;
};

/// While it lives, a wait throws c10::Error, as it does while CUDA records a graph.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

/// While it lives, launches of this thread are not counted: those of a recording are one.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

// For the device.

/// A kernel, or a copy for which nobody waits.
void note_launch(const std::string& what);
/// A wait. Throws c10::Error while something is recorded.
void note_wait(const std::string& what);

}  // namespace hooked::strict
