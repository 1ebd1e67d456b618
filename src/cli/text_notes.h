#pragma once

#include <string>
#include <vector>

#include "hooked/analysis/position.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "options/command_options.h"

namespace hooked::cli {

/// Writes a note to stderr if texts get a BOS token that no file asks for.
void note_around(const HookedTransformer& model, PrependBos choice);

/// Writes a note to stderr if texts end in a blank that is a token of its own, in a vocabulary whose words
/// begin with their blank: hardly any word follows such a token.
void note_blank_at_end(const HookedTransformer& model, const std::vector<std::string>& texts);

/// Notes on chosen texts whose other spelling is a token too, at a position (spelling_notes). Throws
/// Interrupted if Ctrl-C ends the run that they may need.
std::vector<std::string> answer_notes(const std::vector<const TokenChoice*>& choices,
                                      const HookedTransformer& model, const Input& input,
                                      const Position& position, const Edits& edits);

}  // namespace hooked::cli
