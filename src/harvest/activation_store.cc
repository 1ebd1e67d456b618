#include "hooked/harvest/activation_store.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <random>
#include <utility>

#include "core/ahead.h"
#include "core/name_list.h"
#include "harvest/manifest.h"
#include "harvest/token_columns.h"
#include "hooked/core/error.h"
#include "hooked/io/safetensors.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

// Calls `form` with each tensor of rows, and puts what it returns there.
template <typename Form>
void for_each_tensor(ActivationRows& rows, const Form& form) {
  for (auto& [name, tensor] : rows.activations) tensor = form(tensor);
  for (const TokenColumn& column : kTokenColumns) rows.*column.column = form(rows.*column.column);
}

ActivationRows joined(const std::vector<ActivationRows>& parts) {
  if (parts.size() == 1) return parts.front();
  ActivationRows all;
  const auto cat = [&](const auto& of) {
    std::vector<at::Tensor> tensors;
    for (const ActivationRows& part : parts) tensors.push_back(of(part));
    return at::cat(tensors);
  };
  for (const auto& [name, tensor] : parts.front().activations)
    all.activations[name] =
        cat([&, &name = name](const ActivationRows& part) { return part.activations.at(name); });
  for (const TokenColumn& column : kTokenColumns)
    all.*column.column = cat([&](const ActivationRows& part) { return part.*column.column; });
  return all;
}

}  // namespace

struct ActivationStore::Content {
  struct StoredShard {
    std::filesystem::path path;
    std::int64_t begin, end;  // its rows' numbers in the store
    std::uint64_t bytes;
  };

  std::filesystem::path folder;
  std::vector<StoredActivation> activations;
  std::vector<StoredShard> shards;
  std::int64_t rows = 0;
  bool complete = false;

  std::vector<std::string> names(const std::vector<std::string>& asked) const {
    std::vector<std::string> all;
    for (const StoredActivation& activation : activations) all.push_back(activation.name);
    for (const std::string& name : asked) {
      if (std::ranges::find(all, name) == all.end())
        throw HookError(name, fmt::format("this store does not hold it; expected one of {}", name_list(all)));
    }
    return asked.empty() ? all : asked;
  }

  static SafetensorsFile open(const StoredShard& shard) {
    auto file = SafetensorsFile::open(shard.path);
    if (file.file().size() != shard.bytes) {
      throw CheckpointError(path_text(shard.path),
                            fmt::format("the shard has {} bytes; expected {}, which the manifest says",
                                        file.file().size(), shard.bytes));
    }
    return file;
  }

  // Rows of a shard, mapped: their pages are read when they are looked at.
  ActivationRows mapped(const StoredShard& shard, const std::vector<std::string>& asked) const {
    const auto file = open(shard);
    const std::shared_ptr<const std::byte> bytes = file.file().map();
    const auto view = [&](const std::string& name) {
      const TensorInfo* info = file.find(name);
      if (info == nullptr || info->shape.empty() || info->shape[0] != shard.end - shard.begin)
        throw CheckpointError(path_text(shard.path),
                              fmt::format("the shard lacks the tensor '{}' of {} rows; expected what a "
                                          "harvest wrote",
                                          name, shard.end - shard.begin));
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): nothing writes to what the caller does not own
      auto* data = const_cast<std::byte*>(bytes.get()) + info->begin;
      return at::from_blob(
          data, info->shape, [bytes](void*) {}, at::TensorOptions(info->dtype));
    };
    ActivationRows rows;
    for (const std::string& name : asked) rows.activations[name] = view(name);
    for (const TokenColumn& column : kTokenColumns) rows.*column.column = view(column.key);
    return rows;
  }

  ActivationRows whole(const StoredShard& shard, const std::vector<std::string>& asked) const {
    ActivationRows rows = mapped(shard, asked);
    for_each_tensor(rows, [](const at::Tensor& tensor) { return tensor.clone(); });
    return rows;
  }

  const StoredShard& shard_of(std::int64_t row) const {
    return *std::ranges::upper_bound(shards, row, {}, &StoredShard::end);
  }
};

ActivationStore::ActivationStore(std::shared_ptr<const Content> content)
    : content_(std::move(content), "store") {}

ActivationStore ActivationStore::open(const std::filesystem::path& folder) {
  Manifest manifest = Manifest::read(folder);
  if (manifest.reduces()) {
    throw CheckpointError(
        path_text(folder),
        "the harvest kept no activations but what was computed from them; expected a store of "
        "activations; ActivationMoments and FeatureExamples load the others");
  }
  auto content = std::make_shared<Content>();
  content->folder = folder;
  content->activations = manifest.activations(folder);
  content->complete = true;
  for (const auto& record : read_records(folder, manifest)) {
    if (!record) {
      content->complete = false;
      continue;
    }
    for (const ShardRecord& shard : record->shards) {
      content->shards.push_back(
          {folder / shard.file, content->rows, content->rows + shard.rows, shard.bytes});
      content->rows += shard.rows;
    }
  }
  return ActivationStore(std::move(content));
}

std::int64_t ActivationStore::rows() const { return content_->rows; }
std::vector<StoredActivation> ActivationStore::activations() const { return content_->activations; }
bool ActivationStore::complete() const { return content_->complete; }

Provenance ActivationStore::provenance() const {
  if (content_->shards.empty()) return {};
  return read_provenance(Content::open(content_->shards.front()));
}

ActivationRows ActivationStore::read(std::int64_t begin, std::int64_t end,
                                     const std::vector<std::string>& names) const {
  if (begin < 0 || end > content_->rows || begin >= end) {
    throw ShapeError("rows", fmt::format("rows {} to {}; expected a range with at least one row in 0 to {}",
                                         begin, end, content_->rows));
  }
  const auto asked = content_->names(names);
  std::vector<ActivationRows> parts;
  for (const Content::StoredShard& shard : content_->shards) {
    if (shard.end <= begin || shard.begin >= end) continue;
    ActivationRows part = content_->mapped(shard, asked);
    const std::int64_t from = std::max(begin, shard.begin) - shard.begin;
    const std::int64_t count = std::min(end, shard.end) - shard.begin - from;
    for_each_tensor(part, [&](const at::Tensor& tensor) { return tensor.narrow(0, from, count).clone(); });
    parts.push_back(std::move(part));
  }
  return joined(parts);
}

ActivationRows ActivationStore::rows_at(const at::Tensor& numbers,
                                        const std::vector<std::string>& names) const {
  if (!numbers.defined() || numbers.dim() != 1 || numbers.scalar_type() != at::kLong || numbers.numel() == 0)
    throw ShapeError("rows", "expected the numbers of one or more rows, int64 [row]");
  const at::Tensor wanted = numbers.cpu().contiguous();
  const auto [smallest, largest] =
      std::pair(wanted.min().item<std::int64_t>(), wanted.max().item<std::int64_t>());
  if (smallest < 0 || largest >= content_->rows)
    throw ShapeError("rows", fmt::format("row {} does not exist; expected 0 to {}",
                                         smallest < 0 ? smallest : largest, content_->rows - 1));
  const auto asked = content_->names(names);
  const auto [sorted, order] = wanted.sort();
  std::vector<ActivationRows> parts;
  for (std::int64_t done = 0; done < sorted.numel();) {
    const Content::StoredShard& shard = content_->shard_of(sorted[done].item<std::int64_t>());
    const std::int64_t count =
        sorted.narrow(0, done, sorted.numel() - done).lt(shard.end).sum().item<std::int64_t>();
    const at::Tensor places = sorted.narrow(0, done, count) - shard.begin;
    ActivationRows part = content_->mapped(shard, asked);
    for_each_tensor(part, [&](const at::Tensor& tensor) { return tensor.index_select(0, places); });
    parts.push_back(std::move(part));
    done += count;
  }
  ActivationRows rows = joined(parts);
  const at::Tensor back = order.argsort();
  for_each_tensor(rows, [&](const at::Tensor& tensor) { return tensor.index_select(0, back); });
  return rows;
}

// Note [Mixing rows]: the buffer holds up to `mixing_rows` rows and those of one shard. A minibatch takes
// rows that are drawn at random from it; when it has less than half of that, the next shard's rows are added.
struct Minibatches::State {
  std::shared_ptr<const ActivationStore::Content> content;
  MinibatchOptions options;
  std::vector<std::string> names;
  std::mt19937_64 random;
  std::vector<std::size_t> order;  // of the shards of this pass
  std::size_t next_shard = 0;
  std::int64_t pass = 0;
  std::future<ActivationRows> ahead;
  std::optional<ActivationRows> buffer;
  std::vector<std::int64_t>
      left;  // rows of the buffer that are not given yet, in the order in which they are

  void begin_pass() {
    order.resize(content->shards.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (options.mixing_rows > 0) shuffle(order);
    next_shard = 0;
  }

  // std::shuffle draws differently in other standard libraries.
  template <typename Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
  }

  void read_ahead() {
    if (next_shard == order.size() && ++pass < options.passes) begin_pass();
    if (next_shard == order.size()) return;
    ahead = std::async(kAhead, [content = content, &shard = content->shards[order[next_shard++]],
                                names = names] { return content->whole(shard, names); });
  }

  // Adds the next shard's rows to those that are left; whether there was one.
  bool fill() {
    if (!ahead.valid()) return false;
    ActivationRows more = ahead.get();
    read_ahead();
    if (!left.empty()) {
      std::ranges::reverse(left);  // in the order in which they would have been given
      const at::Tensor kept = at::from_blob(left.data(), {static_cast<std::int64_t>(left.size())}, at::kLong);
      for_each_tensor(*buffer, [&](const at::Tensor& tensor) { return tensor.index_select(0, kept); });
      more = joined({*buffer, std::move(more)});
    }
    left.resize(static_cast<std::size_t>(more.rows()));
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<std::int64_t>(i);
    if (options.mixing_rows > 0) {
      shuffle(left);
    } else {
      std::ranges::reverse(left);  // they are taken from the end
    }
    buffer = std::move(more);
    return true;
  }
};

Minibatches::Minibatches(std::unique_ptr<State> state) : state_(std::move(state)) {}
Minibatches::Minibatches(Minibatches&&) noexcept = default;
Minibatches& Minibatches::operator=(Minibatches&&) noexcept = default;
Minibatches::~Minibatches() = default;

std::optional<ActivationRows> Minibatches::next() {
  State& state = *state_;
  const auto size = static_cast<std::size_t>(state.options.rows);
  const std::size_t enough = std::max(size, static_cast<std::size_t>(state.options.mixing_rows / 2));
  while (state.left.size() < enough && state.fill()) {
  }
  const std::size_t count = std::min(size, state.left.size());
  if (count == 0 || (count < size && state.options.drop_last)) return std::nullopt;
  std::vector<std::int64_t> taken(state.left.end() - static_cast<std::ptrdiff_t>(count), state.left.end());
  state.left.resize(state.left.size() - count);
  std::ranges::reverse(taken);
  const at::Tensor places = at::from_blob(taken.data(), {static_cast<std::int64_t>(count)}, at::kLong);
  ActivationRows rows = *state.buffer;
  for_each_tensor(rows, [&](const at::Tensor& tensor) { return tensor.index_select(0, places); });
  return rows;
}

Minibatches ActivationStore::minibatches(const MinibatchOptions& options) const {
  if (options.rows < 1 || options.mixing_rows < 0 || options.passes < 1)
    throw ConfigError("minibatches", "expected 1 or more rows and passes, and 0 or more mixing rows");
  auto state = std::make_unique<Minibatches::State>();
  state->content = content_.pointer();
  state->options = options;
  state->names = content_->names(options.names);
  state->random.seed(options.seed);
  state->begin_pass();
  state->read_ahead();
  return Minibatches(std::move(state));
}

}  // namespace hooked
