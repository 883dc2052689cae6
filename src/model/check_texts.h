// The texts with which an encoder is measured when it is loaded: some to find the magnitude of its
// activations, others to compare the results of a smaller type with float32.
//
// Constants. Languages, scripts, code, numbers, single words: rare parts of a vocabulary show
// larger errors than average prose.
#pragma once

#include <span>
#include <string_view>

namespace tutti::model {

std::span<const std::string_view> PeakTexts();
std::span<const std::string_view> CheckTexts();  // none of PeakTexts()

}  // namespace tutti::model
