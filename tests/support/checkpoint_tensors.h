#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/core/state_dict.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/safetensors.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"

namespace hooked {

/// A copy of a golden checkpoint whose tensors and config.json a test may change.
class CheckpointTensors : public testing::Test {
 protected:
  void take(const std::string& name) {
    const GoldenCase& golden = golden_case(name);
    golden_ = read_golden(golden);
    original_ = golden.folder();
    std::filesystem::copy_file(golden.folder() / "config.json", folder_.path() / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    tensors_.clear();
    const SafetensorsFile file = SafetensorsFile::open(golden.folder() / "model.safetensors");
    for (const TensorInfo& info : file.tensors()) tensors_[info.name] = file.read(info.name);
    ASSERT_FALSE(tensors_.empty()) << name;
  }

  /// The folder, with the tensors as they are now.
  std::string written() const {
    save_safetensors(folder_.path() / "model.safetensors", {tensors_.begin(), tensors_.end()}, {});
    return folder_.path().string();
  }

  HookedTransformer load() const { return load_raw(written()); }

  /// Those of the checkpoint as it is, [batch, pos, vocab], which golden_test compares with its oracle's.
  at::Tensor logits() const { return load_raw(original_.string()).run(golden_.tokens).logits(); }

  /// The largest difference of a model's logits from these.
  double difference(const HookedTransformer& model) const {
    return (model.run(golden_.tokens).logits() - logits()).abs().max().item<double>();
  }

  void rename(std::string_view from, std::string_view to) {
    StateDict renamed;
    for (const auto& [name, tensor] : tensors_) {
      renamed[name.starts_with(from) ? std::string(to) + name.substr(from.size()) : name] = tensor;
    }
    tensors_ = renamed;
  }

  static HookedTransformer load_raw(const std::string& folder) {
    return HookedTransformer::load(folder, {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }

  GoldenRun golden_;
  std::filesystem::path original_;  ///< the checkpoint's folder
  StateDict tensors_;
  TempFolder folder_;
};

}  // namespace hooked
