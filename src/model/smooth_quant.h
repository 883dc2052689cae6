// SmoothQuant: the columns of a product's two matrices are balanced before both are rounded to int8
// with one scale per row.
//
// A row's greatest value determines its quantisation step, so a few columns of activations that are
// far greater than the others cost the others their precision. Column k of the activations is
// divided by a factor and column k of the weights multiplied by it: the product stays the same, and
// magnitude moves to the side that has room. Source: Xiao et al. 2022, "SmoothQuant", with
// alpha = 1/2. Pure functions; any thread.
#pragma once

#include <span>
#include <vector>

namespace tutti::model {

// Raises greatest[k] to the magnitudes of column k of `values`, whose rows have greatest.size()
// columns. A NaN raises nothing.
void RaiseToMagnitudes(std::span<const float> values, std::span<float> greatest);

// The factor of each column: sqrt(peak / weight), of the greatest magnitudes of both. Finite and
// above 0 for all inputs. A column whose peak is far below the mean counts as a quarter of the
// mean, because the observed activations are only a sample.
std::vector<float> BalancingFactors(std::span<const float> peaks, std::span<const float> weights);

}  // namespace tutti::model
