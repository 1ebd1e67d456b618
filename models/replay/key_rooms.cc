#include "models/replay/key_rooms.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <vector>

namespace hooked {
namespace {

// Rooms double in size, so that generations of any length use few sizes, each with its own recording, and
// attend to at most twice the number of existing columns.
constexpr std::int64_t kFewestColumns = 64;

// Of rooms that nobody uses.
constexpr std::size_t kMostRooms = 8;
constexpr std::int64_t kMostRoomBytes = std::int64_t{1} << 30;

std::int64_t capacity_for(std::int64_t columns) {
  std::int64_t capacity = kFewestColumns;
  while (capacity < columns) capacity *= 2;
  return capacity;
}

}  // namespace

KeyRoom::KeyRoom(const ModelConfig& config, RoomKind of, std::int64_t capacity, std::int64_t which,
                 const c10::Device& device)
    : kind(std::move(of)),
      number(which),
      columns(config.n_layers, {.batch = kind.batch, .capacity = capacity}),
      numbers(at::arange(capacity, at::TensorOptions(at::kLong).device(device))) {
  columns.allot(config, kind.forms, device);
}

KeyRooms::Lent KeyRooms::own(const RoomKind& kind, std::int64_t columns) const {
  Lent made(nullptr, std::make_shared<KeyRoom>(config_, kind, capacity_for(columns), 0, device_));
  made->columns.clear();
  return made;
}

KeyRooms::Lent KeyRooms::lend(const RoomKind& kind, std::int64_t columns) {
  const std::int64_t capacity = capacity_for(columns);
  const auto fits = [&](const Kept& kept) {
    return !kept.lent && kept.room->columns.capacity() == capacity && kept.room->kind == kind;
  };
  std::shared_ptr<KeyRoom> room;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(rooms_.begin(), rooms_.end(), fits);
    if (found == rooms_.end()) {
      room = std::make_shared<KeyRoom>(config_, kind, capacity, last_number_ + 1, device_);
      ++last_number_;
      rooms_.push_front({room, true});
    } else {
      room = found->room;
      found->lent = true;
      rooms_.splice(rooms_.begin(), rooms_, found);
    }
  }
  Lent lent(this, std::move(room));
  lent->columns.clear();
  return lent;
}

void KeyRooms::take_back(const std::shared_ptr<KeyRoom>& room) {
  std::vector<std::shared_ptr<KeyRoom>> dropped;
  {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    std::int64_t bytes = 0;
    bool known = false;  // false if all were released meanwhile
    for (auto kept = rooms_.begin(); kept != rooms_.end();) {
      if (kept->room == room) {
        known = true;
        kept->lent = false;
      }
      const bool free = !kept->lent;
      if (free) {
        ++count;
        bytes += kept->room->columns.room_bytes();
      }
      if (free && (count > kMostRooms || bytes > kMostRoomBytes)) {
        dropped.push_back(kept->room);
        kept = rooms_.erase(kept);
      } else {
        ++kept;
      }
    }
    if (!known) dropped.push_back(room);
  }
  // What was recorded in them is now useless.
  for (const auto& gone : dropped) recordings_.forget(gone.get());
}

bool KeyRooms::release() {
  const std::lock_guard lock(mutex_);
  const bool any = std::any_of(rooms_.begin(), rooms_.end(), [](const Kept& kept) { return !kept.lent; });
  rooms_.clear();
  return any;
}

}  // namespace hooked
