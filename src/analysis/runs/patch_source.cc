#include "hooked/analysis/patch_source.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/runs/source_reader.h"
#include "analysis/values/fingerprint.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/shared.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/site.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

// The whole of an activation, all positions and rows of it.
at::Tensor whole(const ActivationCache& cache, const ActivationName& name) {
  const at::Tensor value = cache[Address(name)];
  require_all_positions(cache, name, "patching");
  return value;
}

// The dimension of positions or queries; nothing if the site has none.
std::optional<std::int64_t> position_dimension(const SiteRow& site) {
  for (const Axis axis : {Axis::pos, Axis::source, Axis::query}) {
    if (const auto dim = site.axes.find(axis)) return dim;
  }
  return std::nullopt;
}

/// The source if none was given.
class Unsaid final : public PatchSource::Kind {
 public:
  at::Tensor values(const ActivationName&, const at::Tensor&, SweptRow) const override { refuse(); }
  const ActivationCache* data() const override { refuse(); }
  std::string fingerprint(const std::vector<ActivationName>&) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw HookError("from",
                    "nothing says what the patched places become; expected a run's cache, "
                    "a mean, zero or another source; set `from`");
  }
};

// The dimension of keys; nothing if the site has none.
std::optional<std::int64_t> key_dimension(const SiteRow& site) {
  if (const auto dim = site.axes.find(Axis::key)) return dim;
  return site.axes.find(Axis::source_key);
}

// A text that identifies these activations of a run, and where its tokens are.
std::string fingerprint_of(const ActivationCache& run, const std::vector<ActivationName>& names) {
  std::vector<std::string> parts;
  for (const Stack stack : {Stack::none, Stack::encoder}) {
    if (const auto& tokens = run.tokens(stack))
      parts.push_back(fmt::format("{}:{} {}", tokens->first, tokens->end, fingerprint(tokens->mask)));
  }
  for (const ActivationName& name : names) {
    if (run.contains(name)) parts.push_back(fingerprint(run[Address(name)]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// One tensor for every place.
class Same final : public PatchSource::Kind {
 public:
  explicit Same(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  at::Tensor values(const ActivationName&, const at::Tensor& unpatched, SweptRow) const override {
    return to_device(tensor_.to(unpatched.scalar_type()), unpatched.device());
  }
  std::string fingerprint(const std::vector<ActivationName>&) const override {
    return hooked::fingerprint(tensor_);
  }

 private:
  at::Tensor tensor_;
};

/// The values of a run, place by place.
class OfRun : public PatchSource::Kind {
 public:
  explicit OfRun(ActivationCache run) : run_(std::move(run)) {}
  at::Tensor values(const ActivationName& name, const at::Tensor&, SweptRow row) const override {
    const at::Tensor all = whole(run_, name);
    if (per_expert(hooked::row(name.site))) return all;
    const std::int64_t rows = all.size(0);
    const std::int64_t own = row_of(row, rows);
    if (own < rows && (rows == 1 || fits(row, rows))) return all.narrow(0, own, 1);
    throw HookError(name.to_string(),
                    fmt::format("`from` does not fit `into`; expected a run of 1 row or of {}, got {} "
                                "(one row of a batch is cache.row(i))",
                                row.of, rows));
  }
  const ActivationCache* run() const override { return &run_; }
  std::string fingerprint(const std::vector<ActivationName>& names) const override {
    return fingerprint_of(run_, names);
  }

 protected:
  virtual bool fits(SweptRow row, std::int64_t rows) const { return rows == row.of; }

 private:
  ActivationCache run_;
};

/// A row that is drawn at random.
class Drawn final : public OfRun {
 public:
  Drawn(ActivationCache data, std::uint64_t seed) : OfRun(std::move(data)), seed_(seed) {}
  at::Tensor values(const ActivationName& name, const at::Tensor& unpatched, SweptRow row) const override {
    if (!per_expert(hooked::row(name.site))) return OfRun::values(name, unpatched, row);
    throw HookError(
        name.to_string(),
        "an expert's tokens are of all rows, so that none can be drawn; expected a site with rows");
  }
  std::int64_t row_of(SweptRow row, std::int64_t rows) const override {
    std::mt19937_64 stream(seed_);
    stream.discard(static_cast<unsigned long long>(row.number));
    return static_cast<std::int64_t>(stream() % static_cast<std::uint64_t>(rows));
  }

 protected:
  bool fits(SweptRow, std::int64_t) const override { return true; }

 private:
  std::uint64_t seed_;
};

/// The mean over a data set.
class Mean final : public PatchSource::Kind {
 public:
  Mean(ActivationCache data, MeanOver over) : data_(std::move(data)), over_(over) {}
  const ActivationCache* data() const override { return &data_; }

  at::Tensor values(const ActivationName& name, const at::Tensor& unpatched, SweptRow) const override {
    // A table's cells and a layer's rows ask for the same mean again.
    const std::lock_guard lock(mutex_);
    const auto [made, is_new] = means_.try_emplace(name);
    if (is_new) made->second = mean_of(name);
    return made->second.defined() ? made->second.to(unpatched.options()) : at::Tensor();
  }
  std::string fingerprint(const std::vector<ActivationName>& names) const override {
    return fingerprint_of(data_, names);
  }

 private:
  /// In float64, with the reduced axes kept; undefined if no token counts.
  at::Tensor mean_of(const ActivationName& name) const {
    const SiteRow& site = row(name.site);
    const at::Tensor all = whole(data_, name).to(at::kDouble);
    if (per_expert(site)) return all.size(0) > 0 ? all.mean(0, /*keepdim=*/true) : at::Tensor();
    const auto dim = position_dimension(site);
    const auto keys = key_dimension(site);
    const bool over_positions = over_ == MeanOver::rows_and_positions && dim;
    if (over_positions && keys) {
      throw HookError(name.to_string(),
                      "keys of different queries have no mean; expected the mean over rows alone");
    }
    if (!dim) return all.mean(0, true);
    at::Tensor real = real_along(name, *dim, all);
    if (keys) {
      const at::Tensor real_keys = real_along(name, *keys, all);
      if (real_keys.defined()) real = real.defined() ? real.logical_and(real_keys) : real_keys;
    }
    if (real.defined() && all.size(0) != real.size(0)) return all.mean(0, true);  // the same for every row
    if (!real.defined()) {
      const at::Tensor rows = all.mean(0, true);
      return over_positions ? rows.mean(*dim, true) : rows;
    }
    at::Tensor sum = at::where(real, all, 0.0).sum(0, true), count = real.sum(0, true);
    if (over_positions) {
      sum = sum.sum(*dim, true);
      count = count.sum(*dim, true);
    }
    // Later keys of a causal model are masked in every row, also if no row has both.
    const at::Tensor none = keys && !sees_later_keys(all, real, *dim) ? count.eq(0).tril() : count.eq(0);
    if (none.any().item<bool>()) {
      throw HookError(
          name.to_string(),
          fmt::format("{} in all rows of the data and has no mean; expected data without it, or {}",
                      keys ? "a pair of a query and a key has padding" : "a column is padding",
                      keys ? "rows that are padded on the same side" : "a mean over rows and positions"));
    }
    const at::Tensor mean = sum / count;
    return keys ? mean.masked_fill(count.eq(0), site.unseen) : mean;
  }

  /// Which places are tokens along a dimension, [row, 1.., place, 1..] bool; undefined: all.
  at::Tensor real_along(const ActivationName& name, std::int64_t dim, const at::Tensor& all) const {
    const auto& tokens = tokens_along(data_, name, row(name.site).axes[static_cast<std::size_t>(dim)]);
    if (!tokens || !tokens->mask.defined()) return {};
    std::vector<std::int64_t> shape(static_cast<std::size_t>(all.dim()), 1);
    shape.front() = tokens->mask.size(0);
    shape[static_cast<std::size_t>(dim)] = all.size(dim);
    return tokens->mask.to(all.device()).view(shape);
  }

  /// Whether a query sees a later key.
  static bool sees_later_keys(const at::Tensor& all, const at::Tensor& real, std::int64_t queries) {
    if (all.size(queries) != all.size(-1)) return true;  // keys of another text
    const at::Tensor seen = at::isfinite(all).logical_and(all.ne(0)).logical_and(real);
    return seen.triu(1).any().item<bool>();
  }

  ActivationCache data_;
  MeanOver over_;
  mutable std::mutex mutex_;
  mutable std::map<ActivationName, at::Tensor> means_;
};

std::int64_t rows_of(const ActivationCache& cache) {
  for (const auto& entry : cache) {
    if (!per_expert(row(entry.name.site))) return cache[Address(entry.name)].size(0);
  }
  return 1;
}

}  // namespace

PatchSource::PatchSource(std::shared_ptr<const Kind> kind, std::string description)
    : terms_{{std::move(kind), 1.0}}, description_(std::move(description)) {}

const std::vector<PatchSource::Term>& PatchSource::terms() const& {
  if (terms_.empty()) refuse_moved_from("patch source");
  return terms_;
}

PatchSource::PatchSource() : PatchSource(std::make_shared<Unsaid>(), "nothing") {}

PatchSource::PatchSource(ActivationCache run)
    : PatchSource(PatchSource::run(std::move(run), "another run")) {}

PatchSource PatchSource::run(ActivationCache run, std::string name) {
  return {std::make_shared<OfRun>(std::move(run)), std::move(name)};
}

PatchSource PatchSource::zero() {
  return {std::make_shared<Same>(at::scalar_tensor(0.0, at::kDouble)), "zeros"};
}

PatchSource PatchSource::value(double number) {
  return {std::make_shared<Same>(at::scalar_tensor(number, at::kDouble)), fmt::format("{}", number)};
}

PatchSource PatchSource::value(at::Tensor tensor) {
  if (!tensor.defined()) throw ShapeError("from", "the tensor is undefined; expected a value");
  std::string words = fmt::format("a value {}", shape_text(tensor.sizes()));
  return {std::make_shared<Same>(std::move(tensor)), std::move(words)};
}

PatchSource PatchSource::mean(ActivationCache data, MeanOver over) {
  std::string words =
      fmt::format("the mean over {} rows{}", rows_of(data),
                  over == MeanOver::rows_and_positions ? " and all positions" : ", by position");
  return {std::make_shared<Mean>(std::move(data), over), std::move(words)};
}

PatchSource PatchSource::resampled(ActivationCache data, std::uint64_t seed) {
  std::string words = fmt::format("rows drawn from {} with seed {}", rows_of(data), seed);
  return {std::make_shared<Drawn>(std::move(data), seed), std::move(words)};
}

PatchSource PatchSource::mixture(const PatchSource& one, const PatchSource& other, double share) {
  if (!std::isfinite(share)) {
    throw ShapeError("from", fmt::format("the share {} is not finite; expected a number such as 0.5", share));
  }
  PatchSource mixed = one;
  mixed.terms_.clear();
  for (const Term& term : one.terms()) mixed.terms_.push_back({term.kind, term.share * (1 - share)});
  for (const Term& term : other.terms()) mixed.terms_.push_back({term.kind, term.share * share});
  mixed.description_ =
      fmt::format("{} of {} and {} of {}", 1 - share, one.description_, share, other.description_);
  return mixed;
}

}  // namespace hooked
