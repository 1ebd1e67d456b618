#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hooked/io/safetensors.h"
#include "tests/fuzz/property.h"

namespace hooked {

/// What must hold for any bytes taken as a safetensors header: they are refused with a CheckpointError, or
/// they are JSON by another parser's judgement and describe tensors that cover the file exactly. Returns
/// whether they were accepted; throws std::logic_error where this does not hold.
inline bool safetensors_header_property(std::string_view header, std::uint64_t file_size) {
  SafetensorsHeader parsed;
  if (!accepts<CheckpointError>([&] { parsed = parse_safetensors_header(header, file_size, "input"); }))
    return false;
  const auto json = nlohmann::json::parse(header, nullptr, false);
  hold(json.is_object(), "accepted what is not a JSON object");
  hold(json.size() == parsed.tensors.size() + (json.contains("__metadata__") ? 1 : 0),
       "another number of tensors");
  auto end = 8 + std::uint64_t{header.size()};
  for (const auto& tensor : parsed.tensors) {
    hold(tensor.begin == end && tensor.end >= tensor.begin, "an overlap or a hole");
    end = tensor.end;
    const auto& described = json.at(tensor.name);
    hold(described.at("dtype") == tensor.dtype_name, "another dtype");
    hold(described.at("shape") == nlohmann::json(tensor.shape), "another shape");
  }
  hold(end == file_size, "another size of the file");
  return true;
}

/// The same of an input whose first byte is the number of data bytes after the header.
inline bool safetensors_property(std::string_view input) {
  const auto [data, header] = chosen(input, 256);
  return safetensors_header_property(header, 8 + header.size() + data);
}

}  // namespace hooked
