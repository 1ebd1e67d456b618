#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Note [Checkpoints without an unembedding]
/// Embedding, reward and classifying models are decoders whose files have no unembedding. config.json's
/// `architectures` says so: it names a class without one, or none at all. Their score heads (`score`, in some
/// families `classifier`) replace the unembedding, with a label for each of its entries. Without such a head
/// the model ends with its final norm. If the class is a causal language model and the unembedding is absent,
/// the checkpoint lacks a tensor.
///
/// If the files have no unembedding, changes `family` and `read` to what the files contain, and says so in
/// the returned notes.
std::vector<std::string> resolve_head(const SourceTensors& source, Family& family, FamilyConfig& read);

}  // namespace hooked
