#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Base class of everything that this library throws on purpose.
///
/// The text is one sentence of the form `[where] what; expected X, got Y; what to do`. `where` is a file, a
/// tensor, a config field or an activation's name. docs/errors.md lists the classes with a cause and a cure
/// for each.
class Error : public std::runtime_error {
 public:
  /// An error about `where`, with the sentence that follows the brackets.
  Error(std::string_view where, std::string_view message);
  ~Error() override;

  /// The part between the brackets: what the error is about.
  const std::string& where() const& noexcept { return where_; }
  /// The same for a temporary, as a copy.
  std::string where() const&& { return where_; }
  /// The text without `[where] `.
  std::string_view message() const& noexcept;
  /// The same for a temporary, as a copy.
  std::string message() const&& { return std::string(message()); }

 private:
  std::string where_;
};

/// A checkpoint's files or tensors are malformed, missing or do not fit the config.
class CheckpointError : public Error {
 public:
  using Error::Error;
  ~CheckpointError() override;
};

/// A config field is missing, has the wrong type, or a value this engine does not support.
class ConfigError : public Error {
 public:
  using Error::Error;
  ~ConfigError() override;
};

/// A tensor passed in (tokens, residual, mask, the value of a hook or edit) has the wrong shape, dtype or
/// device.
class ShapeError : public Error {
 public:
  using Error::Error;
  ~ShapeError() override;
};

/// A name, selection, hook or edit that this model or this run cannot honour.
class HookError : public Error {
 public:
  using Error::Error;
  ~HookError() override;
};

/// Text or ids that the tokenizer cannot convert, or a tokenizer file that cannot be read.
class TokenizerError : public Error {
 public:
  using Error::Error;
  ~TokenizerError() override;
};

/// The operating system refused a read, a write or a device.
class IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

/// A device or the host ran out of memory. Nothing of the work that needed it is kept, and the model is as
/// before: the same work with less, for instance with fewer rows, can be tried at once.
class MemoryError : public Error {
 public:
  using Error::Error;
  ~MemoryError() override;
};

}  // namespace hooked
