#pragma once

#include <cstddef>
#include <memory>
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
  explicit Loop(std::shared_ptr<const List> items) : items_(std::move(items)) {}

  Value call(Machine& machine, const Arguments& arguments) override;  ///< fails
  Value member(Machine& machine, std::string_view name) override;
  std::size_t length() const override { return items_->items.size(); }

  std::size_t at() const noexcept { return at_; }
  const Value& item() const { return items_->items[at_]; }
  void advance() noexcept { ++at_; }

 private:
  std::shared_ptr<const List> items_;
  std::size_t at_ = 0;
};

}  // namespace hooked::text::jinja
