#include "models/replay/recordings.h"

#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Event.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/out_of_memory.h"
#include "core/to_device.h"

namespace hooked {
namespace {

// Of one model, and how much memory their results may take together.
constexpr std::size_t kMostKinds = 64;
constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;

// Preferred alignment of CUDA copies, in bytes.
constexpr std::int64_t kStorageAlignment = 256;

// A handle of some of a storage's memory. Built by hand, as a run has hundreds: the views that LibTorch would
// create cost the host as much as the replay.
at::Tensor handle(const c10::Storage& storage, std::int64_t offset, const at::Tensor& like,
                  caffe2::TypeMeta dtype, at::IntArrayRef sizes, at::IntArrayRef strides) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), like.key_set(), dtype);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return made;
}

// All bytes of a tensor's storage.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  return handle(tensor.storage(), 0, tensor, caffe2::TypeMeta::Make<std::uint8_t>(), {bytes}, {1});
}

}  // namespace

/// Tensors that are copied out in one piece: the place of each one's storage in a block of bytes. Views of
/// one storage stay so, with the same layout, so that what is computed from them is the same to the last bit.
class Recordings::OutputBlock {
 public:
  /// Adds a tensor. Those on the host stay as they are, as a recording writes none.
  void add(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return;
    const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
      return place.bytes.storage().is_alias_of(tensor.storage());
    });
    order_.push_back(found - places_.begin());
    if (found != places_.end()) return;
    places_.push_back({bytes_of(tensor), bytes_});
    bytes_ += (places_.back().bytes.numel() + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
  }

  std::int64_t bytes() const noexcept { return bytes_; }

  /// Makes the block and copies everything into it.
  void gather(const c10::Device& device) {
    block_ = at::empty({bytes_}, at::TensorOptions(at::kByte).device(device));
    for (const Place& place : places_) block_.narrow(0, place.first, place.bytes.numel()).copy_(place.bytes);
  }

  /// What the tensors show now, in separate memory and in the order in which they were added.
  class Taken {
   public:
    explicit Taken(const OutputBlock& from) : from_(from), block_(from.block_.clone()) {}
    at::Tensor next(const at::Tensor& recorded) {
      if (recorded.is_cpu()) return recorded;
      const Place& place = from_.places_[static_cast<std::size_t>(from_.order_[next_++])];
      const auto item = static_cast<std::int64_t>(recorded.itemsize());
      return handle(block_.storage(), place.first / item + recorded.storage_offset(), recorded,
                    recorded.dtype(), recorded.sizes(), recorded.strides());
    }

   private:
    const OutputBlock& from_;
    at::Tensor block_;
    std::size_t next_ = 0;
  };

 private:
  struct Place {
    at::Tensor bytes;    // of a storage
    std::int64_t first;  // byte
  };

  std::vector<Place> places_;
  std::vector<std::ptrdiff_t> order_;  // index of each added tensor among the places
  std::int64_t bytes_ = 0;
  at::Tensor block_;
};

struct Recordings::Recorded {
  explicit Recorded(const Asked& asked)
      : memory(asked.memory),
        first_frozen(asked.inputs.size() - asked.frozen),
        done(device_of(asked).type()) {}

  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::shared_ptr<const void> memory;  ///< what else the work reads and writes
  Inputs inputs;                       ///< where to put the numbers that a run reads
  std::size_t first_frozen;            ///< index among the inputs
  std::vector<Weak> frozen;            ///< whose numbers are there already
  HostCopies constants;                ///< what the work copies from the host: the same at every replay
  Computed computed;                   ///< in the recording's own memory, which every replay overwrites
  OutputBlock outputs;
  OutputBlock columns;  ///< those of the key/value cache, which outlives the outputs
  c10::Event done;      ///< of the last replay: the next may be on another stream
  std::unique_ptr<Recording> recording;

  Computed replay(const Inputs& given) {
    const c10::Device device = inputs.front().device();
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    if (done.was_marked_for_recording()) done.block(stream);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!holds(i, given[i])) inputs[i].copy_(given[i]);
    }
    remember(given);
    recording->replay();
    OutputBlock::Taken taken(outputs);
    std::optional<KvCache> kept;
    if (computed.columns) {
      OutputBlock::Taken own(columns);
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& recorded_one : computed.columns->tensors())
        tensors.push_back(own.next(recorded_one));
      kept = computed.columns->with_tensors(tensors);
    }
    done.record(stream);
    const auto next = [&](const at::Tensor& recorded_one) { return taken.next(recorded_one); };
    at::Tensor output = computed.output.defined() ? next(computed.output) : at::Tensor();
    return {std::move(output), computed.cache.in_form(next), std::move(kept)};
  }

  static c10::Device device_of(const Asked& asked) { return asked.inputs.front().device(); }

  /// Whether an input's numbers are there already.
  bool holds(std::size_t input, const at::Tensor& given) const {
    return input >= first_frozen && frozen[input - first_frozen].lock().get() == given.unsafeGetTensorImpl();
  }
  void remember(const Inputs& given) {
    frozen.clear();
    for (std::size_t i = first_frozen; i < given.size(); ++i) frozen.emplace_back(given[i].getIntrusivePtr());
  }
};

/// Runs with the same key.
struct Recordings::Kind {
  std::string key;
  bool seen = false;                             ///< it ran once
  std::unique_ptr<Recorded> recorded = nullptr;  ///< from the second run on
  std::string refusal = {};                      ///< why not
};

Recordings::Recordings(std::unique_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}
Recordings::~Recordings() = default;

Recordings::Kind& Recordings::kind(const std::string& key) {
  const auto found =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.key == key; });
  if (found == kinds_.end()) {
    kinds_.push_front({.key = key});
    if (kinds_.size() > kMostKinds) kinds_.pop_back();
  } else {
    kinds_.splice(kinds_.begin(), kinds_, found);
  }
  return kinds_.front();
}

Computed Recordings::run(const Asked& asked, const Work& work, std::string& refusal) {
  std::unique_lock lock(mutex_);
  Kind& found = kind(asked.key);
  if (found.recorded) return found.recorded->replay(asked.inputs);
  refusal = found.refusal;
  if (!found.seen || !refusal.empty()) {
    found.seen = true;
    lock.unlock();
    return work(asked.inputs);
  }
  auto made = std::make_unique<Recorded>(asked);
  Computed computed;
  recorder_->warm_up([&] {
    const KeepHostCopies keep(made->constants);
    computed = work(asked.inputs);
  });
  try {
    record(*made, asked, work);
    found.recorded = std::move(made);
    drop_oldest();
  } catch (const std::exception& error) {
    // Until memory is freed the next attempt would fail as well, after the work of two runs.
    found.refusal = out_of_memory(error) ? "there is no memory for its recording" : error.what();
    refusal = found.refusal;
  }
  return computed;
}

void Recordings::record(Recorded& made, const Asked& asked, const Work& work) {
  // Handles with versions of their own: what is kept of an input must not count as written into when the next
  // run's numbers are copied in.
  Inputs read_by_work;
  for (std::size_t i = 0; i < asked.inputs.size(); ++i) {
    const at::Tensor& input = asked.inputs[i];
    // What nobody writes into keeps its layout, which may affect the choice of kernels.
    const at::Tensor read = i < made.first_frozen
                                ? at::empty_like(input, {}, {}, {}, {}, at::MemoryFormat::Contiguous)
                                : at::empty_strided(input.sizes(), input.strides(), input.options());
    made.inputs.push_back(read.variable_data());
    made.inputs.back().copy_(input);
    read_by_work.push_back(read);
  }
  made.remember(asked.inputs);
  made.recording = recorder_->record([&] {
    const ReuseHostCopies reuse(made.constants);
    made.computed = work(read_by_work);
    if (made.computed.output.defined()) made.outputs.add(made.computed.output);
    made.computed.cache.in_form([&](const at::Tensor& held) {
      made.outputs.add(held);
      return held;
    });
    made.outputs.gather(Recorded::device_of(asked));
    if (!made.computed.columns) return;
    for (const at::Tensor& kept : made.computed.columns->tensors()) made.columns.add(kept);
    made.columns.gather(Recorded::device_of(asked));
  });
}

void Recordings::drop_oldest() {
  std::int64_t bytes = 0;
  for (auto kind = kinds_.begin(); kind != kinds_.end();) {
    if (kind->recorded) bytes += kind->recorded->outputs.bytes() + kind->recorded->columns.bytes();
    const bool newest = kind == kinds_.begin();
    kind = bytes > kMostBytes && !newest ? kinds_.erase(kind) : std::next(kind);
  }
}

void Recordings::forget(const void* memory) {
  const std::lock_guard lock(mutex_);
  kinds_.remove_if(
      [&](const Kind& kind) { return kind.recorded != nullptr && kind.recorded->memory.get() == memory; });
}

bool Recordings::release() {
  const std::lock_guard lock(mutex_);
  const bool any =
      std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.recorded != nullptr; });
  kinds_.clear();
  return any;
}

}  // namespace hooked
