#include "cli/output_files.h"

#include <algorithm>
#include <system_error>

#include "hooked/loading/describe.h"
#include "options/edit_text.h"

namespace hooked::cli {

CommandReads::CommandReads(const InputCommandOptions& options) : CommandReads(options.model) {
  add_path(options.input.text_file).add_path(options.input.tokens_file).add(options.edits.texts);
}

CommandReads::CommandReads(const ScoredPairOptions& options) : CommandReads(options.model) {
  add_path(options.pairs).add(options.edits.texts);
}

CommandReads& CommandReads::add(const std::vector<std::string>& edits) {
  for (const auto& edit : edits) {
    const auto value = read_edit_text(edit).value;
    if (const auto hash = value.rfind('#'); hash != std::string_view::npos)
      add_path(std::string(value.substr(0, hash)));
  }
  return *this;
}

CommandReads& CommandReads::add_path(const std::string& path) {
  if (path.empty()) return *this;
  std::error_code stopped;
  for (std::filesystem::directory_iterator at(path, stopped), end; !stopped && at != end;
       at.increment(stopped))
    files_.push_back(at->path());
  files_.emplace_back(path);
  return *this;
}

void CommandReads::require_not_among(const std::filesystem::path& file) const {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;  // then the model need not be located
  require_not_read(file, files_);
  require_not_read(file, files_read(model_));
}

Overwrite overwrite_of(bool force) { return force ? Overwrite::any : Overwrite::ours; }

void require_can_write(const std::string& file, FileCheck check, const CommandReads& reads, bool force) {
  if (file.empty()) return;
  reads.require_not_among(file);
  check(file, overwrite_of(force));
}

std::string file_of(const std::string& file, std::string name, bool several) {
  if (file.empty() || !several) return file;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == ','; }, '-');
  const std::filesystem::path path(file);
  return (path.parent_path() / (path.stem().string() + '.' + name + path.extension().string())).string();
}

}  // namespace hooked::cli
