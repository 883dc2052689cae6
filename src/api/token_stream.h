// TokenStream: the append-only event log of one generation. Generation: a server's handle on it.
//
// One writer: the gateway until the request is submitted, then the engine thread (for cached
// answers the StreamSource). One reader: the Generation. The length is published with release
// order: events below size() are immutable and can be read without a lock.
//
// A Generation frees events that it has read, so a stream holds little more than the unread events,
// which back-pressure bounds. Without a Generation all events stay until the end: n x max_tokens
// (and the prompt, if scored) of EventBytes() each, at most 1.5 KiB with 20 log-probabilities.
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
#include "base/waker.h"

namespace tutti::api {

class TokenStream {
 public:
  explicit TokenStream(std::shared_ptr<Waker> waker,
                       std::shared_ptr<RequestObserver> observer = nullptr);
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // --- writer ---
  // Filters the reasoning of `choices` choices from now on; call it before the first token.
  // `budget`: maximum number of reasoning tokens per choice.
  void FilterReasoning(ReasoningMode mode, const ReasoningTags& tags, int choices,
                       std::optional<int> budget = {});
  // Divides the log-probabilities of later events by `temperature`, which is above 0.
  void DivideLogprobs(double temperature) { temperature_ = temperature; }
  // Passes the filtered text to one parser per choice; call it before the first token.
  void ParseOutput(std::vector<std::unique_ptr<OutputParser>> parsers);
  void Append(StreamEvent event);  // not kEnd; CHECKs that the stream has not ended
  void Finish(Status status, Usage usage, Timings timings);  // the one terminal event; exactly once
  const std::shared_ptr<Waker>& waker() const { return waker_; }
  // The back-pressure signal: bytes of appended text that the reader has not reported as consumed,
  // plus EventBytes() of each event not yet fetched by a Generation.
  size_t unread_bytes() const;
  // Bytes that the log holds for an event without its text: the record and its log-probabilities.
  static size_t EventBytes(const StreamEvent& event);

  // --- the reader, any thread ---
  size_t size() const { return published_.load(std::memory_order_acquire) / 2; }
  class Cursor;  // reads the events in order, each in O(1)
  // Frees the chunks that `reader` has read completely; no other cursor may be used afterwards.
  void FreeBehind(const Cursor& reader);
  // True as soon as the terminal event can be read.
  bool ended() const { return published_.load(std::memory_order_acquire) % 2 != 0; }
  const Status& status() const;  // after ended(): OK, or why it failed
  // Reports that the reader has moved this many bytes of text to its own, bounded buffers.
  void Consumed(size_t bytes) { consumed_bytes_.fetch_add(bytes, std::memory_order_acq_rel); }

 private:
  struct FilteredChoice {
    ReasoningFilter filter;
    // Tokens since reasoning last held more than white space. Tokens of the tags are never counted:
    // after a budget of n tokens the closing tag is forced, and the reported number is at most n.
    int uncounted = 0;
    // Tokens that may still count: a character that the budget's last token leaves open comes out
    // with one of the closing tag.
    int most = std::numeric_limits<int>::max();
  };
  void Filter(StreamEvent* event);
  struct Chunk;  // fixed-size run of events; linked, so that events never move
  void Publish(StreamEvent event, size_t ended);  // `ended` 1 with the terminal event, else 0

  const std::shared_ptr<Waker> waker_;
  std::shared_ptr<RequestObserver> observer_;  // writer only; null after the end
  bool has_token_ = false;                     // writer only
  int reasoning_tokens_ = 0;                   // writer only
  double temperature_ = 1;                     // writer only; divides log-probabilities
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

// A read position in a stream, used by one thread at a time. With several cursors on a stream none
// may call FreeBehind(). The stream must outlive it.
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

// Cancels the computation behind a Generation. Any thread; idempotent and cheap; the computation
// stops at the next step boundary.
class Cancellable {
 public:
  virtual ~Cancellable() = default;
  virtual void Cancel() noexcept = 0;
};

// Source of events for a stream that its own reader fills: the Generation calls Fill() when it has
// read all events. Any thread, one at a time.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Appends some events if the stream holds no more than `read` events; returns whether it did.
  virtual bool Fill(size_t read) = 0;
};

// The read end of one request. Owned by the server's connection; **destroying it cancels the
// request**, so that no request of a disconnected client keeps running. Movable. Not thread-safe
// itself; the stream that it reads is.
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
  // Reports that the server has moved this many bytes of text to its own, bounded send buffer;
  // all other text counts as unread.
  void Consumed(size_t bytes) { stream_->Consumed(bytes); }
  void Cancel();
  // Cancels the request from outside its reader, for example when a client disconnects.
  const std::shared_ptr<Cancellable>& control() const { return control_; }

 private:
  std::shared_ptr<TokenStream> stream_;
  std::shared_ptr<Cancellable> control_;
  std::shared_ptr<StreamSource> source_;
  TokenStream::Cursor cursor_;
};

}  // namespace tutti::api
