#include "api/token_stream.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::api {

namespace {
constexpr size_t kChunkEvents = 16;  // a short answer fits in two or three chunks
}

struct TokenStream::Chunk {
  std::array<StreamEvent, kChunkEvents> events;
  std::unique_ptr<Chunk> next;  // published with the size that first reaches into it
};

TokenStream::TokenStream(std::shared_ptr<Waker> waker, std::shared_ptr<RequestObserver> observer)
    : waker_(std::move(waker)),
      observer_(std::move(observer)),
      first_(std::make_unique<Chunk>()),
      last_(first_.get()) {}

TokenStream::~TokenStream() {
  // Iteratively: a long stream must not unwind one stack frame per chunk.
  for (std::unique_ptr<Chunk> chunk = std::move(first_); chunk != nullptr;)
    chunk = std::move(chunk->next);
}

void TokenStream::FilterReasoning(ReasoningMode mode, const ReasoningTags& tags, int choices,
                                  std::optional<int> budget) {
  reasoning_.clear();
  if (mode == ReasoningMode::kKeep) return;
  for (int i = 0; i < choices; ++i) {
    reasoning_.push_back({ReasoningFilter(mode, tags)});
    if (budget) reasoning_.back().most = *budget;
  }
}

void TokenStream::ParseOutput(std::vector<std::unique_ptr<OutputParser>> parsers) {
  parsers_ = std::move(parsers);
}

void TokenStream::Filter(StreamEvent* event) {
  const bool ends = event->kind == StreamEvent::Kind::kChoiceEnd;
  if (!ends && event->kind != StreamEvent::Kind::kToken) return;
  const auto choice = static_cast<size_t>(event->choice);
  if (!reasoning_.empty()) {
    FilteredChoice& filtered = reasoning_[choice];
    ReasoningFilter& filter = filtered.filter;
    const std::string raw = std::exchange(event->text, {});
    const bool inside = filter.inside();
    filter.Push(raw, &event->text, &event->reasoning);
    if (!ends && (inside || filter.reasoned())) ++filtered.uncounted;
    // An answer that ends within reasoning ends with tokens of it.
    if (filter.reasoned() || (ends && filter.inside())) {
      const int more = std::min(std::exchange(filtered.uncounted, 0), filtered.most);
      filtered.most -= more;
      reasoning_tokens_ += more;
    } else if (!filter.inside()) {
      filtered.uncounted = 0;
    }
    if (ends) filter.Finish(&event->text, &event->reasoning);
  }
  if (!parsers_.empty()) {
    OutputParser& parser = *parsers_[choice];
    const std::string text = std::exchange(event->text, {});
    const bool inside = parser.inside_reasoning();
    parser.Push(text, event);
    if (!ends && inside && parser.inside_reasoning()) ++reasoning_tokens_;
    if (ends) parser.Finish(event);
  }
}

void TokenStream::Append(StreamEvent event) {
  Filter(&event);
  if (temperature_ != 1 && event.logprobs.has_value()) {
    const auto divide = [this](Logprob& one) {
      one.logprob = static_cast<float>(static_cast<double>(one.logprob) / temperature_);
    };
    divide(event.logprobs->chosen);
    for (Logprob& other : event.logprobs->top) divide(other);
  }
  if (!has_token_ && event.kind != StreamEvent::Kind::kStarted) {
    has_token_ = true;
    if (observer_ != nullptr) observer_->FirstToken();
  }
  Publish(std::move(event), 0);
}

void TokenStream::Publish(StreamEvent event, size_t ended) {
  CHECK(!this->ended()) << "an event after the terminal one";
  const size_t slot = appended_ % kChunkEvents;
  if (slot == 0 && appended_ > 0) {
    last_->next = std::make_unique<Chunk>();
    last_ = last_->next.get();
  }
  appended_bytes_.fetch_add(EventBytes(event) + event.text.size(), std::memory_order_relaxed);
  last_->events[slot] = std::move(event);
  published_.store(++appended_ * 2 + ended, std::memory_order_release);
}

size_t TokenStream::EventBytes(const StreamEvent& event) {
  size_t bytes = sizeof(StreamEvent) + event.reasoning.size();
  for (const ToolCallDelta& delta : event.tool_calls)
    bytes += sizeof(ToolCallDelta) + delta.id.size() + delta.name.size() + delta.arguments.size();
  if (!event.logprobs) return bytes;
  // By size, not capacity: both ends of the stream must come to the same figure.
  bytes += event.logprobs->chosen.bytes.size();
  for (const Logprob& top : event.logprobs->top) bytes += sizeof(Logprob) + top.bytes.size();
  return bytes;
}

void TokenStream::Finish(Status status, Usage usage, Timings timings) {
  usage.reasoning_tokens = std::max(usage.reasoning_tokens, reasoning_tokens_);
  if (const auto observer = std::exchange(observer_, nullptr))
    status = observer->End(std::move(status), usage, timings);
  status_ = std::move(status);
  StreamEvent end;
  end.kind = StreamEvent::Kind::kEnd;
  end.usage = usage;
  end.timings = timings;
  Publish(std::move(end), 1);
}

size_t TokenStream::unread_bytes() const {
  const size_t consumed = consumed_bytes_.load(std::memory_order_acquire);
  const size_t appended = appended_bytes_.load(std::memory_order_relaxed);
  return appended > consumed ? appended - consumed : 0;
}

void TokenStream::FreeBehind(const Cursor& reader) {
  // Frees the chunks before the reader's. The writer is in the last chunk, which is never before
  // the reader's.
  while (first_.get() != reader.chunk_) first_ = std::move(first_->next);
}

const StreamEvent* TokenStream::Cursor::Next() {
  if (stream_ == nullptr || index_ >= stream_->size()) return nullptr;
  if (index_ > 0 && index_ % kChunkEvents == 0) chunk_ = chunk_->next.get();
  return &chunk_->events[index_++ % kChunkEvents];
}

const Status& TokenStream::status() const {
  CHECK(ended()) << "the status of a stream is known at its end";
  return status_;
}

Generation::Generation(std::shared_ptr<TokenStream> stream, std::shared_ptr<Cancellable> control,
                       std::shared_ptr<StreamSource> source)
    : stream_(std::move(stream)),
      control_(std::move(control)),
      source_(std::move(source)),
      cursor_(*stream_) {}

Generation& Generation::operator=(Generation&& other) noexcept {
  if (this != &other) {
    Cancel();
    stream_ = std::move(other.stream_);
    control_ = std::move(other.control_);
    source_ = std::move(other.source_);
    cursor_ = other.cursor_;
  }
  return *this;
}

Generation::~Generation() { Cancel(); }

void Generation::Cancel() {
  if (control_ != nullptr && !stream_->ended()) control_->Cancel();
}

}  // namespace tutti::api
