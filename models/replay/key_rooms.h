#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hooked/core/model_config.h"
#include "models/replay/recordings.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

/// How rooms differ, apart from their columns.
struct RoomKind {
  std::int64_t batch;          ///< rows
  std::int64_t source;         ///< the encoder's tokens; 0 without one
  std::vector<KeyForm> forms;  ///< the form in which each layer holds its keys

  bool operator==(const RoomKind&) const = default;
};

/// The KV cache of a generation whose steps are recorded: memory that stays in place, so that the recordings
/// which read and write it serve the next generation as well.
struct KeyRoom {
  /// For `capacity` columns. `which` is its number.
  KeyRoom(const ModelConfig& config, RoomKind of, std::int64_t capacity, std::int64_t which,
          const c10::Device& device);

  /// A column's number as the device reads it, [1] int64.
  at::Tensor column(std::int64_t which) const { return numbers.narrow(0, which, 1); }

  const RoomKind kind;        ///< what may be kept in it
  const std::int64_t number;  ///< distinguishes the rooms of a model; 0: used by one generation only
  KvCache columns;
  at::Tensor numbers;  ///< from 0 on, [capacity] int64
};

/// The rooms of one model, each lent to one generation at a time. Any thread may borrow.
class KeyRooms {
 public:
  /// All arguments must outlive the lent rooms.
  KeyRooms(const ModelConfig& config, const c10::Device& device, Recordings& recordings)
      : config_(config), device_(device), recordings_(recordings) {}

  /// A borrowed room, which is returned when its handle goes out of scope.
  class Lent {
   public:
    Lent() = default;
    Lent(KeyRooms* of, std::shared_ptr<KeyRoom> room) : of_(of), room_(std::move(room)) {}
    Lent(Lent&& other) noexcept : of_(std::exchange(other.of_, nullptr)), room_(std::move(other.room_)) {}
    Lent& operator=(Lent&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(room_, other.room_);
      return *this;
    }
    ~Lent() {
      if (of_ != nullptr) of_->take_back(room_);
    }
    explicit operator bool() const noexcept { return room_ != nullptr; }
    KeyRoom* operator->() const noexcept { return room_.get(); }
    KeyRoom& operator*() const noexcept { return *room_; }
    /// What has to live as long as a recording that reads the room.
    std::shared_ptr<const void> memory() const { return room_; }

   private:
    KeyRooms* of_ = nullptr;
    std::shared_ptr<KeyRoom> room_;
  };

  /// An empty room of that kind, for at least that many columns.
  Lent lend(const RoomKind& kind, std::int64_t columns);
  /// The same for one generation only; it is never lent again.
  Lent own(const RoomKind& kind, std::int64_t columns) const;

  /// Frees all rooms that are not lent, and forgets the others; returns whether it freed any.
  bool release();

 private:
  struct Kept {
    std::shared_ptr<KeyRoom> room;
    bool lent;
  };

  void take_back(const std::shared_ptr<KeyRoom>& room);

  const ModelConfig& config_;
  const c10::Device device_;
  Recordings& recordings_;
  std::mutex mutex_;       // guards the members below
  std::list<Kept> rooms_;  // the last used first
  std::int64_t last_number_ = 0;
};

}  // namespace hooked
