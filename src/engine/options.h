// Configuration of scheduling, queueing and readers: plain values with the shared defaults; and the
// limits of speculative decoding, which are constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/encoding.h"
#include "base/clock.h"

namespace tutti::engine {

enum class Strategy {
  kContinuous,   // one forward pass a step for all sequences; requests join and leave at every step
  kInterleaved,  // all sequences are active, each step is one sequence's: a token for each in turn
  kBlocking,     // one sequence from its start to its end
  kStatic,       // collect a batch, run it until its last member ends, then the next
};

enum class Admission {
  kPack,     // admit what fits now; when blocks run out, preempt and recompute later
  kNoEvict,  // admit only what can reach its last token with the blocks that are free now
};

struct SchedulerOptions {
  Strategy strategy = Strategy::kContinuous;
  Admission admission = Admission::kPack;
  int max_num_seqs = 8;           // sequences in a step
  int prefill_chunk = 128;        // prompt tokens of a step in which sequences decode too
  int prefill_chunk_alone = 512;  // ... in which none decodes
  // Target time between two tokens: a step that mixes prefill and decode shrinks its prefill chunk
  // to stay below it.
  Duration itl_target = std::chrono::milliseconds(50);
  // Limit of a step with prefill while another model on the device had work recently, so that its
  // short requests do not wait behind whole prompts. It is raised to two and a half times a step
  // without prefill where that is more.
  Duration contended_step = std::chrono::milliseconds(20);
  // Limit of a step with prefill when only batch-class requests run, so that an interactive request
  // that arrives does not wait long for the step in flight.
  Duration batch_step = std::chrono::milliseconds(15);
  bool prefix_cache = true;
  // A request waits so long for a running one that is computing a beginning of its prompt, rather
  // than computing it too, and not beyond `follow_age` after it was queued: an engine sets half of
  // QueueLimits::age. 0 = never.
  Duration follow = std::chrono::seconds(10);
  Duration follow_age = Duration::max();
  // A request waits so long for the beginning of its prompt to be read from a PrefixStore.
  Duration load_patience = std::chrono::seconds(5);
  // Steps compute likely draft tokens if that pays: copied from what followed the same tokens
  // earlier in the text, from an answer that the client predicted, or proposed by a draft model.
  // Changes no answer. Servers turn it on by an option.
  bool speculate = true;
  // Draft tokens that a request's grammar forces are used even if `speculate` is false.
  bool propose_forced = true;
  int max_overtakes = 16;  // admissions past a sequence that does not fit, before all wait for it
  int max_preemptions =
      3;  // of one sequence; then it is pinned: admitted only with its worst case reserved
  Duration priority_aging =
      std::chrono::seconds(10);  // waiting this long lifts a request by one priority class
  int static_batch = 8;          // kStatic: batch size to wait for ...
  Duration static_wait = std::chrono::milliseconds(10);  // ... or this long after the first
};

struct QueueLimits {
  // Accepted requests that do not run, in preparation or waiting; a request counts n times. The
  // test is places + n <= max_num_seqs + requests (places: unfinished requests without those of
  // ReaderLimits::aside), so that a burst is not refused while they are about to run.
  int requests = 256;
  double prompt_tokens_per_kv_token =
      4.0;  // prompt tokens waiting, as a multiple of the KV capacity in tokens
  size_t bytes = size_t{64} << 20;  // request bytes held
  Duration age = std::chrono::seconds(
      30);  // an interactive request, not detached, that did not run by then ends; max() = off
};

struct ReaderLimits {
  // In the log and not taken by the reader: the sequence pauses above this. With the 16 KiB that a
  // server may hold as frames, a reader that stops costs 64 KiB.
  size_t unread_bytes = size_t{48} << 10;
  Duration patience =
      std::chrono::seconds(30);  // a request paused for its reader so long is cancelled
  // Requests paused for their readers that give up their place in the queue, so that they do not
  // keep others out: 1,024 x 64 KiB unread = 64 MiB. Further ones keep it until they end.
  int aside = 1024;
};

struct EngineOptions {
  SchedulerOptions scheduler;
  QueueLimits queue;
  ReaderLimits reader;
  int prefix_hash_bits = 128;  // of the prefix index; tests force collisions with few
};

struct EncoderOptions {
  int batch_items = 32;     // items of a batch, and
  int batch_tokens = 1024;  // tokens; both also bounded by the runner, and never below one item
  Duration batch_time = std::chrono::milliseconds(50);  // estimated; less when sharing a device
  // Longest that a batch is held back for items about to come, while the device is busy; 0 = never.
  Duration window = std::chrono::milliseconds(10);
  double share = 0.25;  // of a device that is shared with a decoder, in (0, 1)
  // An interactive request of at most `small_items` items, and tokens of one batch, goes ahead of
  // others, which are sure of `bulk_share` of every batch.
  int small_items = 8;
  double bulk_share = 0.25;
  int max_passed = 3;  // batches in which an item may be passed over for the length of others
  Duration priority_aging = std::chrono::seconds(10);  // as SchedulerOptions'

  // Limits of waiting work, in preparation or for a batch. An input counts until its request ends.
  int requests = 1024;
  int items = 8 * api::kMaxEncodeInputs;
  int64_t tokens = 1 << 20;
  size_t bytes = size_t{64} << 20;          // of request bodies
  size_t result_bytes = size_t{256} << 20;  // for their results
  Duration age = std::chrono::seconds(
      30);  // an interactive request of which nothing ran by then ends; max() = off
};

// Limits of speculative decoding in one step. Plans and buffers have room for them.
//
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
