#pragma once

#include <ATen/core/Tensor.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "hooked/core/error.h"
#include "io/pickle/pickle_document.h"
#include "tests/support/zip_checkpoint.h"

namespace hooked {

/// What must hold for any bytes taken as a pickle: they are refused with a CheckpointError, or every tensor
/// lies in its storage. Returns whether they were accepted; throws std::logic_error where this does not hold.
inline bool pickle_property(std::string_view bytes) {
  try {
    const auto document = read_pickle(std::string(bytes), "input");
    for (const auto& tensor : document.tensors) {
      const auto sizes = document.integers(tensor.sizes);
      const auto strides = document.integers(tensor.strides);
      auto last = static_cast<__int128>(tensor.offset);
      bool empty = false;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        empty |= sizes[i] == 0;
        last += static_cast<__int128>(sizes[i] - 1) * strides[i];
      }
      const auto elements = document.storages.at(tensor.storage).elements;
      if (!empty && last >= elements) throw std::logic_error("a tensor reaches outside its storage");
    }
    return true;
  } catch (const CheckpointError&) {
    return false;
  }
}

/// A file that exists in memory only, by its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    while (!bytes.empty()) {
      const auto put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put <= 0) throw std::runtime_error("cannot write a file in memory");
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// What must hold for any bytes taken as a zip checkpoint: they are refused with a CheckpointError, or every
/// tensor can be read (or is refused for its own bytes) in memory no larger than the file. Returns whether
/// everything was accepted.
inline bool zip_checkpoint_property(std::string_view bytes) {
  const MemoryFile input(bytes);
  try {
    const auto file = ZipCheckpoint::open(input.path());
    for (const auto& info : file.tensors()) {
      if (info.begin > info.end || info.end > bytes.size())
        throw std::logic_error("a tensor outside the file");
      const auto tensor = file.read(info.name);
      if (tensor.sizes() != info.shape) throw std::logic_error("another shape");
      if (tensor.storage().nbytes() > bytes.size()) throw std::logic_error("more memory than the file has");
      if (tensor.numel() > 0 && tensor.numel() < (1 << 20)) tensor.contiguous().sum();
    }
    return true;
  } catch (const CheckpointError&) {
    return false;
  }
}

}  // namespace hooked
