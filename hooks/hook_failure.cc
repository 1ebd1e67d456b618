#include "hooks/hook_failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "hooked/core/error.h"

namespace hooked {
namespace {

// Only what is exactly of one of these types: of a derived one, more than the text would be lost.
template <typename... Known>
void throw_with_text(const std::exception& thrown, const std::string& text) {
  ((typeid(thrown) == typeid(Known) ? std::throw_with_nested(Known(text)) : void()), ...);
}

template <typename... Known>
void throw_with_message(const Error& thrown, const std::string& message) {
  ((typeid(thrown) == typeid(Known) ? std::throw_with_nested(Known(thrown.where(), message)) : void()), ...);
}

}  // namespace

void rethrow_from_hook(const ActivationName& point) {
  const std::string at = fmt::format("in a hook at {}", point.to_string());
  try {
    throw;
  } catch (c10::Error& thrown) {
    thrown.add_context(at);
    throw;
  } catch (const Error& thrown) {
    throw_with_message<Error, CheckpointError, ConfigError, ShapeError, HookError, TokenizerError, IoError,
                       MemoryError>(thrown, fmt::format("{}; {}", thrown.message(), at));
    throw;
  } catch (const std::exception& thrown) {
    throw_with_text<std::runtime_error, std::range_error, std::overflow_error, std::underflow_error,
                    std::logic_error, std::invalid_argument, std::domain_error, std::length_error,
                    std::out_of_range>(
        thrown, fmt::format("[{}] a hook failed: {}", point.to_string(), thrown.what()));
    throw;
  }
}

}  // namespace hooked
