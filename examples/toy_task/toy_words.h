#pragma once

#include <string_view>

namespace toy {

// The toy model's words, one list per part a word can play, separated by blanks. No word is in two lists.

/// First names: the people of the sentences.
extern const std::string_view kNames;
/// Places that follow "the".
extern const std::string_view kPlaces;
/// Objects that follow "a".
extern const std::string_view kObjects;
/// What one person does with an object: it fits before "a cup to Mary".
extern const std::string_view kGivingVerbs;
/// How two people came to a place: it fits before "to the park".
extern const std::string_view kMovingVerbs;
/// Words of no sentence. They appear in repeated sequences only, so that copying cannot lean on what words
/// mean.
extern const std::string_view kFillers;

}  // namespace toy
