#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/interpreter.h"

namespace hooked::text::jinja {

/// A macro, or the body of a call block. It reads the names of the scope that it was defined in.
class Macro final : public Callable {
 public:
  Macro(Interpreter& interpreter, std::string name, const Parameters& parameters, const Block& body,
        const Scope& around);
  Value call(Machine& machine, const Arguments& arguments) override;
  Value member(Machine& machine, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  std::string name_;
  const Parameters& parameters_;
  const Block& body_;
  const Scope& around_;
};

/// The `loop` of a for.
class Loop final : public Callable {
 public:
  Loop(Interpreter& interpreter, const For& loop, const Scope& around, std::shared_ptr<const List> items,
       int depth);

  /// Iterates over another list in the same way; for loops that are `recursive`.
  Value call(Machine& machine, const Arguments& arguments) override;
  Value member(Machine& machine, std::string_view name) override;
  std::size_t length() const override { return items_->items.size(); }

  std::size_t at() const noexcept { return at_; }
  const Value& item() const { return items_->items[at_]; }
  void advance() noexcept { ++at_; }

 private:
  static Value cycle(Machine& machine, const Value& self, const Arguments& arguments);
  static Value changed(Machine& machine, const Value& self, const Arguments& arguments);

  Interpreter& interpreter_;
  const For& loop_;
  const Scope& around_;
  std::shared_ptr<const List> items_;
  int depth_;
  std::size_t at_ = 0;
  std::optional<std::vector<Value>> seen_;  ///< the last arguments of changed()
};

}  // namespace hooked::text::jinja
