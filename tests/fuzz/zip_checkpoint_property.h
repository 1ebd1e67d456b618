#pragma once

#include <ATen/core/Tensor.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "io/pickle/pickle_document.h"
#include "tests/fuzz/property.h"
#include "tests/support/zip_checkpoint.h"

namespace hooked {

/// What must hold for any bytes taken as a pickle: they are refused with a CheckpointError, or every tensor
/// lies in its storage. Returns whether they were accepted; throws std::logic_error where this does not hold.
inline bool pickle_property(std::string_view bytes) {
  return accepts<CheckpointError>([&] {
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
      hold(empty || last < elements, "a tensor reaches outside its storage");
    }
  });
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
inline bool archive_property(std::string_view bytes) {
  const MemoryFile input(bytes);
  return accepts<CheckpointError>([&] {
    const auto file = ZipCheckpoint::open(input.path());
    for (const auto& info : file.tensors()) {
      hold(info.begin <= info.end && info.end <= bytes.size(), "a tensor outside the file");
      const auto tensor = file.read(info.name);
      hold(tensor.sizes() == info.shape, "another shape");
      hold(tensor.storage().nbytes() <= bytes.size(), "more memory than the file has");
      if (tensor.numel() > 0 && tensor.numel() < (1 << 20)) tensor.contiguous().sum();
    }
  });
}

/// One of the two, as the first byte says.
inline bool zip_checkpoint_property(std::string_view input) {
  const auto [number, bytes] = chosen(input, 2);
  return number == 0 ? pickle_property(bytes) : archive_property(bytes);
}

}  // namespace hooked
