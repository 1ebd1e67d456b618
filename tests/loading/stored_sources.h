#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/config_reader.h"
#include "hooked/core/error.h"
#include "loading/storage/quantised_source.h"
#include "tests/support/thrown_by.h"

namespace hooked {

inline QuantisedStorage storage_of(const std::string& group) {
  return *read_storage(ConfigReader(R"({"quantization_config": )" + group + "}", "config.json"));
}

inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() &&
         at::equal(one.contiguous().view(at::kInt), other.contiguous().view(at::kInt));
}

/// Quantised weights as sources of zeros, or of some bytes: to test files that are refused.
class StoredSources : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
           std::vector<std::byte> content = {}) {
    const std::map<std::string, at::ScalarType> known = {
        {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"F64", at::kDouble},
        {"I8", at::kChar},   {"I32", at::kInt},  {"I64", at::kLong},      {"U8", at::kByte}};
    const auto found = known.find(dtype);
    source_[name] = {.shape = std::move(shape),
                     .dtype = found == known.end() ? at::ScalarType::Undefined : found->second,
                     .dtype_name = dtype,
                     .where = "model.safetensors",
                     .read = nullptr,
                     .read_elements = [content](std::int64_t first, const at::Tensor& into) {
                       into.zero_();
                       if (content.empty() || into.scalar_type() != at::kFloat) return;
                       const std::size_t begin = static_cast<std::size_t>(first) * sizeof(float);
                       const std::size_t count =
                           std::min(content.size() - std::min(begin, content.size()), into.nbytes());
                       std::memcpy(into.mutable_data_ptr(), content.data() + begin, count);
                     }};
    source_[name].read_bytes = [content = std::move(content)](std::uint64_t first,
                                                              std::span<std::byte> into) {
      for (std::size_t i = 0; i < into.size(); ++i)
        into[i] = first + i < content.size() ? content[first + i] : std::byte{0};
    };
  }

  void add_words(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> numbers) {
    std::vector<std::byte> content;
    for (const std::int64_t number : numbers) {
      for (int byte = 0; byte < (dtype == "I64" ? 8 : 4); ++byte)
        content.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * byte) & 255U));
    }
    add(name, dtype, std::move(shape), std::move(content));
  }

  SourceTensors quantised(const std::string& group) const {
    SourceTensors source = source_;
    read_quantised(source, storage_of(group), family_of("llama", "config.json"));
    return source;
  }

  // During planning, or, if only the numbers tell, during reading.
  void expect_refused(const std::string& group, const std::vector<std::string>& said) {
    const auto error = thrown_by<CheckpointError>([&] {
      for (const auto& [name, tensor] : quantised(group)) {
        if (tensor.read) tensor.read();
      }
    });
    ASSERT_TRUE(error) << said.front();
    EXPECT_EQ(error->where(), "model.safetensors");
    EXPECT_NE(std::string(error->what()).find("; expected "), std::string::npos) << error->what();
    EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos) << error->what();
    for (const std::string& words : said) {
      EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << words << ": " << error->what();
    }
  }

  SourceTensors source_;
};

}  // namespace hooked
