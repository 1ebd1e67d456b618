// The forms in which Python gives what analyses take.
#include <fmt/format.h>

#include "python/src/bind.h"
#include "python/src/metric_input.h"

namespace hooked::python {
namespace {

// A whole number of any kind: an int, NumPy's, a tensor of one.
std::optional<std::int64_t> integer(nb::handle source) {
  if (nb::isinstance<nb::bool_>(source) || PyIndex_Check(source.ptr()) == 0) return std::nullopt;
  return nb::cast<std::int64_t>(nb::steal(PyNumber_Index(source.ptr())));
}

template <typename T>
bool is_already(nb::handle source, std::optional<T>& value) {
  if (!nb::isinstance<T>(source)) return false;
  value.emplace(nb::cast<const T&>(source));
  return true;
}

}  // namespace

MetricRun::MetricRun(const MetricInput& run)
    : logits(run.logits),
      logit_tokens(run.logit_tokens),
      cache(run.cache),
      columns(run.columns),
      real(run.real),
      tokens(run.tokens),
      first_column(run.first_column),
      rows(run.rows),
      answers(run.answers) {}

bool Converter<Answers>::apply(nb::handle source, std::optional<Answers>& value) {
  if (is_already(source, value)) return true;
  if (nb::isinstance<nb::str>(source)) {
    value.emplace(std::string_view(nb::cast<std::string_view>(source)));
    return true;
  }
  if (is_list(source)) {
    throw ShapeError("answers",
                     "a list may be one set of tokens or each row's own; expected one token, its text, or "
                     "Answers; use Answers.any_of(tokens), Answers.by_row(tokens) or "
                     "Answers.texts_by_row(texts)");
  }
  const auto token = integer(source);
  if (token) value.emplace(*token);
  return token.has_value();
}

bool Converter<Position>::apply(nb::handle source, std::optional<Position>& value) {
  if (is_already(source, value)) return true;
  if (nb::isinstance<nb::str>(source)) {
    const auto text = nb::cast<std::string>(source);
    if (text != "last") {
      throw ShapeError(
          "position",
          fmt::format("'{}' is not a position; expected a column, 'last', or (name, columns)", text));
    }
    value.emplace(Position::last());
    return true;
  }
  if (nb::isinstance<nb::tuple>(source)) {
    if (nb::len(source) != 2 || !nb::isinstance<nb::str>(source[0]) || !nb::isinstance<nb::list>(source[1]))
      return false;
    value.emplace(nb::cast<std::string>(source[0]), nb::cast<std::vector<std::int64_t>>(source[1]));
    return true;
  }
  const auto column = integer(source);
  if (column) value.emplace(*column);
  return column.has_value();
}

bool Converter<SweptPlace>::apply(nb::handle source, std::optional<SweptPlace>& value) {
  if (is_already(source, value)) return true;
  std::optional<Position> into, from;
  const bool is_pair =
      nb::isinstance<nb::tuple>(source) && nb::len(source) == 2 && !nb::isinstance<nb::list>(source[1]);
  if (is_pair) {
    if (!Converter<Position>::apply(source[0], into) || !Converter<Position>::apply(source[1], from))
      return false;
    value.emplace(*std::move(into), *std::move(from));
    return true;
  }
  if (!Converter<Position>::apply(source, into)) return false;
  value.emplace(*std::move(into));
  return true;
}

bool Converter<SweptAxis>::apply(nb::handle source, std::optional<SweptAxis>& value) {
  if (is_already(source, value)) return true;
  std::optional<Axis> axis;
  std::optional<std::vector<SweptPlace>> places = std::vector<SweptPlace>();
  if (nb::isinstance<nb::str>(source)) {
    if (!Converter<Axis>::apply(source, axis)) return false;
  } else if (!nb::isinstance<nb::tuple>(source) || nb::len(source) != 2 ||
             !Converter<Axis>::apply(source[0], axis) ||
             !Converter<std::vector<SweptPlace>>::apply(source[1], places)) {
    return false;
  }
  value.emplace(*axis, *std::move(places));
  return true;
}

bool Converter<SweptSite>::apply(nb::handle source, std::optional<SweptSite>& value) {
  if (is_already(source, value)) return true;
  if (nb::isinstance<act::BlockSite>(source))
    value.emplace(nb::cast<act::BlockSite>(source));
  else if (nb::isinstance<act::ExpertSite>(source))
    value.emplace(nb::cast<act::ExpertSite>(source));
  else if (nb::isinstance<act::DictionarySite>(source))
    value.emplace(nb::cast<act::DictionarySite>(source));
  return value.has_value();
}

bool Converter<PatchSource>::apply(nb::handle source, std::optional<PatchSource>& value) {
  if (is_already(source, value)) return true;
  if (!nb::isinstance<ActivationCache>(source)) return false;
  value.emplace(nb::cast<const ActivationCache&>(source));
  return true;
}

bool Converter<GraphFeatures>::apply(nb::handle source, std::optional<GraphFeatures>& value) {
  if (is_already(source, value)) return true;
  if (nb::isinstance<DictionarySet>(source)) {
    value.emplace(nb::cast<const DictionarySet&>(source).members());
    return true;
  }
  std::optional<std::vector<Dictionary>> transcoders;
  if (!Converter<std::vector<Dictionary>>::apply(source, transcoders)) return false;
  value.emplace(*std::move(transcoders));
  return true;
}

bool Converter<PatchingPreset>::apply(nb::handle source, std::optional<PatchingPreset>& value) {
  if (is_already(source, value)) return true;
  if (!nb::isinstance<nb::str>(source)) return false;
  value = patching_preset(nb::cast<std::string>(source));
  return true;
}

bool Converter<Metric>::apply(nb::handle source, std::optional<Metric>& value) {
  if (is_already(source, value)) return true;
  if (PyCallable_Check(source.ptr()) == 0) return false;
  value.emplace(tensor_function<const at::Tensor&>(source, "metric"));
  return true;
}

bool Converter<ScoreFunction>::apply(nb::handle source, std::optional<ScoreFunction>& value) {
  if (PyCallable_Check(source.ptr()) == 0) return false;
  value = [call = tensor_function<const MetricRun&>(source, "metric")](const MetricInput& run) {
    return call(MetricRun(run));
  };
  return true;
}

bool Converter<RunMetric>::apply(nb::handle source, std::optional<RunMetric>& value) {
  if (is_already(source, value)) return true;
  if (nb::isinstance<BoundMetric>(source)) {
    value = nb::cast<const BoundMetric&>(source);
    return true;
  }
  if (!nb::isinstance<nb::dict>(source)) return false;
  value = nb::cast<RunMetric>(nb::type<RunMetric>()(**nb::borrow<nb::dict>(source)));
  return true;
}

}  // namespace hooked::python
