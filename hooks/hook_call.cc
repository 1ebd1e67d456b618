#include "hooks/hook_call.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <typeinfo>

#include "hooked/core/error.h"

namespace hooked {
namespace {

// An exception of exactly one of these types, thrown again with `place` in its text. A type derived from one
// of them would lose what it adds.
template <typename... E>
void rethrow_as(const std::exception& error, const std::string& place) {
  const auto rethrow = [&]<typename T>(const T*) {
    if (typeid(error) != typeid(T)) return;
    if constexpr (std::derived_from<T, Error>) {
      const auto& own = static_cast<const T&>(error);
      throw T(own.where(), fmt::format("{}; {}", own.message(), place));
    } else {
      throw T(fmt::format("{} ({})", error.what(), place));
    }
  };
  (rethrow(static_cast<const E*>(nullptr)), ...);
}

}  // namespace

std::optional<at::Tensor> call_hook(const HookFunction& hook, const at::Tensor& value,
                                    const ActivationName& name, const HookStep& step) {
  const auto place = [&] { return fmt::format("in a hook at {}", name.to_string()); };
  try {
    return hook(value, name, step);
  } catch (c10::Error& error) {
    error.add_context(place());
    throw;
  } catch (const std::exception& error) {
    rethrow_as<CheckpointError, ConfigError, ShapeError, HookError, TokenizerError, IoError, MemoryError,
               std::runtime_error, std::range_error, std::overflow_error, std::underflow_error,
               std::logic_error, std::invalid_argument, std::domain_error, std::length_error,
               std::out_of_range>(error, place());
    throw;
  }
}

}  // namespace hooked
