#include "models/key_rooms.h"

#include <gtest/gtest.h>

#include <utility>

#include "models/recorder.h"
#include "tests/models/random_graph.h"

namespace hooked::key_rooms_test {
namespace {

// Nothing is recorded here.
class NoRecorder final : public Recorder {
 public:
  void warm_up(const Work& work) override { work(); }
  std::unique_ptr<Recording> record(const Work& /*work*/) override { return nullptr; }
};

class Rooms : public testing::Test {
 protected:
  const ModelConfig config_ = graph_config();
  Recordings recordings_{std::make_unique<NoRecorder>()};
  KeyRooms rooms_{config_, at::kCPU, recordings_};
};

TEST_F(Rooms, AreLentToOneAtATimeAndAgain) {
  std::int64_t first = 0;
  {
    const KeyRooms::Lent one = rooms_.lend(2, 3, 0), other = rooms_.lend(2, 3, 0);
    first = one->number;
    EXPECT_NE(other->number, first);
    one->columns.advance(3, {});
  }
  const KeyRooms::Lent again = rooms_.lend(2, 5, 0), more = rooms_.lend(2, 5, 0);
  EXPECT_TRUE(again->number == first || more->number == first);
  EXPECT_EQ(again->columns.length(), 0) << "nothing is in it";
  EXPECT_EQ(more->columns.length(), 0) << "nothing is in it";
}

TEST_F(Rooms, OfOneSizeServeThatSize) {
  const std::int64_t small = rooms_.lend(2, 3, 0)->number;
  EXPECT_NE(rooms_.lend(3, 3, 0)->number, small) << "rows";
  EXPECT_NE(rooms_.lend(2, 65, 0)->number, small) << "columns";
  EXPECT_NE(rooms_.lend(2, 3, 7)->number, small) << "columns of an encoder";
  EXPECT_EQ(rooms_.lend(2, 64, 0)->number, small);
  EXPECT_EQ(rooms_.lend(2, 65, 0)->columns.capacity(), 128);
  EXPECT_EQ(rooms_.lend(2, 64, 0)->column(5).item<std::int64_t>(), 5);
}

TEST_F(Rooms, OnesOwnIsNotLentAgain) {
  EXPECT_EQ(rooms_.own(2, 3, 0)->number, 0);
  EXPECT_FALSE(rooms_.release());
}

TEST_F(Rooms, AreLetGoButForThoseThatAreLent) {
  rooms_.lend(2, 3, 0);
  KeyRooms::Lent lent = rooms_.lend(3, 3, 0);
  const std::int64_t number = lent->number;
  EXPECT_TRUE(rooms_.release());
  EXPECT_FALSE(rooms_.release());
  EXPECT_EQ(lent->columns.batch(), 3) << "it is there until it comes back";
  lent = KeyRooms::Lent();
  EXPECT_NE(rooms_.lend(3, 3, 0)->number, number);
}

TEST_F(Rooms, AreNotKeptWithoutEnd) {
  for (std::int64_t batch = 1; batch < 30; ++batch) rooms_.lend(batch, 3, 0);
  const std::int64_t last = rooms_.lend(29, 3, 0)->number;
  EXPECT_LE(last, 29) << "the newest is lent again";
  EXPECT_GT(rooms_.lend(1, 3, 0)->number, last) << "the oldest is gone";
}

}  // namespace
}  // namespace hooked::key_rooms_test
