#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The steps of a dictionary, between which a run shows its points. Tensors are [batch, pos, width].
class Coder {
 public:
  Coder() = default;
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;
  virtual ~Coder() = default;

  /// What the dictionary reads of an activation: in its dtype.
  virtual at::Tensor input_of(const at::Tensor& activation) const = 0;
  virtual at::Tensor preactivations(const at::Tensor& input) const = 0;
  virtual at::Tensor activations(const at::Tensor& preactivations, const at::Tensor& input) const = 0;
  /// From the features of its sources (MountedDictionary::sources), with biases and a skip connection.
  virtual at::Tensor decode(const std::vector<at::Tensor>& features, const at::Tensor& input) const = 0;
  /// False: there are no pre-activations, and those that activations() is given are undefined.
  virtual bool has_preactivations() const = 0;
  /// A reconstruction as what takes the place of `activation`, in whose dtype it is: its normalisation
  /// undone.
  virtual at::Tensor output_of(const at::Tensor& reconstruction, const at::Tensor& input,
                               const at::Tensor& activation) const = 0;
  /// The reconstruction, a few tokens at a time: nothing of size [tokens, features] is made. Only for a
  /// dictionary that is its only source.
  virtual at::Tensor reconstruct(const at::Tensor& input) const = 0;
};

/// A dictionary at its place in a model: where it reads, and the activation whose place its output takes.
struct MountedDictionary {
  ActivationName reads, writes;
  std::optional<std::int64_t> head = {};  ///< of activations with heads: only this one
  /// The output is the activation itself, changed by what edits of features change.
  bool with_error = false;
  std::vector<std::int64_t> excluded = {};  ///< tokens at which the activation stays as it is
  std::shared_ptr<const Coder> coder;
  std::int64_t features = 0, d_read = 0, d_written = 0;
  /// The dictionaries whose features its decoder reads, as indices: itself, and in a cross-layer transcoder
  /// those of earlier layers.
  std::vector<std::size_t> sources = {};

  std::vector<std::string> notes = {};  ///< what a user should know about it

  /// The name of a point inside it.
  ActivationName inside(Site site) const {
    ActivationName name = writes;
    name.host = writes.site;
    name.site = site;
    return name;
  }
  /// The size of its axis `axis`; nothing for the axes of all activations.
  std::optional<std::int64_t> size_of(Axis axis) const {
    switch (axis) {
      case Axis::feature:
        return features;
      case Axis::d_read:
        return d_read;
      case Axis::d_written:
        return d_written;
      default:
        return std::nullopt;
    }
  }
};

/// The names of the points inside a dictionary, in the order in which they fire.
std::vector<ActivationName> names_inside(const MountedDictionary& mounted);

/// The dictionaries of a model, in the order in which their outputs are computed.
using MountedDictionaries = std::vector<MountedDictionary>;

}  // namespace hooked
