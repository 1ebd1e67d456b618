#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/gguf/gguf_header.h"
#include "tests/fuzz/property.h"

namespace hooked {

/// What must hold for any bytes taken as a GGUF file: they are refused with a CheckpointError, or they
/// describe values that lie in them and tensors that follow each other to their end. Nothing is read that is
/// not there. Returns whether they were accepted; throws std::logic_error where this does not hold.
inline bool gguf_property(std::string_view bytes) {
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    hold(offset <= bytes.size() && into.size() <= bytes.size() - offset, "a read past the end");
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
  };
  GgufHeader header;
  if (!accepts<CheckpointError>([&] { header = read_gguf_header(bytes.size(), read, "input"); }))
    return false;
  std::size_t in_values = 0;
  for (const auto& [key, value] : header.metadata) {
    hold(!key.empty(), "a key without a name");
    hold(value.is_array() || value.size() == 1, "a single value that is not one");
    for (std::size_t i = 0; i < value.size(); ++i) {
      const bool any = value.real(i) || value.boolean(i) || value.text(i);
      hold(any || value.type_text().ends_with("uint64"), "an element that is nothing");
      if (const auto text = value.text(i)) in_values += text->size();
      in_values += 1;
    }
    hold(!value.integer(value.size()) && !value.text(value.size()), "an element too many");
  }
  hold(in_values <= bytes.size(), "more values than bytes");
  std::uint64_t end = 0;
  for (const GgufTensor& tensor : header.tensors) {
    hold(tensor.info.begin >= end && tensor.info.end >= tensor.info.begin, "an overlap");
    end = tensor.info.end;
    hold(end <= bytes.size(), "data past the end");
    hold(tensor.type != nullptr && tensor.info.dtype_name == tensor.type->name, "another type");
  }
  return true;
}

}  // namespace hooked
