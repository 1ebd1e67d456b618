#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "hooked/dictionaries/dictionary.h"
#include "hooked/io/safetensors.h"
#include "tests/support/test.h"

namespace hooked {

/// What the makers of tests/dictionaries/makers write.
inline const std::filesystem::path kDictionaryGoldens =
    std::filesystem::path(HOOKED_SOURCE_DIR) / "tests" / "dictionaries" / "golden";

inline void expect_equal(const at::Tensor& got, const at::Tensor& wanted, const std::string& what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  EXPECT_EQ(got.scalar_type(), at::kDouble) << what;
  EXPECT_LT(largest(got - wanted), 1e-9) << what;
}

/// All that a dictionary computes, against `x`, `codes`, `output`, and `pre` and `recons` where they are
/// there.
inline void expect_computes(const Dictionary& dictionary, const std::map<std::string, at::Tensor>& wanted) {
  const at::Tensor& x = wanted.at("x");
  const at::Tensor input = dictionary.input_of(x);
  const at::Tensor pre = dictionary.preactivations(input);
  if (wanted.contains("pre")) expect_equal(pre, wanted.at("pre"), "pre-activations");
  const at::Tensor codes = dictionary.activations(pre, input);
  expect_equal(codes, wanted.at("codes"), "codes");
  expect_equal(dictionary.encode(x), wanted.at("codes"), "encode");
  const at::Tensor recons = dictionary.reconstruction(codes, input);
  if (wanted.contains("recons")) expect_equal(recons, wanted.at("recons"), "reconstruction");
  expect_equal(dictionary.output_of(recons, input, x), wanted.at("output"), "output");
  expect_equal(dictionary.decode(codes, x), wanted.at("output"), "decode");
  expect_equal(dictionary.reconstruct(x), wanted.at("output"), "reconstruct");
  const SparseCodes sparse = dictionary.encode_sparse(x);
  expect_equal(sparse.dense(), wanted.at("codes"), "sparse codes");
  expect_equal(dictionary.decode_sparse(sparse, x), wanted.at("output"), "decoded sparse codes");
}

}  // namespace hooked
