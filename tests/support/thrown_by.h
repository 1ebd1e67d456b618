#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace hooked {

/// The exception of class `Expected` that `action` throws, for assertions about its text. When it throws
/// nothing the test fails and nothing is returned; another exception leaves the function and fails the test
/// by its own text.
template <class Expected, class Action>
std::optional<Expected> thrown_by(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::nullopt;
}

/// `thrown_by`'s text, empty when nothing was thrown.
template <class Expected, class Action>
std::string text_thrown_by(Action action) {
  const auto error = thrown_by<Expected>(action);
  return error ? error->what() : std::string();
}

}  // namespace hooked
