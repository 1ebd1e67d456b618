#include "loading/config/open_checkpoint.h"

#include <system_error>

#include "io/checkpoint/model_files.h"

namespace hooked {

bool is_gguf_file(const std::filesystem::path& model) {
  std::error_code ignored;
  return !std::filesystem::is_directory(model, ignored) && format_of(model) == TensorFormat::kGguf;
}

CheckpointReader open_checkpoint(const std::filesystem::path& model, MissingShards when_missing) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored) ? CheckpointReader::open(model, when_missing)
                                                       : CheckpointReader::open_file(model, when_missing);
}

}  // namespace hooked
