// What long work calls between its steps: signals, a progress bar, and Python's callbacks.
#include <chrono>
#include <memory>

#include "python/src/casters.h"

namespace hooked::python {
namespace {

using Clock = std::chrono::steady_clock;

// A bar of hooked._progress, which is made at the first step and closed with the function that holds it.
class Bar {
 public:
  explicit Bar(const char* kind) : kind_(kind) {}

  void show(std::uint64_t done, std::uint64_t total, double seconds) {
    if (!bar_) {
      const nb::object made = nb::module_::import_("hooked._progress").attr(kind_)();
      bar_ = std::make_shared<nb::detail::pyfunc_wrapper>(made.ptr());
    }
    nb::handle(bar_->f)(done, total, seconds);
  }

 private:
  const char* kind_;
  std::shared_ptr<nb::detail::pyfunc_wrapper> bar_;
};

// False, None, or a function of some arguments.
enum class Shown { nothing, bar, by_function, unknown };
Shown shown_by(nb::handle source) {
  if (source.is_none()) return Shown::bar;
  if (source.is(nb::bool_(false))) return Shown::nothing;
  return PyCallable_Check(source.ptr()) != 0 ? Shown::by_function : Shown::unknown;
}

bool goes_on(const nb::object& answer) { return answer.is_none() || nb::cast<bool>(nb::bool_(answer)); }

// Fills in what is called between steps: a bar, the signals alone, or the signals and then a Python function.
template <typename Result, typename... Arguments>
bool convert_progress(nb::handle source, std::optional<std::function<Result(Arguments...)>>& value) {
  const Shown shown = shown_by(source);
  if (shown == Shown::unknown) return false;
  value.emplace();
  if (shown == Shown::bar) {
    put_progress(*value);
    return true;
  }
  std::shared_ptr<nb::detail::pyfunc_wrapper> held;
  if (shown == Shown::by_function) held = std::make_shared<nb::detail::pyfunc_wrapper>(source.ptr());
  value = [held](Arguments... now) -> Result {
    const nb::gil_scoped_acquire gil;
    heed_signals();
    const nb::object answer = held ? nb::handle(held->f)(now...) : nb::none();
    if constexpr (!std::is_void_v<Result>) return goes_on(answer);
  };
  return true;
}

}  // namespace

void heed_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void put_progress(ProgressFunction& option) {
  option = [bar = std::make_shared<Bar>("StepBar")](const SweepProgress& now) {
    const nb::gil_scoped_acquire gil;
    heed_signals();
    bar->show(static_cast<std::uint64_t>(now.done), static_cast<std::uint64_t>(now.total), now.seconds);
    return true;
  };
}

void put_progress(HarvestProgressFunction& option) {
  option = [bar = std::make_shared<Bar>("StepBar")](const HarvestProgress& now) {
    const nb::gil_scoped_acquire gil;
    heed_signals();
    bar->show(static_cast<std::uint64_t>(now.units_done), static_cast<std::uint64_t>(now.units_total),
              now.seconds);
    return true;
  };
}

void put_progress(Progress& option) {
  option = [bar = std::make_shared<Bar>("ByteBar"), began = Clock::now()](std::uint64_t done,
                                                                          std::uint64_t total) {
    const nb::gil_scoped_acquire gil;
    heed_signals();
    bar->show(done, total, std::chrono::duration<double>(Clock::now() - began).count());
  };
}

bool Converter<ProgressFunction>::apply(nb::handle source, std::optional<ProgressFunction>& value) {
  return convert_progress(source, value);
}

bool Converter<HarvestProgressFunction>::apply(nb::handle source,
                                               std::optional<HarvestProgressFunction>& value) {
  return convert_progress(source, value);
}

bool Converter<Progress>::apply(nb::handle source, std::optional<Progress>& value) {
  return convert_progress(source, value);
}

}  // namespace hooked::python
