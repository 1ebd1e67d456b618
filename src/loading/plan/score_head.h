#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Note [Checkpoints without an unembedding]
/// Embedding, reward and classifying models are decoders whose files have no unembedding. config.json's
/// `architectures` says so: it names a class without one, or none at all. Their heads of scores (`score`, in
/// some families `classifier`) stand in the unembedding's place, with a label for each of its entries;
/// without such a head the model ends with its final norm. A class of causal language models that lacks its
/// unembedding is a checkpoint that lacks a tensor.
///
/// Puts into `family` and `read` what the files hold, where they hold no unembedding, and says so in the
/// notes it returns.
std::vector<std::string> resolve_head(const SourceTensors& source, Family& family, FamilyConfig& read);

}  // namespace hooked
