#include "api/token_stream.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "api/testing/counting_control.h"

namespace tutti::api {
namespace {

StreamEvent Text(std::string text) {
  StreamEvent event;
  event.text = std::move(text);
  return event;
}

TEST(TokenStream, AReaderSeesEveryEventOnceAndInOrderWhileTheWriterAppends) {
  constexpr int kEvents = 5000;
  TokenStream stream(nullptr);
  std::thread writer([&] {
    for (int i = 0; i < kEvents; ++i) stream.Append(Text(std::to_string(i)));
    stream.Finish(OkStatus(), {}, {});
  });
  TokenStream::Cursor cursor(stream);
  int next = 0;
  bool ended = false;
  while (!ended) {
    while (const StreamEvent* event = cursor.Next()) {
      if (event->kind == StreamEvent::Kind::kEnd) {
        ended = true;
      } else {
        ASSERT_EQ(event->text, std::to_string(next++));
      }
    }
  }
  writer.join();
  EXPECT_EQ(next, kEvents);
  EXPECT_TRUE(stream.ended());
}

TEST(TokenStream, ATemperatureDividesLogProbabilities) {
  TokenStream stream(nullptr);
  stream.DivideLogprobs(2);
  StreamEvent event = Text("");
  event.kind = StreamEvent::Kind::kPromptToken;
  event.logprobs.emplace().chosen.logprob = -3;
  event.logprobs->top.push_back({.logprob = -1, .bytes = ""});
  stream.Append(std::move(event));
  TokenStream::Cursor cursor(stream);
  const StreamEvent* const read = cursor.Next();
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->logprobs->chosen.logprob, -1.5f);
  EXPECT_EQ(read->logprobs->top[0].logprob, -0.5f);
}

// The terminal event could be read a moment before ended() was true, and asking for the status then
// ended the program.
TEST(TokenStream, WhoeverReadsTheTerminalEventMayAskForTheStatus) {
  constexpr int kStreams = 100'000;
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(std::make_unique<TokenStream>(nullptr));
  std::thread writer([&] {
    for (const auto& stream : streams) stream->Finish(OkStatus(), {}, {});
  });
  int early = 0;
  for (const auto& stream : streams) {
    TokenStream::Cursor cursor(*stream);
    while (cursor.Next() == nullptr) continue;
    if (!stream->ended()) ++early;
  }
  writer.join();
  EXPECT_EQ(early, 0);
}

TEST(TokenStream, UnreadIsTheTextNotPassedOnAndTheEventsNotFetched) {
  auto stream = std::make_shared<TokenStream>(nullptr);
  Generation reader(stream, nullptr);
  stream->Append(Text("hello"));
  EXPECT_EQ(stream->unread_bytes(), sizeof(StreamEvent) + 5);
  ASSERT_NE(reader.Next(), nullptr);
  EXPECT_EQ(stream->unread_bytes(), 5u);
  reader.Consumed(3);
  EXPECT_EQ(stream->unread_bytes(), 2u);
}

TEST(TokenStream, LogprobsOfAnUnreadEventAreChargedForAndGivenBackWhole) {
  auto stream = std::make_shared<TokenStream>(nullptr);
  Generation reader(stream, nullptr);
  StreamEvent event = Text("a");
  event.logprobs.emplace();
  event.logprobs->top.reserve(100);  // more than is used
  for (int i = 0; i < 20; ++i) event.logprobs->top.push_back({.token = i, .bytes = "four"});
  stream->Append(std::move(event));
  EXPECT_EQ(stream->unread_bytes(), sizeof(StreamEvent) + 20 * (sizeof(Logprob) + 4) + 1);
  EXPECT_GT(stream->unread_bytes(), 1024u);
  ASSERT_NE(reader.Next(), nullptr);
  EXPECT_EQ(stream->unread_bytes(), 1u);
}

// Readers that stopped once cost all they had been sent, not what was unread.
TEST(Generation, FreesWhatItHasReadWhileTheWriterAppends) {
  constexpr int kEvents = 4000, kWindow = 100;
  constexpr size_t kText = 4096;
  auto stream = std::make_shared<TokenStream>(nullptr);
  std::atomic<int> read{0};
  const size_t before = mallinfo2().uordblks;  // of a writer that has not begun
  std::thread writer([&] {
    for (int i = 0; i < kEvents; ++i) {
      while (i - read.load() > kWindow) std::this_thread::yield();
      stream->Append(Text(std::string(kText, 'x')));
    }
    stream->Finish(OkStatus(), {}, {});
  });
  Generation generation(stream, nullptr);
  while (read.load() < kEvents) {
    const StreamEvent* event = generation.Next();
    if (event == nullptr) continue;
    ASSERT_EQ(event->text.size(), kText);
    ++read;
  }
  const size_t held = mallinfo2().uordblks - before;
  writer.join();
  // A sanitizer's allocator is not seen by mallinfo: then both figures are the same.
  EXPECT_LT(held, 2 * kWindow * kText) << "of " << kEvents * kText << " read";
}

TEST(TokenStreamDeathTest, NothingFollowsTheTerminalEvent) {
  TokenStream stream(nullptr);
  stream.Finish(OkStatus(), {}, {});
  EXPECT_DEATH(stream.Append(Text("x")), "after the terminal");
}

TEST(Generation, DestroyingAnUnfinishedHandleCancelsTheRequest) {
  auto stream = std::make_shared<TokenStream>(nullptr);
  auto control = std::make_shared<CountingControl>();
  { Generation generation(stream, control); }
  EXPECT_EQ(control->cancels, 1);
}

TEST(Generation, AFinishedOneIsNotCancelledAndAMovedFromOneNeither) {
  auto stream = std::make_shared<TokenStream>(nullptr);
  auto control = std::make_shared<CountingControl>();
  {
    Generation generation(stream, control);
    Generation moved = std::move(generation);
    stream->Finish(OkStatus(), {}, {});
  }
  EXPECT_EQ(control->cancels, 0);
}

// Text and reasoning that a filtering stream returns for `text`, appended in pieces of `size`.
std::pair<std::string, std::string> Filtered(ReasoningMode mode, const ReasoningTags& tags,
                                             const std::string& text, size_t size) {
  const auto stream = std::make_shared<TokenStream>(nullptr);
  stream->FilterReasoning(mode, tags, 1);
  for (size_t at = 0; at < text.size(); at += size) {
    StreamEvent event;
    event.text = text.substr(at, size);
    stream->Append(std::move(event));
  }
  StreamEvent end;
  end.kind = StreamEvent::Kind::kChoiceEnd;
  stream->Append(std::move(end));
  stream->Finish(OkStatus(), {}, {});
  Generation generation(stream, nullptr);
  std::pair<std::string, std::string> out;
  while (const StreamEvent* event = generation.Next()) {
    out.first += event->text;
    out.second += event->reasoning;
    generation.Consumed(event->text.size());
  }
  EXPECT_EQ(stream->unread_bytes(), 0u);
  return out;
}

TEST(TokenStream, ReasoningIsTakenOutWhereverItsTagsAreCut) {
  const std::string text = "<think>Why <not>?</think>\n\nBecause. 1 < 2";
  using Pair = std::pair<std::string, std::string>;
  for (size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(Filtered(ReasoningMode::kKeep, {}, text, size), Pair(text, ""));
    EXPECT_EQ(Filtered(ReasoningMode::kHide, {}, text, size), Pair("Because. 1 < 2", "")) << size;
    EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {}, text, size),
              Pair("Because. 1 < 2", "Why <not>?"));
    EXPECT_EQ(Filtered(ReasoningMode::kHide, {.begins_inside = true}, "Why?</think>So", size),
              Pair("So", ""));
    EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {}, "So<think>never closed <", size),
              Pair("So", "never closed <"));
  }
}

// Makes a call of each capital letter, and text of the others.
class CapitalParser final : public OutputParser {
 public:
  void Push(std::string_view delta, StreamEvent* event) override {
    for (const char c : delta) {
      if (c < 'A' || c > 'Z') {
        event->text += c;
      } else {
        event->tool_calls.push_back({.index = calls_++, .id = "i", .name = std::string(1, c)});
      }
    }
  }
  bool inside_reasoning() const override { return calls_ == 1; }
  void Finish(StreamEvent* event) override { event->finish_reason = FinishReason::kToolCalls; }

 private:
  int calls_ = 0;
};

TEST(TokenStream, TokensThatAParserTakesForReasoningAreCounted) {
  const auto stream = std::make_shared<TokenStream>(nullptr);
  std::vector<std::unique_ptr<OutputParser>> parsers;
  parsers.push_back(std::make_unique<CapitalParser>());
  stream->ParseOutput(std::move(parsers));
  for (const char* const text : {"a", "B", "c", "d", "E", "f"}) {
    StreamEvent event;
    event.kind = StreamEvent::Kind::kToken;
    event.text = text;
    stream->Append(std::move(event));
  }
  stream->Finish(OkStatus(), {.completion_tokens = 6}, {});
  Generation generation(stream, nullptr);
  int counted = -1;
  while (const StreamEvent* event = generation.Next()) {
    if (event->kind == StreamEvent::Kind::kEnd) counted = event->usage.reasoning_tokens;
  }
  EXPECT_EQ(counted, 2) << "those between the token that begins it and the one that ends it";
}

// A budget of n tokens was once reported as n plus the tokens of the closing tag.
TEST(TokenStream, TokensOfTagsAreNotReasoning) {
  const auto count = [](const std::vector<std::string>& tokens, ReasoningMode mode) {
    const auto stream = std::make_shared<TokenStream>(nullptr);
    stream->FilterReasoning(mode, {}, 1);
    for (const std::string& token : tokens) {
      StreamEvent event;
      event.kind = StreamEvent::Kind::kToken;
      event.text = token;
      stream->Append(std::move(event));
    }
    StreamEvent end;
    end.kind = StreamEvent::Kind::kChoiceEnd;
    stream->Append(std::move(end));
    stream->Finish(OkStatus(), {}, {});
    Generation generation(stream, nullptr);
    int counted = -1;
    while (const StreamEvent* event = generation.Next()) {
      if (event->kind == StreamEvent::Kind::kEnd) counted = event->usage.reasoning_tokens;
    }
    return counted;
  };
  for (const ReasoningMode mode : {ReasoningMode::kSeparate, ReasoningMode::kHide}) {
    EXPECT_EQ(count({"<think>", "\n", "a", " b", "\n", "</think>", "c"}, mode), 3);
    EXPECT_EQ(count({"<th", "ink>", "a", "<", " b", "</", "think", ">", "c"}, mode), 3);
    EXPECT_EQ(count({"<think>", "\n\n", "</think>", "c"}, mode), 0);
    EXPECT_EQ(count({"<think>", "a", "\n", "\n"}, mode), 3) << "cut";
    EXPECT_EQ(count({"a", "b"}, mode), 0);
  }
}

TEST(TokenStream, ParsersReadWhatReasoningLeaves) {
  const auto stream = std::make_shared<TokenStream>(nullptr);
  stream->FilterReasoning(ReasoningMode::kSeparate, {}, 2);
  std::vector<std::unique_ptr<OutputParser>> parsers;
  for (int i = 0; i < 2; ++i) parsers.push_back(std::make_unique<CapitalParser>());
  stream->ParseOutput(std::move(parsers));
  const auto append = [&](int choice, const char* text, StreamEvent::Kind kind) {
    StreamEvent event;
    event.kind = kind;
    event.choice = choice;
    event.text = text;
    stream->Append(std::move(event));
  };
  append(0, "<think>A", StreamEvent::Kind::kToken);
  append(1, "bC", StreamEvent::Kind::kToken);
  append(0, "</think>Dee", StreamEvent::Kind::kToken);
  append(0, "F", StreamEvent::Kind::kChoiceEnd);
  append(1, "", StreamEvent::Kind::kChoiceEnd);
  stream->Finish(OkStatus(), {.completion_tokens = 3}, {});
  Generation generation(stream, nullptr);
  std::vector<std::string> text(2), reasoning(2), calls(2);
  int reasoning_tokens = 0;
  while (const StreamEvent* event = generation.Next()) {
    const auto choice = static_cast<size_t>(event->choice);
    text[choice] += event->text;
    reasoning[choice] += event->reasoning;
    for (const ToolCallDelta& delta : event->tool_calls) calls[choice] += delta.name;
    if (event->kind == StreamEvent::Kind::kChoiceEnd) {
      EXPECT_EQ(event->finish_reason, FinishReason::kToolCalls);
    }
    if (event->kind == StreamEvent::Kind::kEnd) reasoning_tokens = event->usage.reasoning_tokens;
    generation.Consumed(event->text.size());
  }
  EXPECT_EQ(text, (std::vector<std::string>{"ee", "b"}));
  EXPECT_EQ(reasoning, (std::vector<std::string>{"A", ""}));
  EXPECT_EQ(calls, (std::vector<std::string>{"DF", "C"}));
  EXPECT_EQ(reasoning_tokens, 1) << "the one that has text between the tags";
  EXPECT_EQ(stream->unread_bytes(), 0u);
}

}  // namespace
}  // namespace tutti::api
