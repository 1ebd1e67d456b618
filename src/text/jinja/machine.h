#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// The limits of a template. Exceeding one is an error.
struct Limits {
  std::size_t template_bytes = std::size_t{1} << 20;
  int syntax_depth = 100;              ///< nesting of its expressions and statements
  std::uint64_t steps = 20'000'000;    ///< roughly one second of work
  std::uint64_t bytes = 256ULL << 20;  ///< of all values that it creates, whether they are kept or not
  std::uint64_t output = 64ULL << 20;  ///< bytes of the rendered text
  int depth = 800;                     ///< of evaluation: recursive macros
  int value_depth = 100;               ///< of nested lists
  std::int64_t range = 100'000;        ///< items of a range(), as in Jinja's sandbox
};

/// The text of a template, and its name in messages.
class Source {
 public:
  /// Newlines become `\n`, and one at the end is removed, as Jinja does. Throws TokenizerError for a text
  /// that is too long or not UTF-8.
  Source(std::string_view text, std::string_view name, const Limits& limits);

  const std::string& text() const noexcept { return text_; }
  /// `name:line:column` of the byte `at`; both count from 1, columns in characters.
  std::string place(std::size_t at) const;
  /// Throws TokenizerError about the byte `at`.
  [[noreturn]] void fail(std::size_t at, std::string_view what) const;

 private:
  std::string text_, name_;
};

/// Counts the steps of one rendering and creates its values. All of them are refused beyond the limits.
class Machine {
 public:
  Machine(const Source& source, const Limits& limits, std::optional<std::time_t> now)
      : source_(source), limits_(limits), now_(now) {}

  const Limits& limits() const noexcept { return limits_; }
  std::time_t now() const { return now_ ? *now_ : std::time(nullptr); }

  void at(std::size_t place) noexcept { at_ = place; }  ///< where later errors are reported
  std::size_t at() const noexcept { return at_; }
  [[noreturn]] void fail(std::string_view what) const { source_.fail(at_, what); }
  /// Fails because `what` exists in Jinja or Python, but is not supported here.
  [[noreturn]] void unsupported(std::string_view what) const;

  void step(std::uint64_t count = 1) {
    if ((steps_ += count) > limits_.steps) too_much_work();
  }
  /// Counts bytes that are created, and the work of processing them.
  void charge(std::uint64_t bytes) {
    if ((bytes_ += bytes) > limits_.bytes) too_much_memory();
    step(bytes / 32);
  }
  /// Counts the work of processing existing bytes.
  void read(std::uint64_t bytes) { step(1 + bytes / 32); }

  Value text(std::string text);
  Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  Value dict(std::vector<std::pair<Value, Value>> members);
  Value undefined(std::string why);
  Value undefined_name(std::string_view name);
  Namespace* new_namespace();
  Value own(std::unique_ptr<Callable> callable);

  /// Holds one level of evaluation.
  class [[nodiscard]] Level {
   public:
    explicit Level(Machine& machine) : machine_(machine) {
      if (++machine_.depth_ > machine_.limits_.depth) machine_.too_deep();
    }
    ~Level() { --machine_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Machine& machine_;
  };

 private:
  [[noreturn]] void too_much_work() const;
  [[noreturn]] void too_much_memory() const;
  [[noreturn]] void too_deep();
  int depth_of(const Value& value) const noexcept;
  void check_depth(int depth) const;

  const Source& source_;
  Limits limits_;
  std::optional<std::time_t> now_;
  std::size_t at_ = 0;
  std::uint64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
  std::deque<Namespace> namespaces_;
  std::vector<std::unique_ptr<Callable>> callables_;
};

}  // namespace hooked::text::jinja
