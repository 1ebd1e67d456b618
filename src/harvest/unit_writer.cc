#include "harvest/unit_writer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/ahead.h"
#include "harvest/token_columns.h"
#include "harvest/unit_reduction.h"
#include "io/files/atomic_file.h"
#include "io/files/checksum.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

// The rows themselves.
class RowWriter final : public UnitWriter {
 public:
  RowWriter(const UnitRuns& runs, std::filesystem::path folder, std::optional<Json> run,
            std::uint64_t shard_bytes)
      : UnitWriter(runs, std::move(folder), std::move(run)),
        shard_rows_(static_cast<std::int64_t>(std::max<std::uint64_t>(1, shard_bytes / runs.row_bytes()))) {
    for (const HarvestedName& name : runs.names()) axes_[name.name.to_string()] = name.axes();
    for (const TokenColumn& column : kTokenColumns) axes_[column.key] = {"row"};
  }

 private:
  void add_rows(const ActivationRows& rows) override {
    for (std::int64_t done = 0; done < rows.rows();) {
      const std::int64_t count = std::min(rows.rows() - done, room_ - filled_);
      std::size_t next = 0;
      const auto put = [&](const at::Tensor& from) {
        open_[next++].second.narrow(0, filled_, count).copy_(from.narrow(0, done, count));
      };
      for (const HarvestedName& name : runs_.names()) put(rows.activations.at(name.name.to_string()));
      for (const TokenColumn& column : kTokenColumns) put(rows.*column.column);
      done += count;
      filled_ += count;
      if (filled_ == room_) close();
    }
  }

  void begin_rows() override {
    left_ = rows_;
    open();
  }
  void end_rows() override {}  // all rows have come, and filled their shards

  void open() {
    room_ = std::min(left_, shard_rows_);
    left_ -= room_;
    filled_ = 0;
    if (room_ == 0 || (!open_.empty() && open_[0].second.size(0) >= room_)) return;
    open_.clear();
    for (const HarvestedName& name : runs_.names()) {
      std::vector<std::int64_t> shape = {room_};
      shape.insert(shape.end(), name.shape.begin(), name.shape.end());
      open_.emplace_back(name.name.to_string(), at::empty(shape, name.dtype));
    }
    for (const TokenColumn& column : kTokenColumns)
      open_.emplace_back(column.key, at::empty({room_}, column.dtype));
  }

  void close() {
    Tensors filled = open_;
    for (auto& [key, tensor] : filled) tensor = tensor.narrow(0, 0, room_);
    write_shard(std::move(filled), room_, axes_);
    std::swap(open_, written_);  // the shard before is on the disk: its memory is free
    open();
  }

  std::int64_t shard_rows_;
  TensorAxes axes_;
  Tensors open_, written_;                         // of the open shard, and of the one that is being written
  std::int64_t left_ = 0, room_ = 0, filled_ = 0;  // rows after it, in it, and that it has
};

// What is computed from them.
class ReductionWriter final : public UnitWriter {
 public:
  ReductionWriter(const UnitRuns& runs, std::filesystem::path folder, std::optional<Json> run,
                  const ReductionOptions& options)
      : UnitWriter(runs, std::move(folder), std::move(run)), options_(options) {}

 private:
  void add_rows(const ActivationRows& rows) override { reduction_->add(rows); }
  void begin_rows() override { reduction_.emplace(runs_.names(), prepared_->contexts, options_); }
  void end_rows() override {
    if (rows_ > 0) write_shard(reduction_->tensors(), rows_, {});
  }

  ReductionOptions options_;
  std::optional<UnitReduction> reduction_;
};

}  // namespace

WriteBehind::~WriteBehind() {
  if (running_.valid()) running_.wait();
}

void WriteBehind::start(std::function<void()> task) {
  wait();
  running_ = std::async(kAhead, std::move(task));
}

void WriteBehind::follow(std::function<void()> task) {
  running_ = std::async(kAhead, [before = std::move(running_), task = std::move(task)]() mutable {
    if (before.valid()) before.get();
    task();
  });
}

void WriteBehind::wait() {
  if (running_.valid()) running_.get();
}

UnitWriter::UnitWriter(const UnitRuns& runs, std::filesystem::path folder, std::optional<Json> run)
    : runs_(runs), folder_(std::move(folder)), run_(std::move(run)), provenance_(runs.model().provenance()) {
  // A store's bytes do not tell where the model lies.
  provenance_.model.clear();
  provenance_.revision.clear();
}

std::unique_ptr<UnitWriter> UnitWriter::create(const UnitRuns& runs, const StoreOptions& store,
                                               const std::filesystem::path& folder, std::optional<Json> run) {
  if (store.reduce) return std::make_unique<ReductionWriter>(runs, folder, std::move(run), store.reduce);
  return std::make_unique<RowWriter>(runs, folder, std::move(run), store.shard_bytes);
}

void UnitWriter::begin(std::int64_t unit, const PreparedUnit& prepared) {
  prepared_ = &prepared;
  rows_ = static_cast<std::int64_t>(prepared.kept.size());
  shards_ = 0;
  record_ = std::make_shared<UnitRecord>(
      UnitRecord{.unit = unit,
                 .contexts = static_cast<std::int64_t>(prepared.contexts.ends.size()),
                 .tokens = static_cast<std::int64_t>(prepared.contexts.tokens.size()),
                 .rows = rows_,
                 .not_finite = 0,
                 .shards = {},
                 .run = run_});
  begin_rows();
}

// How many rows hold a number that is NaN or infinite. The sum tells whether there may be any; in the dtype
// of the values it takes one pass over them, and no memory.
static std::int64_t rows_not_finite(const ActivationRows& rows) {
  at::Tensor all;
  for (const auto& [name, values] : rows.activations) {
    if (!values.is_floating_point()) continue;
    const at::ScalarType wide = values.scalar_type() == at::kHalf ? at::kFloat : values.scalar_type();
    if (std::isfinite(values.sum(wide).item<double>())) continue;
    const at::Tensor wrong = at::isfinite(values.flatten(1)).logical_not().any(1);
    all = all.defined() ? all.logical_or(wrong) : wrong;
  }
  return all.defined() ? all.sum().item<std::int64_t>() : 0;
}

void UnitWriter::add(const ActivationRows& rows) {
  record_->not_finite += rows_not_finite(rows);
  add_rows(rows);
}

void UnitWriter::end() {
  end_rows();
  behind_.follow([folder = folder_, record = record_] { write_record(folder, *record); });
}

void UnitWriter::write_shard(Tensors tensors, std::int64_t rows, TensorAxes axes) {
  const std::string name = shard_name(record_->unit, shards_++);
  behind_.start([tensors = std::move(tensors), rows, path = folder_ / name, name, record = record_,
                 metadata = to_metadata(provenance_, axes)] {
    AtomicFile file(path);
    write_safetensors(file, tensors, {.metadata = metadata});
    file.commit();
    record->shards.push_back(
        {.file = name, .rows = rows, .bytes = std::filesystem::file_size(path), .crc32 = file_crc32(path)});
  });
}

}  // namespace hooked
