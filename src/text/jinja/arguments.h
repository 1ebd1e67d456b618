#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// The arguments of one call by parameter number. Fails if there are too many, if one is given twice, or if
/// one has a name that no parameter has.
class Bound {
 public:
  Bound(Machine& machine, std::string_view what, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters);

  /// What was given, or null.
  const Value* operator[](std::size_t parameter) const noexcept { return values_[parameter]; }
  /// Fails if it was not given.
  const Value& required(std::size_t parameter) const;

  // What was given, or the default; none counts as not given. All fail for a value of another type.
  std::optional<std::string> text(std::size_t parameter) const;
  std::string required_text(std::size_t parameter) const;
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  bool truth(std::size_t parameter, bool otherwise) const;

 private:
  [[noreturn]] void refuse(std::size_t parameter, std::string_view expected) const;

  Machine& machine_;
  std::string_view what_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace hooked::text::jinja
