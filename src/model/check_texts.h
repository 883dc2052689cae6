// The texts on which an encoder is measured when it is loaded: some to see how great its
// activations get, others to compare what a smaller type gives with float32.
//
// Constants. Languages, scripts, code, numbers, single words: what stands at the edges of a
// vocabulary shows more than average prose does.
#pragma once

#include <span>
#include <string_view>

namespace tutti::model {

std::span<const std::string_view> PeakTexts();
std::span<const std::string_view> CheckTexts();  // none of PeakTexts()

}  // namespace tutti::model
