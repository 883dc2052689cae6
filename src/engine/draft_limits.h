// Limits of speculative decoding in one step. Plans and buffers have room for them.
#pragma once

namespace tutti::engine {

// Maximum draft tokens of one sequence in a step.
inline constexpr int kMaxDrafts = 7;
// Maximum rows of a step with draft tokens: each sequence has one row, and one for each of its
// draft tokens. Beyond this, an additional row costs as much as a row of its own on any machine, so
// that drafting cannot pay.
inline constexpr int kMaxDraftRows = 16;
// Maximum sequences in a step with draft tokens.
inline constexpr int kMaxDraftSequences = kMaxDraftRows / 2;

// A draft model that lags behind its sequence by at most this many tokens reads them as part of
// drafting; whether reading more pays is decided first (Speculation).
inline constexpr int kDraftLittleToRead = 16;
// Maximum tokens of a prompt that the draft model reads in one step.
inline constexpr int kDraftReadAtMost = 128;

}  // namespace tutti::engine
