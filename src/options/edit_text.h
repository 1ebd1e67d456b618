#pragma once

#include <cstdint>
#include <string_view>

namespace hooked::cli {

enum class EditOperation : std::uint8_t { zero, set, add, scale, replace, project_out };

/// What an edit's text `ADDRESS OP VALUE` says, word by word; views of that text.
struct EditText {
  std::string_view all;
  std::string_view address;
  EditOperation operation;
  std::string_view value;  ///< empty where the operation takes none
};

/// Splits an edit's text. Throws UsageError for an operation that there is not, and for a value that is
/// missing or too many. What the address says is not read.
EditText read_edit_text(std::string_view text);

/// Throws the UsageError that this text of an edit is wrong for the reason `what`.
[[noreturn]] void refuse_edit(std::string_view text, std::string_view what);

}  // namespace hooked::cli
