#pragma once

#include <cstdint>

namespace hooked::kernels {

/// How rows are normed; see norm_rows_into.
struct NormRow {
  std::int64_t size;  ///< numbers in a row
  float eps;
  bool centred;         ///< LayerNorm: less the row's mean
  float weight_offset;  ///< a stored weight w means this + w
};

/// One row. Null: nobody's. `normalized` may be the weighted row, where there is no weight. Brain floats are
/// given by their bits.
template <class Number>
struct NormedRow {
  const Number* in;
  const Number* weight;
  const Number* bias;
  Number* weighted;
  Number* normalized;
  float* scale;  ///< one number
};

void norm_row(const NormRow& how, const NormedRow<float>& row);
void norm_row(const NormRow& how, const NormedRow<std::uint16_t>& row);

/// One row's way back. Null: there is none.
template <class Number>
struct NormRowBack {
  const Number* in;
  const Number* weight;
  const Number* gradient;  ///< of the weighted row
  Number* out;             ///< the gradient of `in`
};

void norm_row_back(const NormRow& how, const NormRowBack<float>& row);
void norm_row_back(const NormRow& how, const NormRowBack<std::uint16_t>& row);

}  // namespace hooked::kernels
