#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harvest/manifest.h"
#include "harvest/unit_runs.h"

namespace hooked {

/// Does one task at a time on another thread, in order. After a task that throws, none is done, and what it
/// threw comes out of the next `start` or `wait`.
class WriteBehind {
 public:
  WriteBehind() = default;
  /// Waits; what the last task threw is lost.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Waits for the tasks before.
  void start(std::function<void()> task);
  /// Does not wait: for a short task that holds no rows.
  void follow(std::function<void()> task);
  void wait();

 private:
  std::future<void> running_;
};

/// Writes the rows of a unit, or what is computed from them, and the record that makes them count.
class UnitWriter {
 public:
  /// `run`: what the units are computed with, if the manifest says something else.
  static std::unique_ptr<UnitWriter> create(const UnitRuns& runs, const StoreOptions& store,
                                            const std::filesystem::path& folder, std::optional<Json> run);
  virtual ~UnitWriter() = default;

  void begin(std::int64_t unit, const PreparedUnit& prepared);
  void add(const ActivationRows& rows);
  /// Writes what is left, and the record, after the files before it.
  void end();
  /// Waits until all is on the disk. Throws what writing threw.
  void finish() { behind_.wait(); }

 protected:
  UnitWriter(const UnitRuns& runs, std::filesystem::path folder, std::optional<Json> run);

  using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
  /// Starts to write the unit's next shard.
  void write_shard(Tensors tensors, std::int64_t rows, TensorAxes axes);
  virtual void begin_rows() = 0;
  virtual void add_rows(const ActivationRows& rows) = 0;
  virtual void end_rows() = 0;

  const UnitRuns& runs_;
  const PreparedUnit* prepared_ = nullptr;
  std::int64_t rows_ = 0;  // that the unit has

 private:
  std::filesystem::path folder_;
  std::optional<Json> run_;
  Provenance provenance_;
  std::shared_ptr<UnitRecord> record_;
  std::size_t shards_ = 0;
  WriteBehind behind_;
};

}  // namespace hooked
