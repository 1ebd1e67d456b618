#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/syntax.h"

namespace hooked::text::jinja {

/// The names of one part of a template: the whole, a loop's body, a macro's. Names that it does not have are
/// looked up in the scope around it.
struct Scope {
  const Scope* around = nullptr;
  std::vector<std::pair<std::string, Value>> names{};
  mutable bool kept = false;  ///< by a macro that was defined in it

  const Value* find(std::string_view name) const noexcept;
  void set(std::string_view name, Value value);
};

/// Bytes charged for a name in a scope.
inline constexpr std::uint64_t kNameBytes = 96;

/// Walks a template's tree.
class Interpreter {
 public:
  explicit Interpreter(Machine& machine) : machine_(machine) {}

  /// The text of `body` with these names. Throws TokenizerError.
  std::string render(const Body& body, std::vector<std::pair<std::string, Value>> names);

  /// What a statement asks the loop around it to do.
  enum class Flow { go_on, next_item, leave_loop };

  Machine& machine() noexcept { return machine_; }
  /// The text of `body`, in a scope that the caller has made.
  std::string body_text(const Body& body, Scope& scope);
  Value evaluate(const Expression& expression, const Scope& scope);

  /// A scope that is kept as long as it is needed.
  class [[nodiscard]] Inner {
   public:
    Inner(Interpreter& interpreter, const Scope& around);
    Inner(Interpreter& interpreter, const Scope& around, const Body& body);
    ~Inner();
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;
    Scope& scope() noexcept { return *scope_; }

   private:
    Interpreter& interpreter_;
    Scope* scope_;
  };

 private:
  Flow run(const Block& block, Scope& scope, std::string& out);
  Flow run(const Statement& statement, Scope& scope, std::string& out);
  Flow run_if(const If& statement, Scope& scope, std::string& out);
  std::shared_ptr<const List> loop_items(const For& loop, const Scope& scope, const Value& list);
  // Statements that do not affect a loop.
  void run_plain(const Plain& form, Scope& scope, std::string& out);
  void run_plain(const Print& form, Scope& scope, std::string& out);
  void run_plain(const Set& form, Scope& scope, std::string& out);
  void run_plain(const SetBlock& form, Scope& scope, std::string& out);
  void run_plain(const For& form, Scope& scope, std::string& out);
  void run_plain(const MacroDefinition& form, Scope& scope, std::string& out);
  void run_plain(const CallBlock& form, Scope& scope, std::string& out);
  void run_plain(const FilterBlock& form, Scope& scope, std::string& out);
  void run_plain(const Generation& form, Scope& scope, std::string& out);
  void print(std::string_view text, std::string& out);

  std::string inner_text(const Body& body, const Scope& scope);
  void assign(const Target& target, Scope& scope, Value value);
  Value filtered_text(const Expression* filter, const Scope& scope, std::string text);

  Value name(const Name& name, const Scope& scope);
  Value list_literal(const ListLiteral& literal, const Scope& scope);
  Value dict_literal(const DictLiteral& literal, const Scope& scope);
  Value conditional(const Conditional& conditional, const Scope& scope);
  bool compared(const Compared& compared, const Scope& scope);
  Value joined(const Joined& joined, const Scope& scope);
  Arguments arguments(const CallArguments& given, const Scope& scope);
  Value call(const Call& call, std::size_t at, const Scope& scope, const Value* caller);
  Value evaluated_or_none(const ExpressionPtr& expression, const Scope& scope);

  Machine& machine_;
  std::vector<std::unique_ptr<Scope>> scopes_;  ///< all existing scopes
  std::vector<Scope*> free_;                    ///< those of them that are not in use
  std::uint64_t printed_ = 0;
  const Value* block_text_ = nullptr;  ///< the input of a filter without a value
};

/// A macro, or the body of a call block. It reads the names of the scope that it was defined in.
class Macro final : public Callable {
 public:
  Macro(Interpreter& interpreter, std::string name, const Parameters& parameters, const Body& body,
        const Scope& around);
  Value call(Machine& machine, const Arguments& arguments) override;
  Value member(Machine& machine, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  std::string name_;
  const Parameters& parameters_;
  const Body& body_;
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
