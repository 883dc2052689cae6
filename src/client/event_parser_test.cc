#include <gmock/gmock.h>

#include "client/stream_response.h"

namespace tutti::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The events of a stream that comes in pieces of `step` bytes.
std::vector<std::string> EventsOf(std::string_view stream, size_t step) {
  EventParser parser;
  std::vector<std::string> events;
  for (size_t begin = 0; begin < stream.size(); begin += step)
    EXPECT_TRUE(parser.Feed(stream.substr(begin, step), events).ok());
  parser.Finish(events);
  return events;
}

// The same however the bytes are cut.
std::vector<std::string> EventsOf(std::string_view stream) {
  const std::vector<std::string> events = EventsOf(stream, stream.size());
  for (size_t step = 1; step < stream.size(); ++step) EXPECT_EQ(EventsOf(stream, step), events);
  return events;
}

TEST(EventParserTest, LinesMayEndWithAnyLineEnd) {
  EXPECT_THAT(EventsOf("data: a\n\ndata: b\n\n"), ElementsAre("a", "b"));
  EXPECT_THAT(EventsOf("data: a\r\n\r\ndata: b\r\n\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(EventsOf("data: a\r\rdata: b\r\r"), ElementsAre("a", "b"));
}

TEST(EventParserTest, OneBlankBehindTheColonIsNotData) {
  EXPECT_THAT(EventsOf("data:a\n\ndata:  b \n\n"), ElementsAre("a", " b "));
}

TEST(EventParserTest, DataLinesOfOneEventAreJoined) {
  EXPECT_THAT(EventsOf("data: {\"a\":\ndata: 1}\n\n"), ElementsAre("{\"a\":\n1}"));
  EXPECT_THAT(EventsOf("data\ndata:\n\n"), ElementsAre("\n"));
}

TEST(EventParserTest, OtherFieldsAndCommentsAreNotData) {
  EXPECT_THAT(EventsOf(": hello\n\nevent: message\nid: 1\ndatabase: x\ndata: a\nretry: 5\n\n"),
              ElementsAre("a"));
}

TEST(EventParserTest, AByteOrderMarkAtTheStartIsPassedOver) {
  EXPECT_THAT(EventsOf("\xEF\xBB\xBF"
                       "data: a\n\n"),
              ElementsAre("a"));
}

TEST(EventParserTest, TheLastEventMayLackItsEmptyLine) {
  EXPECT_THAT(EventsOf("data: a\n\ndata: b"), ElementsAre("a", "b"));
  EXPECT_THAT(EventsOf("data: a\n"), ElementsAre("a"));
  EXPECT_THAT(EventsOf(": nothing"), IsEmpty());
}

TEST(EventParserTest, EventsAboveTheLimitAreRefused) {
  EventParser parser;
  std::vector<std::string> events;
  const std::string line = "data: " + std::string(1 << 20, 'x') + "\n";
  Status status;
  for (int i = 0; i < 8 && status.ok(); ++i) status = parser.Feed(line, events);
  EXPECT_EQ(status.reason(), "bad_response");
}

}  // namespace
}  // namespace tutti::client
