#pragma once

#include <string_view>

namespace hooked {

// The files of src/report/page, which the build turns into a source.

/// The style sheet of pages.
std::string_view page_style();
/// Their script: all of its files, in the order of their names and in one scope of their own.
std::string_view page_script();

}  // namespace hooked
