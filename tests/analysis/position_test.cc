#include "hooked/analysis/position.h"

#include "hooked/analysis/answers.h"
#include "tests/support/test.h"

namespace hooked::position_test {
namespace {

using Columns = std::vector<std::int64_t>;

/// Five columns from 2 on; the second row is padded by one on the left, the third by two on the right.
TokenColumns columns() {
  return {.first = 2,
          .end = 7,
          .mask = at::tensor({1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({3, 5}).eq(1)};
}

TEST(Position, IsAColumnOfEachRow) {
  EXPECT_EQ(Position(3).columns(3, columns()), Columns({3, 3, 3}));
  EXPECT_EQ(Position(-4).columns(3, columns()), Columns({3, 3, 3}));
  EXPECT_EQ(Position::last().columns(3, columns()), Columns({6, 6, 4}));
  EXPECT_EQ(Position("name", {2, 5, 4}).columns(3, columns()), Columns({2, 5, 4}));
  EXPECT_EQ(Position::last().columns(2, {.first = 0, .end = 5}), Columns({4, 4}));
}

TEST(Position, SaysWhatItIs) {
  EXPECT_EQ(Position(3).label(), "3");
  EXPECT_EQ(Position(-1).label(), "-1");
  EXPECT_EQ(Position(AxisIndex::Last{}).label(), "last");
  EXPECT_EQ(Position("subject", {1}).label(), "subject");
}

TEST(Position, IsNeverPaddingNorOutside) {
  const auto refusal = [](const Position& position) {
    return text_thrown_by<ShapeError>([&] { position.columns(3, columns()); });
  };
  EXPECT_THAT(refusal(-1), AllOf(HasSubstr("[position -1]"), HasSubstr("padding in row 2"),
                                 HasSubstr("at positions 2 to 4")));
  EXPECT_THAT(refusal(2), HasSubstr("padding in row 1"));
  EXPECT_THAT(refusal(1), HasSubstr("expected 2 to 6"));
  EXPECT_THAT(refusal(7), HasSubstr("outside the tokens"));
  EXPECT_THAT(refusal(Position("name", {2, 2, 2})), AllOf(HasSubstr("[position name]"), HasSubstr("row 1")));
  EXPECT_THAT(refusal(Position("name", {3, 3})), HasSubstr("columns for 2 rows"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { Position("name", {3, -1}); }), HasSubstr("got -1"));
  EXPECT_THROW(Position("name", {}), ShapeError);
}

TEST(Position, OfSomeRowsIsTheSamePlaceInThem) {
  EXPECT_EQ(Position("name", {2, 5, 4}).of_rows({2, 2, 0}), Position("name", {4, 4, 2}));
  EXPECT_EQ(Position(3).of_rows({7}), Position(3));
  EXPECT_THROW(Position("name", {2}).of_rows({1}), ShapeError);
}

TEST(Answers, AreOneSetOrOnePerRow) {
  EXPECT_EQ(Answers(3).of_row(5), Columns({3}));
  EXPECT_EQ(Answers::any_of({3, 4}).of_row(5), Columns({3, 4}));
  EXPECT_EQ(Answers::by_row({3, 4}).of_row(1), Columns({4}));
  EXPECT_EQ(Answers::sets_by_row({{3}, {4, 5}}).of_rows({1, 0, 1}),
            Answers::sets_by_row({{4, 5}, {3}, {4, 5}}));
  EXPECT_EQ(Answers(3).rows(), 0);
  EXPECT_EQ(Answers::by_row({3, 4}).rows(), 2);
}

TEST(Answers, MustFitTheRun) {
  const auto refusal = [](const Answers& answers) {
    return text_thrown_by<ShapeError>([&] { answers.require_fit(2, 11, "logit"); });
  };
  EXPECT_NO_THROW(Answers::by_row({0, 10}).require_fit(2, 11, "logit"));
  EXPECT_THAT(refusal(11), AllOf(HasSubstr("[logit] token id 11"), HasSubstr("0 to 10")));
  EXPECT_THAT(refusal(-1), HasSubstr("token id -1"));
  EXPECT_THAT(refusal(Answers::by_row({1, 2, 3})), HasSubstr("answers for 3 rows"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                Answers::sets_by_row({{1}, {}});
              }),
              HasSubstr("row 1 has no token"));
  EXPECT_THROW(Answers::any_of({}), ShapeError);
  EXPECT_THROW(Answers::by_row({1, 2}).of_rows({2}), ShapeError);
}

}  // namespace
}  // namespace hooked::position_test
