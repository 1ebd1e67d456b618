#include "models/replay/key_rooms.h"

#include <gtest/gtest.h>

#include <vector>

#include "models/replay/recorder.h"
#include "tests/models/random_graph.h"

namespace hooked::key_rooms_test {
namespace {

// Nothing is recorded here.
class NoRecorder final : public Recorder {
 public:
  void warm_up(const Work& work) override { work(); }
  std::unique_ptr<Recording> record(const Work& /*work*/) override { return nullptr; }
};

// Layers of such a config may store keys in either form.
ModelConfig latent_config() {
  ModelConfig config = graph_config();
  config.latent = Latents{.d_kv = 4, .d_shared_key = 2, .d_value = 6};
  return config;
}

class Rooms : public testing::Test {
 protected:
  // With that many rows, after an encoder that reads that many tokens.
  RoomKind kind(std::int64_t batch, std::int64_t source = 0, KeyForm form = KeyForm::heads) const {
    return {batch, source, std::vector<KeyForm>(static_cast<std::size_t>(config_.n_layers), form)};
  }

  const ModelConfig config_ = latent_config();
  Recordings recordings_{std::make_unique<NoRecorder>()};
  KeyRooms rooms_{config_, at::kCPU, recordings_};
};

TEST_F(Rooms, AreLentToOneAtATimeAndAgain) {
  std::int64_t first = 0;
  {
    const KeyRooms::Lent one = rooms_.lend(kind(2), 3), other = rooms_.lend(kind(2), 3);
    first = one->number;
    EXPECT_NE(other->number, first);
    one->columns.advance(3, {});
  }
  const KeyRooms::Lent again = rooms_.lend(kind(2), 5), more = rooms_.lend(kind(2), 5);
  EXPECT_TRUE(again->number == first || more->number == first);
  EXPECT_EQ(again->columns.length(), 0) << "nothing is in it";
  EXPECT_EQ(more->columns.length(), 0) << "nothing is in it";
}

TEST_F(Rooms, OfOneSizeServeThatSize) {
  const std::int64_t small = rooms_.lend(kind(2), 3)->number;
  EXPECT_NE(rooms_.lend(kind(3), 3)->number, small) << "rows";
  EXPECT_NE(rooms_.lend(kind(2), 65)->number, small) << "columns";
  EXPECT_NE(rooms_.lend(kind(2, 7), 3)->number, small) << "columns of an encoder";
  EXPECT_NE(rooms_.lend(kind(2, 0, KeyForm::latents), 3)->number, small) << "form";
  EXPECT_EQ(rooms_.lend(kind(2), 64)->number, small);
  EXPECT_EQ(rooms_.lend(kind(2), 65)->columns.capacity(), 128);
  EXPECT_EQ(rooms_.lend(kind(2), 64)->column(5).item<std::int64_t>(), 5);
}

TEST_F(Rooms, OnesOwnIsNotLentAgain) {
  EXPECT_EQ(rooms_.own(kind(2), 3)->number, 0);
  EXPECT_FALSE(rooms_.release());
}

TEST_F(Rooms, AreLetGoButForThoseThatAreLent) {
  rooms_.lend(kind(2), 3);
  KeyRooms::Lent lent = rooms_.lend(kind(3), 3);
  const std::int64_t number = lent->number;
  EXPECT_TRUE(rooms_.release());
  EXPECT_FALSE(rooms_.release());
  EXPECT_EQ(lent->columns.batch(), 3) << "it is there until it comes back";
  lent = KeyRooms::Lent();
  EXPECT_NE(rooms_.lend(kind(3), 3)->number, number);
}

TEST_F(Rooms, AreNotKeptWithoutEnd) {
  for (std::int64_t batch = 1; batch < 30; ++batch) rooms_.lend(kind(batch), 3);
  const std::int64_t last = rooms_.lend(kind(29), 3)->number;
  EXPECT_LE(last, 29) << "the newest is lent again";
  EXPECT_GT(rooms_.lend(kind(1), 3)->number, last) << "the oldest is gone";
}

}  // namespace
}  // namespace hooked::key_rooms_test
