// Corpora, harvests, and stores of activations.
#include <fmt/format.h>
#include <nanobind/stl/map.h>

#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

namespace {

using Content = std::variant<std::string, std::vector<std::int64_t>>;

// A document of Python's: a text, or ids.
Content content_of(nb::handle document) {
  if (nb::isinstance<nb::str>(document)) return nb::cast<std::string>(document);
  if (const auto tensor = tensor_of(document)) {
    const at::Tensor ids = tensor->to(at::kCPU, at::kLong).flatten().contiguous();
    return std::vector<std::int64_t>(ids.const_data_ptr<std::int64_t>(),
                                     ids.const_data_ptr<std::int64_t>() + ids.numel());
  }
  std::vector<std::int64_t> ids;
  for (const nb::handle id : nb::iter(document)) ids.push_back(nb::cast<std::int64_t>(nb::int_(id)));
  return ids;
}

// Documents that a function of Python gives, which other threads may call.
Corpus corpus_of_reader(nb::callable read, std::int64_t documents, std::string fingerprint) {
  const auto held = std::make_shared<nb::detail::pyfunc_wrapper>(read.ptr());
  auto reader = [held](std::int64_t begin, std::int64_t end) {
    const nb::gil_scoped_acquire gil;
    std::vector<CorpusDocument> some;
    for (const nb::handle document : nb::iter(nb::handle(held->f)(begin, end)))
      some.push_back(
          {.number = begin + static_cast<std::int64_t>(some.size()), .content = content_of(document)});
    return some;
  };
  const nb::gil_scoped_release released;
  return Corpus::of(std::move(reader), documents, std::move(fingerprint));
}

// Something whose threads may wait for Python: it ends without the GIL.
template <typename Value>
class Released {
 public:
  explicit Released(Value value) : value_(std::make_unique<Value>(std::move(value))) {}
  ~Released() {
    if (!value_) return;
    const nb::gil_scoped_release released;
    value_.reset();
  }
  Released(Released&&) noexcept = default;
  Released& operator=(Released&&) noexcept = default;

  Value& operator*() { return *value_; }

 private:
  std::unique_ptr<Value> value_;
};

ActivationRows next_of(auto& of) {
  std::optional<ActivationRows> rows;
  {
    const nb::gil_scoped_release released;
    rows = (*of).next();
  }
  if (!rows) throw nb::stop_iteration();
  return *std::move(rows);
}

StoreOptions shown(Given<StoreOptions>& given) {
  StoreOptions store = given.given() ? given.take() : StoreOptions{};
  if (!store.planning) put_progress(store.planning);
  return store;
}

void bind_corpus(nb::module_& module) {
  bind_struct<CorpusOptions>(module);
  bind_struct<CorpusUnit>(module);
  bind_struct<CorpusFile>(module);
  bind_result<CorpusDocument>(module);
  nb::class_<Corpus> corpus(module, "Corpus", documentation("Corpus"));
  StaticScope<nb::class_<Corpus>> scope{corpus};
  define(
      scope, "open", "Corpus::open",
      [](const std::filesystem::path& path, CorpusOptions options) { return Corpus::open(path, options); },
      nb::arg("path"));
  corpus
      .def_static(
          "of",
          [](nb::iterable documents) {
            std::vector<Content> all;
            for (const nb::handle document : documents) all.push_back(content_of(document));
            return Corpus::of(std::move(all));
          },
          nb::arg("documents"),
          nb::sig("def of(documents: collections.abc.Iterable[str | collections.abc.Sequence[int] | "
                  "torch.Tensor]) -> Corpus"),
          documentation("Corpus::of"))
      .def_static(
          "of_reader", &corpus_of_reader, nb::arg("read"), nb::arg("documents"), nb::arg("fingerprint"),
          nb::sig("def of_reader(read: collections.abc.Callable[[int, int], collections.abc.Iterable[str | "
                  "collections.abc.Sequence[int]]], documents: int, fingerprint: str) -> Corpus"),
          documentation("Corpus::of"))
      .def("path", &Corpus::path, documentation("Corpus::path"))
      .def("files", &Corpus::files, documentation("Corpus::files"))
      .def("fingerprint", &Corpus::fingerprint, documentation("Corpus::fingerprint"))
      .def("holds_ids", &Corpus::holds_ids, documentation("Corpus::holds_ids"))
      .def("ignored", &Corpus::ignored, documentation("Corpus::ignored"))
      .def(
          "units",
          [](const Corpus& self, std::uint64_t unit_tokens, Given<Progress> progress) {
            return self.units(unit_tokens, progress.given() ? progress.take() : Progress());
          },
          nb::arg("unit_tokens"), nb::arg("progress") = nb::none(), ReleaseGil(),
          documentation("Corpus::units"))
      .def("read", &Corpus::read, nb::arg("unit"), ReleaseGil(), documentation("Corpus::read"));
}

void bind_store(nb::module_& module) {
  bind_result<StoredActivation>(module);
  bind_struct<MinibatchOptions>(module);
  using Batches = Released<Minibatches>;
  nb::class_<Batches>(module, "Minibatches", documentation("Minibatches"))
      .def("__iter__", [](nb::object self) { return self; })
      .def(
          "__next__", [](Batches& self) { return next_of(self); }, documentation("Minibatches::next"));
  nb::class_<ActivationStore> store(module, "ActivationStore", documentation("ActivationStore"));
  const auto reads = [&](const char* name, auto function, auto... arguments) {
    store.def(name, function, arguments..., ReleaseGil(),
              documentation(std::string("ActivationStore::") + name));
  };
  store.def_static("open", &ActivationStore::open, nb::arg("folder"), ReleaseGil(),
                   documentation("ActivationStore::open"));
  reads("rows", &ActivationStore::rows);
  reads("activations", &ActivationStore::activations);
  reads("provenance", &ActivationStore::provenance);
  reads("complete", &ActivationStore::complete);
  reads("read", &ActivationStore::read, nb::arg("begin"), nb::arg("end"),
        nb::arg("names") = std::vector<std::string>());
  reads("rows_at", &ActivationStore::rows_at, nb::arg("numbers"),
        nb::arg("names") = std::vector<std::string>());
  define(store, "minibatches", "ActivationStore::minibatches",
         [](const ActivationStore& self, MinibatchOptions options) {
           return Batches(self.minibatches(options));
         });
  store.def("__len__", &ActivationStore::rows).def("__repr__", [](const ActivationStore& self) {
    return fmt::format("ActivationStore of {} rows", self.rows());
  });
}

void bind_reductions(nb::module_& module) {
  bind_result<ActivationMoments>(module)
      .def("mean", &ActivationMoments::mean, documentation("ActivationMoments::mean"))
      .def("covariance", &ActivationMoments::covariance, documentation("ActivationMoments::covariance"))
      .def_static("load", &ActivationMoments::load, nb::arg("folder"), ReleaseGil(),
                  documentation("ActivationMoments::load"));
  bind_result<FeatureExamples>(module).def_static("load", &FeatureExamples::load, nb::arg("folder"),
                                                  ReleaseGil(), documentation("FeatureExamples::load"));
}

}  // namespace

void bind_harvest(nb::module_& module) {
  bind_corpus(module);
  bind_enum<Packing>(module);
  bind_struct<ContextOptions>(module);
  bind_struct<RowOptions>(module);
  bind_result<HarvestProgress>(module);
  bind_struct<HarvestOptions>(module);
  bind_struct<UnitShare>(module).def_static("of_launcher", &UnitShare::of_launcher,
                                            documentation("UnitShare::of_launcher"));
  bind_struct<ReductionOptions>(module);
  bind_struct<StoreOptions>(module);
  bind_result<StoreStatus>(module).def("complete", &StoreStatus::complete,
                                       documentation("StoreStatus::complete"));
  bind_result<HarvestSummary>(module);
  bind_result<HarvestEstimate>(module);
  bind_result<ActivationRows>(module).def("rows", &ActivationRows::rows,
                                          documentation("ActivationRows::rows"));
  using Stream = Released<ActivationStream>;
  nb::class_<Stream> stream(module, "ActivationStream", documentation("ActivationStream"));
  define(
      stream, "__init__", "ActivationStream::ActivationStream",
      [](Stream* self, const HookedTransformer& model, const Corpus& corpus, HarvestOptions options) {
        new (self) Stream(ActivationStream(model, corpus, options));
      },
      nb::arg("model"), nb::arg("corpus"));
  stream.def("__iter__", [](nb::object self) { return self; })
      .def(
          "__next__", [](Stream& self) { return next_of(self); }, documentation("ActivationStream::next"))
      .def(
          "tokens", [](Stream& self) { return (*self).tokens(); }, documentation("ActivationStream::tokens"));
  define(
      module, "harvest", "harvest",
      [](const HookedTransformer& model, const Corpus& corpus, const std::filesystem::path& out,
         Given<StoreOptions> store,
         HarvestOptions options) { return harvest(model, corpus, out, options, shown(store)); },
      nb::arg("model"), nb::arg("corpus"), nb::arg("out"), nb::arg("store") = nb::none());
  define(
      module, "estimate_harvest", "estimate_harvest",
      [](const HookedTransformer& model, const Corpus& corpus, Given<StoreOptions> store,
         HarvestOptions options) { return estimate_harvest(model, corpus, options, shown(store)); },
      nb::arg("model"), nb::arg("corpus"), nb::arg("store") = nb::none());
  define_plain(module, "require_can_harvest", "require_can_harvest", &require_can_harvest, nb::arg("out"));
  define_plain(module, "store_status", "store_status", &store_status, nb::arg("folder"));
  define_plain(module, "join_store", "join_store", &join_store, nb::arg("folder"));
  module.def(
      "verify_store",
      [](const std::filesystem::path& folder, Given<Progress> progress) {
        Progress shown = progress.given() ? progress.take() : Progress();
        if (!shown) put_progress(shown);
        return verify_store(folder, shown);
      },
      nb::arg("folder"), nb::arg("progress") = nb::none(), ReleaseGil(), documentation("verify_store"));
  bind_store(module);
  bind_reductions(module);
}

}  // namespace hooked::python
