// libhooked_cuda.so: the CUDA features for the engine that only LibTorch's CUDA half has. It is loaded when a
// CUDA device is opened; nothing links it.
#include "models/replay/recorder.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>

namespace hooked {
namespace {

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(c10::DeviceIndex device) : device_(device) {}
  void replay() override {
    const c10::cuda::CUDAGuard on(device_);
    graph.replay();
  }

  at::cuda::CUDAGraph graph;

 private:
  c10::DeviceIndex device_;
};

class CudaRecorder final : public Recorder {
 public:
  explicit CudaRecorder(c10::DeviceIndex device)
      : device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
        memory_(at::cuda::graph_pool_handle()) {}

  void warm_up(const Work& work) override { on_own_stream(work); }

  std::unique_ptr<Recording> record(const Work& work) override {
    auto made = std::make_unique<CudaRecording>(device_);
    on_own_stream([&] {
      // All graphs share their memory: results of one are copied out before the next begins. Other threads
      // may continue to allocate in the meantime.
      made->graph.capture_begin(memory_, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        const std::exception_ptr thrown = std::current_exception();
        try {
          made->graph.capture_end();  // rethrows if an exception ended it
        } catch (const std::exception&) {
          static_cast<void>(cudaGetLastError());
        }
        std::rethrow_exception(thrown);
      }
      made->graph.capture_end();
    });
    return made;
  }

 private:
  // A graph cannot be recorded on the default stream, which everything uses unless another was chosen.
  void on_own_stream(const Work& work) {
    const c10::cuda::CUDAGuard on(device_);
    const c10::cuda::CUDAStream before = c10::cuda::getCurrentCUDAStream(device_);
    const auto wait = [](const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& for_it) {
      c10::Event reached(c10::DeviceType::CUDA);
      reached.record(for_it.unwrap());
      reached.block(waiting.unwrap());
    };
    wait(stream_, before);
    {
      const c10::cuda::CUDAStreamGuard there(stream_);
      work();
    }
    wait(before, stream_);
  }

  c10::DeviceIndex device_;
  c10::cuda::CUDAStream stream_;
  at::cuda::MempoolId_t memory_;
};

}  // namespace
}  // namespace hooked

/// A hooked::MakeRecorder.
extern "C" __attribute__((visibility("default"))) hooked::Recorder* hooked_recorder_cuda(int index) {
  return new hooked::CudaRecorder(static_cast<c10::DeviceIndex>(index));
}
