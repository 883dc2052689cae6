#include "client/stream_response.h"

#include <gmock/gmock.h>

namespace tutti::client {
namespace {

using testing::ElementsAre;

constexpr char kChunked[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "
    "chunked\r\n\r\n"
    "9\r\ndata: {\"a\r\n"
    "10;x=y\r\n\":1}\n\n: comment\n\r\n"
    "f\r\ndata:[DONE]\r\n\r\n\r\n"
    "0\r\nTrailer: 1\r\n\r\n";

TEST(StreamResponseTest, EventsAreTheSameHoweverTheBytesAreCut) {
  const std::string all = kChunked;
  for (size_t cut = 1; cut <= all.size(); ++cut) {
    StreamResponse response;
    std::vector<std::string> events;
    for (size_t begin = 0; begin < all.size(); begin += cut) {
      ASSERT_TRUE(response.Feed(std::string_view(all).substr(begin, cut), events).ok()) << cut;
    }
    EXPECT_THAT(events, ElementsAre("{\"a\":1}", "[DONE]")) << cut;
    EXPECT_TRUE(response.complete()) << cut;
    EXPECT_EQ(response.status_code(), 200);
  }
}

TEST(StreamResponseTest, BodiesOfKnownLengthAndUntilCloseAreUnderstood) {
  StreamResponse sized;
  std::vector<std::string> events;
  ASSERT_TRUE(sized.Feed("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nfullJUNK", events).ok());
  EXPECT_TRUE(sized.complete());
  EXPECT_EQ(sized.status_code(), 503);
  EXPECT_EQ(sized.body(), "full");

  StreamResponse open;
  ASSERT_TRUE(
      open.Feed("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: x\n\n", events)
          .ok());
  EXPECT_THAT(events, ElementsAre("x"));
  EXPECT_FALSE(open.complete());
  EXPECT_TRUE(open.End(events).ok());
}

TEST(StreamResponseTest, AnAnswerThatEndsEarlyIsAnError) {
  StreamResponse response;
  std::vector<std::string> events;
  ASSERT_TRUE(response.Feed(std::string_view(kChunked).substr(0, 130), events).ok());
  EXPECT_EQ(response.End(events).reason(), "bad_response");
  EXPECT_FALSE(StreamResponse().End(events).ok());
}

TEST(StreamResponseTest, ALastEventWithoutEmptyLineComesWithTheEnd) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  StreamResponse open, sized;
  std::vector<std::string> events;
  ASSERT_TRUE(open.Feed(head + "\r\ndata: x", events).ok());
  EXPECT_TRUE(events.empty());
  ASSERT_TRUE(open.End(events).ok());
  EXPECT_THAT(events, ElementsAre("x"));
  ASSERT_TRUE(sized.Feed(head + "Content-Length: 7\r\n\r\ndata: y", events).ok());
  EXPECT_THAT(events, ElementsAre("x", "y"));
}

TEST(StreamResponseTest, ALongBodyIsReadWholeOrRefused) {
  std::vector<std::string> events;
  const auto feed = [&](const char* status, size_t bytes, StreamResponse& response) {
    return response.Feed(std::string("HTTP/1.1 ") + status + "\r\n\r\n" + std::string(bytes, 'x'),
                         events);
  };
  StreamResponse list, endless, failed;
  ASSERT_TRUE(feed("200 OK", 1 << 20, list).ok());
  EXPECT_EQ(list.body().size(), size_t{1} << 20);
  EXPECT_EQ(feed("200 OK", 9 << 20, endless).reason(), "bad_response");
  EXPECT_TRUE(feed("500 Oh", 9 << 20, failed).ok());  // its first words say why
}

TEST(StreamResponseTest, MalformedAnswersAreRefused) {
  const auto feed = [](const std::string& bytes) {
    StreamResponse response;
    std::vector<std::string> events;
    return response.Feed(bytes, events).ok();
  };
  EXPECT_FALSE(feed("SSH-2.0-x\r\n\r\n"));
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"));
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"));
  EXPECT_FALSE(feed(std::string(70000, 'H')));
}

}  // namespace
}  // namespace tutti::client
