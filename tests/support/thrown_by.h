#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Whether `action` throws an `Expected` about `where` whose text contains all `words`.
template <class Expected, class Action>
testing::AssertionResult throws(Action action, std::string_view where,
                                const std::vector<std::string_view>& words = {}) {
  const auto error = thrown_by<Expected>(action);
  if (!error) return testing::AssertionFailure();
  const std::string text = error->what();
  const auto holds = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (error->where() == where && std::all_of(words.begin(), words.end(), holds))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "about " << error->where() << ": " << text;
}

}  // namespace hooked
