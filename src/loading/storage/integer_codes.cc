#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "loading/storage/scaled_integers.h"

namespace hooked {
namespace {

// What is added to a number so that it has no sign.
int lift_of(const ScaledIntegers& weight) {
  return weight.codes.layout == CodeLayout::bytes ? 1 << (weight.codes.bits - 1) : 0;
}

// How products decode the numbers. Nothing if they cannot: other numbers of bits, rows or groups without
// whole blocks, groups in another order, or products that are rounded to float32.
std::optional<CodedForm> form_of(const ScaledIntegers& weight, std::int64_t in, std::int64_t step) {
  const at::ScalarType dtype = weight.factors.tensor.dtype;
  const int block = block_size(std::gcd(in, std::min(in, step)));
  if (code_rounding(dtype) == CodeRounding::none || weight.times != 1.0F || block == 0) return std::nullopt;
  if ((weight.codes.bits != 4 && weight.codes.bits != 8) || !in_order(weight)) return std::nullopt;
  return CodedForm{.bits = weight.codes.bits,
                   .middle = weight.zeros ? 0 : weight.zero + lift_of(weight),
                   .group = block,
                   .block = block,
                   .factors = code_factors(dtype),
                   .offsets = weight.zeros ? CodeOffsets::zeros : CodeOffsets::none,
                   .rounding = code_rounding(dtype)};
}

/// Some outputs of a weight: their codes [out, in], without a sign, and what they share.
struct OutputCodes {
  std::int64_t first;
  std::vector<std::uint8_t> codes;
  FactorRows factors;
};

// Reads the codes of outputs in blocks. Those of a weight [in, out] are everywhere in its tensor, so it is
// read whole, and kept as long as somebody holds it.
class IntegerBlocks {
 public:
  IntegerBlocks(ScaledIntegers weight, const CodedForm& form, bool lies_in_out)
      : weight_(std::move(weight)),
        form_(form),
        lies_in_out_(lies_in_out),
        in_(lies_in_out ? weight_.codes.rows : weight_.codes.columns) {}

  /// All outputs if they are kept, else null.
  std::shared_ptr<const OutputCodes> hold() {
    if (!lies_in_out_) return nullptr;
    const std::lock_guard lock(mutex_);
    auto all = held_.lock();
    if (all == nullptr) {
      all = std::make_shared<const OutputCodes>(read_all());
      held_ = all;
    }
    return all;
  }

  void read(std::int64_t first, std::span<CodedBlock> into) {
    std::shared_ptr<const OutputCodes> codes = hold();
    for (CodedBlock& block : into) {
      const std::int64_t out = first * form_.block / in_, input = first * form_.block % in_;
      if (!lies_in_out_ && (codes == nullptr || codes->first != out))
        codes = std::make_shared<const OutputCodes>(read_output(out));
      fill(*codes, out, input, block);
      ++first;
    }
  }

 private:
  OutputCodes read_all() const {
    constexpr std::int64_t kRowsAtOnce = 64;
    const std::int64_t outputs = weight_.codes.columns;
    OutputCodes all{.first = 0,
                    .codes = std::vector<std::uint8_t>(static_cast<std::size_t>(outputs * in_)),
                    .factors = read_factor_rows(weight_, neighbours(0, in_, weight_.row_step))};
    share_among_threads((in_ + kRowsAtOnce - 1) / kRowsAtOnce, [&](std::int64_t part) {
      const std::int64_t begin = part * kRowsAtOnce, count = std::min(kRowsAtOnce, in_ - begin);
      const std::vector<std::int32_t> rows = weight_.codes.rows_of(begin, count);
      for (std::int64_t out = 0; out < outputs; ++out) {
        std::uint8_t* const to = all.codes.data() + out * in_ + begin;
        for (std::int64_t i = 0; i < count; ++i)
          to[i] = static_cast<std::uint8_t>(rows[static_cast<std::size_t>(i * outputs + out)]);
      }
    });
    return all;
  }

  OutputCodes read_output(std::int64_t out) const {
    OutputCodes one{
        .first = out, .codes = {}, .factors = read_factor_rows(weight_, {out / weight_.row_step})};
    for (const std::int32_t number : weight_.codes.rows_of(out, 1))
      one.codes.push_back(static_cast<std::uint8_t>(number + lift_of(weight_)));
    return one;
  }

  void fill(const OutputCodes& codes, std::int64_t out, std::int64_t input, CodedBlock& block) const {
    std::copy_n(codes.codes.data() + (out - codes.first) * in_ + input, form_.block, block.codes.data());
    const std::int64_t row = lies_in_out_ ? input : out, column = lies_in_out_ ? out : input;
    const std::size_t group =
        codes.factors.index_of(row / weight_.row_step) * static_cast<std::size_t>(weight_.factor_columns) +
        static_cast<std::size_t>(column / weight_.column_step);
    block.factor = codes.factors.factors[group];
    block.minimums[0] = static_cast<std::uint8_t>(codes.factors.zeros[group] + lift_of(weight_));
  }

  ScaledIntegers weight_;
  CodedForm form_;
  bool lies_in_out_;
  std::int64_t in_;
  std::mutex mutex_;
  std::weak_ptr<const OutputCodes> held_;
};

}  // namespace

std::optional<SourceCodes> codes_of(ScaledIntegers weight, bool lies_in_out, bool turned) {
  const std::int64_t in = lies_in_out ? weight.codes.rows : weight.codes.columns,
                     step = lies_in_out ? weight.row_step : weight.column_step;
  const auto form = form_of(weight, in, step);
  if (!form) return std::nullopt;
  const auto blocks = std::make_shared<IntegerBlocks>(std::move(weight), *form, lies_in_out);
  return SourceCodes{
      .form = *form,
      .read = [blocks](std::int64_t first, std::span<CodedBlock> into) { blocks->read(first, into); },
      .strides = turned ? std::vector<std::int64_t>{1, in} : std::vector<std::int64_t>{in, 1},
      .hold = [blocks] { return blocks->hold(); }};
}

}  // namespace hooked
