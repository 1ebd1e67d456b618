#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The patterns of many heads as a page embeds them: 16 bits for each number, in base64. Long prompts keep
/// the strongest keys of each query, and means of blocks for small pictures.
class AttentionBytes {
 public:
  /// For `heads` heads in all, of prompts with `length` tokens.
  AttentionBytes(std::int64_t heads, std::int64_t length, bool causal);

  /// Adds the heads of a layer, [head, query, key] float64 on the CPU.
  void add(const ActivationName& name, const at::Tensor& patterns);
  /// The part of a page.
  Json part() const;

 private:
  void add_whole(const at::Tensor& patterns);
  void add_strongest(const at::Tensor& patterns);

  std::int64_t length_, kept_;  // kept_ of each query; 0: all
  bool causal_;
  Json layers_ = Json::array();
  std::vector<std::uint16_t> values_, at_, means_;
};

}  // namespace hooked
