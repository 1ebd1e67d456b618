#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hooked::cli {

enum class EditOperation : std::uint8_t { zero, set, add, scale, replace, project_out };

/// The words of an edit's text `ADDRESS OP VALUE`; views of that text.
struct EditText {
  std::string_view all;
  std::string_view address;
  EditOperation operation;
  std::string_view value;  ///< empty if the operation takes none
};

/// Splits an edit's text. Throws UsageError for an unknown operation, and for a value that is missing or
/// superfluous. The address is not parsed.
EditText read_edit_text(std::string_view text);

/// The operations that an edit can have.
std::vector<std::string> edit_operations();

/// Throws UsageError saying that this text of an edit is wrong for the reason `what`.
[[noreturn]] void refuse_edit(std::string_view text, std::string_view what);

}  // namespace hooked::cli
