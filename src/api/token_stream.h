// TokenStream: the append-only event log of one generation, and Generation, a door's handle on it.
//
// One writer (the gateway until the request is submitted, then the engine thread; of an answer that
// several may read, StreamSource), one reader: the Generation. The length is release-published: an
// event below size() is immutable and may be read without a lock.
//
// What a Generation has read is freed as it goes, so a stream holds little more than what is
// unread, and back-pressure bounds that. Without a Generation events stay until the end: n x
// max_tokens (and, scored, the prompt) of EventBytes() each, 1.5 KiB at most with 20
// log-probabilities.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "api/caller.h"
#include "api/output_parser.h"
#include "api/reasoning_filter.h"
#include "api/types.h"
#include "base/status.h"

namespace tutti::api {

// Told that streams it reads have grown. Wake() is called from the writer's thread, at most once a
// step for each distinct waker however many streams it serves, and must be cheap, non-blocking and
// non-throwing.
class StreamWaker {
 public:
  virtual ~StreamWaker() = default;
  virtual void Wake() noexcept = 0;
};

class TokenStream {
 public:
  explicit TokenStream(std::shared_ptr<StreamWaker> waker,
                       std::shared_ptr<RequestObserver> observer = nullptr);
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // --- writer ---
  // Before the first token: what each of `choices` thinks between tags is taken out of its text.
  // `budget`: of its tokens, of each choice.
  void FilterReasoning(ReasoningMode mode, const ReasoningTags& tags, int choices,
                       std::optional<int> budget = {});
  // Before the first token: the text that the filter leaves goes to the parser of its choice. One
  // parser for each choice.
  void ParseOutput(std::vector<std::unique_ptr<OutputParser>> parsers);
  void Append(StreamEvent event);  // not kEnd; CHECKs that the stream has not ended
  void Finish(Status status, Usage usage, Timings timings);  // the one terminal event; exactly once
  const std::shared_ptr<StreamWaker>& waker() const { return waker_; }
  // The back-pressure signal: bytes of text appended that the reader has not reported as consumed,
  // and what the log itself holds for each event not yet fetched through a Generation (short tokens
  // cost more than their text).
  size_t unread_bytes() const;
  // What the log holds for an event beside its text: the record and its log-probabilities.
  static size_t EventBytes(const StreamEvent& event);

  // --- the reader, any thread ---
  size_t size() const { return published_.load(std::memory_order_acquire) / 2; }
  class Cursor;  // reads the events in order, each in O(1)
  // Frees the chunks that lie wholly behind `reader`; from then on it is the only cursor in use.
  void FreeBehind(const Cursor& reader);
  // True from the moment on in which the terminal event can be read.
  bool ended() const { return published_.load(std::memory_order_acquire) % 2 != 0; }
  const Status& status() const;  // after ended(): OK, or why it failed
  // The reader has taken this many more bytes of text into its own, bounded keeping.
  void Consumed(size_t bytes) { consumed_bytes_.fetch_add(bytes, std::memory_order_acq_rel); }

 private:
  struct FilteredChoice {
    ReasoningFilter filter;
    // Tokens since reasoning last held more than white space. Those of the tags are never counted:
    // a budget of n tokens is followed by forced ones, and at most n are told.
    int uncounted = 0;
    // Tokens that may still count: a character that the budget's last token leaves open comes out
    // with one of the closing tag.
    int most = std::numeric_limits<int>::max();
  };
  void Filter(StreamEvent* event);
  struct Chunk;  // fixed-size run of events; linked, so that events never move
  void Publish(StreamEvent event, size_t ended);  // `ended` 1 with the terminal event, else 0

  const std::shared_ptr<StreamWaker> waker_;
  std::shared_ptr<RequestObserver> observer_;  // writer only; null after the end
  bool has_token_ = false;                     // writer only
  int reasoning_tokens_ = 0;                   // writer only
  std::vector<FilteredChoice> reasoning_;      // writer only; of each choice; empty: text passes
  std::vector<std::unique_ptr<OutputParser>> parsers_;  // writer only; of each choice
  std::unique_ptr<Chunk> first_;
  Chunk* last_;          // writer only
  size_t appended_ = 0;  // writer only
  // Twice the events published, and one more with the terminal one: a reader sees that and
  // ended() in the same moment.
  std::atomic<size_t> published_{0};
  std::atomic<size_t> appended_bytes_{0}, consumed_bytes_{0};
  Status status_;  // written before the terminal event is published
};

// A place in a stream, used by one thread at a time. Of several none may free. The stream must
// outlive it.
class TokenStream::Cursor {
 public:
  Cursor() = default;
  explicit Cursor(const TokenStream& stream) : stream_(&stream), chunk_(stream.first_.get()) {}
  // The next unread event, or nullptr when there is none yet. Valid until FreeBehind() passes it.
  const StreamEvent* Next();
  size_t position() const { return index_; }  // events read

 private:
  friend class TokenStream;
  const TokenStream* stream_ = nullptr;
  const Chunk* chunk_ = nullptr;
  size_t index_ = 0;
};

// What destroying or cancelling a Generation reaches. Any thread, idempotent, cheap; the work stops
// at the next step boundary.
class Cancellable {
 public:
  virtual ~Cancellable() = default;
  virtual void Cancel() noexcept = 0;
};

// Where the events of a stream come from when nobody writes it but its reader: the Generation asks
// for more when it has read all. Any thread, one at a time.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Appends what there is, a little at a time, if no more than `read` events stand in the stream.
  // Whether it did.
  virtual bool Fill(size_t read) = 0;
};

// The read end of one request. Owned by the door's connection; **destroying it cancels the
// request**, so a client that went away cannot be forgotten. Movable. Not thread-safe itself; the
// stream it reads is.
class Generation {
 public:
  Generation() = default;
  // `source` may be null: the stream has a writer.
  Generation(std::shared_ptr<TokenStream> stream, std::shared_ptr<Cancellable> control,
             std::shared_ptr<StreamSource> source = nullptr);
  Generation(Generation&&) noexcept = default;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  explicit operator bool() const { return stream_ != nullptr; }
  const TokenStream& stream() const {
    if (source_ != nullptr) source_->Fill(cursor_.position());
    return *stream_;
  }
  // The next unread event, or nullptr when there is none yet. Valid until the next call.
  const StreamEvent* Next() {
    const StreamEvent* event = cursor_.Next();
    if (event == nullptr && source_ != nullptr && source_->Fill(cursor_.position()))
      event = cursor_.Next();
    if (event == nullptr) return nullptr;
    stream_->Consumed(TokenStream::EventBytes(*event));
    stream_->FreeBehind(cursor_);
    return event;
  }
  // Text of that many bytes is in the door's own frames, which it bounds; the rest counts as
  // unread.
  void Consumed(size_t bytes) { stream_->Consumed(bytes); }
  void Cancel();
  // For whoever may end the request beside its reader.
  const std::shared_ptr<Cancellable>& control() const { return control_; }

 private:
  std::shared_ptr<TokenStream> stream_;
  std::shared_ptr<Cancellable> control_;
  std::shared_ptr<StreamSource> source_;
  TokenStream::Cursor cursor_;
};

}  // namespace tutti::api
