// Linear probes against scikit-learn, components against numpy (tests/golden/makers/probes.py), and what is
// refused.
#include "hooked/analysis/linear_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "tests/support/goldens.h"
#include "tests/support/test.h"

namespace hooked::linear_fit_test {
namespace {

constexpr double kTolerance = 1e-6;

const NamedTensors& theirs() {
  static const NamedTensors kAll =
      read_tensors(std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/probes.safetensors");
  return kAll;
}

struct Form {
  bool intercept = true, standardize = false;
  double penalty = 1.0;
};
const std::map<std::string, Form> kForms{{"plain", {}},
                                         {"origin", {.intercept = false}},
                                         {"standardized", {.standardize = true}},
                                         {"standardized_origin", {.intercept = false, .standardize = true}},
                                         {"strong", {.penalty = 30}}};
const char* const kSets[] = {"balanced", "imbalanced", "three", "collinear", "few"};

double furthest(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() ? (a - b).abs().max().item<double>()
                                : std::numeric_limits<double>::infinity();
}

class Fits : public testing::TestWithParam<std::tuple<const char*, std::string>> {
 protected:
  const std::string name = std::get<0>(GetParam()), form_name = std::get<1>(GetParam());
  const Form form = kForms.at(form_name);
  const at::Tensor x = theirs().at(name + ".x"), labels = theirs().at(name + ".labels");

  void expect_theirs(const LinearFit& fit, const std::string& model) const {
    const std::string key = name + "." + model + "." + form_name;
    EXPECT_LE(furthest(fit.weight, theirs().at(key + ".weight")), kTolerance) << key;
    EXPECT_LE(furthest(fit.intercept, theirs().at(key + ".intercept")), kTolerance * 50) << key;
    EXPECT_LE(
        furthest(fit.scores(x), x.matmul(theirs().at(key + ".weight").t()) + theirs().at(key + ".intercept")),
        kTolerance)
        << key;
  }
};

TEST_P(Fits, AreThoseOfScikitLearn) {
  const RidgeOptions ridge{
      .alpha = form.penalty, .intercept = form.intercept, .standardize = form.standardize};
  expect_theirs(ridge_regression(x, theirs().at(name + ".targets"), ridge), "ridge");
  expect_theirs(ridge_classifier(x, labels, ridge), "classifier");
  const LinearFit logistic = logistic_regression(
      x, labels, {.c = 1 / form.penalty, .intercept = form.intercept, .standardize = form.standardize});
  expect_theirs(logistic, "logistic");
  EXPECT_TRUE(logistic.converged);
  EXPECT_GT(logistic.iterations, 0);
  EXPECT_LT(logistic.iterations, 400);
}

INSTANTIATE_TEST_SUITE_P(
    All, Fits,
    testing::Combine(testing::ValuesIn(kSets),
                     testing::Values("plain", "origin", "standardized", "standardized_origin", "strong")),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

TEST(LinearFit, SaysTheClassOfTheLargestOutput) {
  const at::Tensor x = theirs().at("three.x"), labels = theirs().at("three.labels");
  const LinearFit fit = logistic_regression(x, labels);
  EXPECT_TRUE(at::equal(fit.classes_of(x), fit.scores(x).argmax(1)));
  const at::Tensor two = theirs().at("balanced.x");
  const LinearFit binary = logistic_regression(two, theirs().at("balanced.labels"));
  EXPECT_EQ(binary.weight.size(0), 1);
  EXPECT_TRUE(at::equal(binary.classes_of(two), binary.scores(two).squeeze(1).gt(0).to(at::kLong)));
  EXPECT_EQ(binary.classes_of(two[0]).dim(), 0);
}

TEST(LinearFit, LeastSquaresOfCollinearFeaturesHaveTheSmallestWeights) {
  const at::Tensor x = theirs().at("collinear.x"), y = theirs().at("collinear.targets");
  const LinearFit fit = ridge_regression(x, y, {.alpha = 0});
  const at::Tensor around = x - x.mean(0);
  const at::Tensor smallest =
      at::linalg_pinv(around, 1e-10).matmul(y - y.mean(0)).t();  // the pseudo-inverse's
  EXPECT_LE(furthest(fit.weight, smallest), kTolerance);
}

TEST(MeanDifference, IsThatOfTheClasses) {
  const at::Tensor x = theirs().at("imbalanced.x"), labels = theirs().at("imbalanced.labels");
  const at::Tensor one = x.index({labels.eq(1)}).mean(0), zero = x.index({labels.eq(0)}).mean(0);
  const LinearFit fit = mean_difference(x, labels);
  EXPECT_LE(furthest(fit.weight[0], one - zero), 1e-12);
  EXPECT_NEAR(fit.scores(one).item<double>(), (one - zero).square().sum().item<double>() / 2, 1e-9);
  EXPECT_NEAR(fit.scores((one + zero) / 2).item<double>(), 0, 1e-9);
  // Of more classes, the nearest mean.
  const at::Tensor many = theirs().at("three.x"), which = theirs().at("three.labels");
  std::vector<at::Tensor> means;
  for (int c = 0; c < 3; ++c) means.push_back(many.index({which.eq(c)}).mean(0));
  const at::Tensor distances = at::cdist(many, at::stack(means));
  EXPECT_TRUE(at::equal(mean_difference(many, which).classes_of(many), distances.argmin(1)));
}

TEST(SeparatingFeatures, AreThoseWhoseMeansDifferMost) {
  const at::Tensor x = at::randn({200, 6}, at::detail::createCPUGenerator(1), at::kDouble) * 0.1;
  const at::Tensor labels = at::arange(200, at::kLong) % 2;
  x.select(1, 4).add_(labels * 3);
  x.select(1, 2).sub_(labels * 2);
  EXPECT_TRUE(at::equal(separating_features(x, labels, 2), at::tensor({4, 2}, at::kLong)));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { separating_features(x, labels, 7); }),
              HasSubstr("expected 1 to 6, got 7"));
}

TEST(Components, AreNumpys) {
  for (const std::string name : kSets) {
    const at::Tensor x = theirs().at(name + ".x");
    const Components found = principal_components(x, 3);
    const at::Tensor vectors = theirs().at(name + ".components");
    // numpy's sign is arbitrary; ours makes the largest entry positive.
    EXPECT_LE(furthest((found.vectors * vectors).sum(1).abs(), at::ones({3}, at::kDouble)), 1e-9) << name;
    const at::Tensor largest = found.vectors.gather(1, found.vectors.abs().argmax(1, true));
    EXPECT_TRUE(largest.gt(0).all().item<bool>()) << name;
    EXPECT_LE(furthest(found.variance / theirs().at(name + ".variance"), at::ones({3}, at::kDouble)), 1e-9);
    EXPECT_LE(furthest(found.share, theirs().at(name + ".share")), 1e-9) << name;
    EXPECT_LE(furthest(found.mean, x.mean(0)), 1e-9) << name;
  }
}

TEST(Components, OfContrastsFindThePlantedDirection) {
  const auto generator = at::detail::createCPUGenerator(5);
  const at::Tensor planted = at::randn({24}, generator, at::kDouble);
  const at::Tensor base = at::randn({300, 24}, generator, at::kDouble) * 3;
  const at::Tensor strength = at::rand({300, 1}, generator, at::kDouble) + 0.5;
  const auto noise = [&] { return at::randn({300, 24}, generator, at::kDouble) * 0.1; };
  const at::Tensor positive = base + strength * planted + noise(),
                   negative = base - strength * planted + noise();
  const auto cosine = [&](const at::Tensor& v) {
    return (v.dot(planted) / (v.norm() * planted.norm())).item<double>();
  };
  EXPECT_GT(cosine(contrast_components(positive, negative, 2).vectors[0]), 0.999);
  EXPECT_LT(cosine(contrast_components(negative, positive, 2).vectors[0]), -0.999);
  EXPECT_GT(cosine(contrast_mean(positive, negative)), 0.999);
  EXPECT_GT(contrast_components(positive, negative, 2).share[0].item<double>(), 0.9);
  // Equal to the components of both sides around the middle of their pair.
  const at::Tensor away = (positive - negative) / 2;
  const Components both = principal_components(at::cat({away, -away}), 2);
  EXPECT_NEAR(
      (both.vectors[0].dot(contrast_components(positive, negative, 1).vectors[0])).abs().item<double>(), 1,
      1e-9);
  EXPECT_EQ(contrast_components(positive.slice(0, 0, 1), negative.slice(0, 0, 1), 1).vectors.size(0), 1);
}

TEST(LinearFit, RefusesWhatItCannotFit) {
  const at::Tensor x = theirs().at("balanced.x").clone(), labels = theirs().at("balanced.labels");
  const at::Tensor ones = at::ones_like(labels);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logistic_regression(x, ones); }),
              HasSubstr("all 60 rows are of class 1; expected rows of two classes"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { ridge_classifier(x, labels * 2); }),
              HasSubstr("class 1 of 3 has no row"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { mean_difference(x, labels - 1); }), HasSubstr("below zero"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { mean_difference(x, labels.slice(0, 1)); }),
              HasSubstr("expected integers [60], got int64 [59]"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { principal_components(x.slice(0, 0, 1), 1); }),
              HasSubstr("one row has no variance"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { principal_components(x, 6); }), HasSubstr("1 to 5, got 6"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { contrast_mean(x, x.slice(0, 1)); }), HasSubstr("got [60, 5]"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { ridge_classifier(x, labels, {.alpha = -1}); }),
              HasSubstr("expected 0 or more, got -1"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { logistic_regression(x, labels, {.c = 0}); }),
              HasSubstr("expected more than 0, got 0"));
  x[7][2] = std::nan("");
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { ridge_classifier(x, labels); }),
              HasSubstr("row 7 has a number that is not finite"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { principal_components(x, 1); }), HasSubstr("row 7"));
}

}  // namespace
}  // namespace hooked::linear_fit_test
