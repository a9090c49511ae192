// For a mistyped word: which of the known ones was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uc::admin {

// The known words nearest to `word`, in their given order: those that begin with it or that it
// begins with, else those reached with the fewest (at most two) letters changed, added, left out
// or swapped with their neighbour. Empty: none is near.
std::vector<std::string> near_words(std::string_view word, std::span<const std::string> known);
// "; did you mean status or stop?"; empty if there are none, or too many to be of help.
std::string did_you_mean(const std::vector<std::string>& words);

}  // namespace uc::admin
