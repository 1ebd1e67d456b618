#include "loading/adapter/low_rank_weight.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "loading/adapter/kernels/product_row.h"

namespace hooked {
namespace {

constexpr std::int64_t kPassElements = std::int64_t{1} << 20;  // of the pass that measures lengths

// All of a tensor in float64.
at::Tensor doubles(const SourceTensor& source) { return source.read().to(at::kDouble).contiguous(); }

const double* numbers_of(const at::Tensor& tensor) {
  return static_cast<const double*>(tensor.const_data_ptr());
}

// Elements `first` to `first + count` in float64, [count], in fresh memory.
at::Tensor elements_of(const SourceTensor& source, std::int64_t first, std::int64_t count) {
  if (!source.read_elements)
    return source.read().reshape({-1}).narrow(0, first, count).to(at::kDouble, false, true);
  const at::Tensor stored = at::empty({count}, source.dtype);
  source.read_elements(first, stored);
  return stored.to(at::kDouble);
}

/// The product that is added to a matrix [rows, columns], and the factors that are then applied.
struct Product {
  at::Tensor left;              ///< [rows, rank] float64
  at::Tensor right;             ///< [rank, columns] float64
  std::vector<double> factors;  ///< of each output; empty: none
};

/// A stretch of one row.
struct Stretch {
  std::int64_t row, first, end;  ///< columns
};

class ChangedWeight {
 public:
  ChangedWeight(SourceTensor base, LowRankChange change)
      : base_(std::move(base)), change_(std::move(change)), all_(base_.meta().numel()), left_to_read_(all_) {}

  // Reads elements from `first` on until `into` is full.
  void read(std::int64_t first, const at::Tensor& into) const {
    if (into.numel() == 0) return;
    const std::shared_ptr<const Product> product = hold();
    const at::Tensor values = with_product(*product, first, into.numel());
    if (!product->factors.empty()) {
      auto* const numbers = static_cast<double*>(values.data_ptr());
      for_each_stretch(first, into.numel(), [&](const Stretch& stretch, std::int64_t at) {
        for (std::int64_t column = stretch.first; column < stretch.end; ++column, ++at) {
          numbers[at] *= product->factors[static_cast<std::size_t>(change_.turned ? column : stretch.row)];
        }
      });
    }
    into.copy_(values.view(into.sizes()));
    let_go(into.numel());
  }

 private:
  std::int64_t columns() const { return base_.shape[1]; }

  template <class Use>
  void for_each_stretch(std::int64_t first, std::int64_t count, const Use& use) const {
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t row = (first + at) / columns(), column = (first + at) % columns();
      const std::int64_t end = std::min(columns(), column + count - at);
      use(Stretch{row, column, end}, at);
      at += end - column;
    }
  }

  // W + scale B A before rescaling to lengths, [count] float64. Sums over the rank in order, so that an
  // element does not depend on where the run of elements begins.
  at::Tensor with_product(const Product& product, std::int64_t first, std::int64_t count) const {
    const at::Tensor values = elements_of(base_, first, count);
    auto* const numbers = static_cast<double*>(values.data_ptr());
    const double *const left = numbers_of(product.left), *const right = numbers_of(product.right);
    const std::int64_t rank = product.left.size(1);
    std::vector<double> sums(static_cast<std::size_t>(columns()));
    for_each_stretch(first, count, [&](const Stretch& stretch, std::int64_t at) {
      const std::int64_t width = stretch.end - stretch.first;
      std::fill_n(sums.begin(), width, 0.0);
      add_product_row(right + stretch.first, columns(), left + stretch.row * rank, rank, sums.data(), width);
      for (std::int64_t i = 0; i < width; ++i)
        numbers[at + i] += change_.scale * sums[static_cast<std::size_t>(i)];
    });
    return values;
  }

  // The factor of each output's weights that gives them the length in the magnitude.
  std::vector<double> length_factors(const Product& product) const {
    const at::Tensor wanted = doubles(*change_.magnitude);
    std::vector<double> squares(static_cast<std::size_t>(wanted.numel()));
    for (std::int64_t first = 0; first < all_; first += kPassElements) {
      const at::Tensor values = with_product(product, first, std::min(kPassElements, all_ - first));
      for_each_stretch(first, values.numel(), [&](const Stretch& stretch, std::int64_t at) {
        for (std::int64_t column = stretch.first; column < stretch.end; ++column, ++at) {
          const double number = numbers_of(values)[at];
          squares[static_cast<std::size_t>(change_.turned ? column : stretch.row)] += number * number;
        }
      });
    }
    for (std::size_t i = 0; i < squares.size(); ++i)
      squares[i] = numbers_of(wanted)[i] / std::sqrt(squares[i]);
    return squares;
  }

  std::shared_ptr<const Product> hold() const {
    const std::lock_guard lock(mutex_);
    if (held_) return held_;
    const at::Tensor a = doubles(change_.a), b = doubles(change_.b);
    Product product{.left = change_.turned ? a.t().contiguous() : b,
                    .right = change_.turned ? b.t().contiguous() : a,
                    .factors = {}};
    if (change_.magnitude) product.factors = length_factors(product);
    return held_ = std::make_shared<const Product>(std::move(product));
  }

  void let_go(std::int64_t read) const {
    const std::lock_guard lock(mutex_);
    left_to_read_ -= read;
    if (left_to_read_ > 0) return;
    held_.reset();
    left_to_read_ = all_;
  }

  const SourceTensor base_;
  const LowRankChange change_;
  const std::int64_t all_;  // elements
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Product> held_;
  mutable std::int64_t left_to_read_;
};

// A source of that shape whose elements come from `read`.
SourceTensor computed(const SourceTensor& base, at::ScalarType dtype,
                      std::function<void(std::int64_t, const at::Tensor&)> read) {
  SourceTensor made{.shape = base.shape,
                    .dtype = dtype,
                    .dtype_name = base.dtype_name,
                    .where = base.where,
                    .read = nullptr,
                    .read_elements = nullptr};
  made.read = [shape = base.shape, dtype, read] {
    const at::Tensor all = at::empty(shape, dtype);
    read(0, all);
    return all;
  };
  if (base.read_elements) made.read_elements = std::move(read);
  return made;
}

}  // namespace

SourceTensor changed_weight(SourceTensor base, LowRankChange change, at::ScalarType dtype) {
  const auto weight = std::make_shared<const ChangedWeight>(base, std::move(change));
  return computed(base, dtype,
                  [weight](std::int64_t first, const at::Tensor& into) { weight->read(first, into); });
}

SourceTensor changed_bias(SourceTensor base, SourceTensor added, double scale, at::ScalarType dtype) {
  return computed(base, dtype, [=](std::int64_t first, const at::Tensor& into) {
    const at::Tensor values = elements_of(base, first, into.numel());
    const at::Tensor more = elements_of(added, first, into.numel());
    into.copy_(values.add_(more, scale).view(into.sizes()));
  });
}

}  // namespace hooked
