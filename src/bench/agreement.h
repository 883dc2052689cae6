// `tutti bench agreement`: how far a student (a distilled, smaller or quantised model) agrees with
// its teacher on a text, and how much faster it is. For a decision about the weights of an alias.
//
// Decoders: the share of positions of the text where both have the same most probable token, given
// the teacher's text before it (bench/perplexity.h), and the ratios of the speeds of scoring and of
// decoding. Both models must read the text as the same tokens.
//
// Embedding models: the lines of the text are embedded by both. Where the widths are equal, the
// cosine of the two embeddings of a line, mean and lowest. At any widths, Pearson's correlation of
// the cosines of all pairs of lines: whether both call the same lines similar. The ratio of the
// speeds in texts per second.
#pragma once

#include <span>
#include <string>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct AgreementOptions {
  std::string teacher, student;
  Flags flags;                 // of both
  std::string text;            // path of a file of UTF-8 text
  int window = 512;            // decoders: tokens of one window of the text
  int tokens = 10'000;         // decoders: of the text, at most
  int lines = 512;             // embedding models: of the text, at most
  double least_agreement = 0;  // percent of equal tokens, or 100 x mean cosine (else the
                               // correlation); below it the bench fails; 0: no gate
};

// `progress` gets each line as it is known. Errors: those of loading; invalid_value for a text that
// is too short, for models of different kinds, and for decoders that split the text differently.
Result<Report> BenchAgreement(const AgreementOptions& options, const Progress& progress);

// Cosine of two rows of the same length; 0 if one has no length.
double Cosine(std::span<const float> a, std::span<const float> b);
// Pearson's correlation of equally long samples; 0 where one does not vary.
double Correlation(std::span<const double> a, std::span<const double> b);

}  // namespace tutti::bench
