// hooked show: the content of a safetensors file and where it comes from, from its header alone.
#include "cli/actions.h"
#include "cli/file_contents.h"
#include "cli/output.h"

namespace hooked::cli {

void perform(const ShowOptions& options) {
  const FileContents contents(options.file);
  if (options.json) return print_json(contents_json(contents));
  print_summary(contents, Detail::full);
  if (options.list) print_list(contents);
}

}  // namespace hooked::cli
