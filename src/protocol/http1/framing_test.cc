#include "protocol/http1/framing.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "cpu_time.h"
#include "protocol/error.h"
#include "protocol/testing/framing_cases.h"

namespace tutti::protocol {
namespace {

const std::string kPostHead = "POST /x HTTP/1.1\r\nHost: a\r\n";

// Feeds in pieces of at most `piece` bytes; returns how many bytes were taken as the message.
size_t Feed(FramingGuard* guard, std::string_view bytes, size_t piece) {
  size_t at = 0;
  while (at < bytes.size() && !guard->done() && !guard->failed()) {
    const std::string_view part = bytes.substr(at, piece);
    const size_t taken = guard->Scan(part);
    at += taken;
    if (taken < part.size()) break;
  }
  return at;
}

TEST(FramingGuard, RefusesEverythingThatCanBeReadInTwoWays) {
  const std::vector<SmugglingCase> cases = SmugglingCases();
  EXPECT_GE(cases.size(), 60u);
  for (const SmugglingCase& bad : cases) {
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{1 << 21}}) {
      std::string bytes = bad.bytes;
      if (bytes.starts_with("\r\n"))
        bytes.erase(0, 2);  // one empty line is the connection's to skip
      bytes += "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n";
      FramingGuard guard{FramingLimits{}};
      Feed(&guard, bytes, piece);
      ASSERT_TRUE(guard.failed()) << bad.name;
      EXPECT_EQ(ViewError(guard.fault()).http, bad.status) << bad.name << ": " << guard.fault();
    }
  }
}

TEST(FramingGuard, FindsTheEndOfAMessageInPiecesOfAnySize) {
  const std::string next = "GET / HTTP/1.1\r\n";
  for (const std::string& message : {
           std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("GET / HTTP/1.0\r\n\r\n"),
           kPostHead + "Content-Length: 5\r\n\r\nhello",
           kPostHead + "Content-Length: 0\r\n\r\n",
           kPostHead + "content-length:\t 5 \r\n\r\nhello",
           kPostHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
           kPostHead + "transfer-encoding: CHUNKED\r\n\r\n00a;x=y\r\n0123456789\r\n0;z\r\n\r\n",
           kPostHead + "X-Empty:\r\nX-Latin: \xe9\xff\r\n\r\n",
       }) {
    for (size_t piece = 1; piece <= message.size() + 1; ++piece) {
      FramingGuard guard{FramingLimits{}};
      EXPECT_EQ(Feed(&guard, message + next, piece), message.size()) << message;
      EXPECT_TRUE(guard.done()) << message << ": " << guard.fault();
    }
  }
}

TEST(FramingGuard, TellsWhatItKnowsOfTheBody) {
  FramingGuard guard{FramingLimits{}};
  Feed(&guard, kPostHead + "Content-Length: 5\r\n\r\nhe", 100);
  EXPECT_TRUE(guard.head_done());
  EXPECT_FALSE(guard.done());
  EXPECT_EQ(guard.content_length(), 5u);
  EXPECT_EQ(guard.body_bytes(), 2u);
  EXPECT_FALSE(guard.chunked());
}

TEST(FramingGuard, EveryLimitHoldsAtItsValueAndFailsOneBeyond) {
  const auto fault = [](const std::string& bytes, FramingLimits limits = {}) {
    FramingGuard guard(limits);
    Feed(&guard, bytes, 1 << 20);
    return guard.fault().reason();
  };
  // request line: method, blanks, target and version
  const auto line = [](size_t bytes) {
    return "GET /" + std::string(bytes - 14, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(fault(line(8 << 10)), "");
  EXPECT_EQ(fault(line((8 << 10) + 1)), "uri_too_long");
  // header: all field lines with their line ends
  const auto header = [](size_t bytes) {
    return "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(bytes - 14, 'a') + "\r\n\r\n";
  };
  EXPECT_EQ(fault(header(32 << 10)), "");
  EXPECT_EQ(fault(header((32 << 10) + 1)), "headers_too_large");
  const auto fields = [](int count) {
    std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 1; i < count; ++i) text += "X: y\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(fault(fields(100)), "");
  EXPECT_EQ(fault(fields(101)), "headers_too_large");
  EXPECT_EQ(fault(std::string(32, 'A') + " / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
  EXPECT_EQ(fault(std::string(33, 'A') + " / HTTP/1.1\r\nHost: a\r\n\r\n"), "not_implemented");
  // body
  FramingLimits small;
  small.body_bytes = 10;
  EXPECT_EQ(fault(kPostHead + "Content-Length: 10\r\n\r\n0123456789", small), "");
  EXPECT_EQ(fault(kPostHead + "Content-Length: 11\r\n\r\n", small), "request_too_large");
  EXPECT_EQ(
      fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n", small),
      "");
  EXPECT_EQ(fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\nb\r\n", small),
            "request_too_large");
  EXPECT_EQ(fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n", small),
            "request_too_large");
  // chunk sizes and extensions
  EXPECT_EQ(
      fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\n0000000000000005\r\nhello\r\n0\r\n\r\n"),
      "");
  EXPECT_EQ(fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(4095, 'x') +
                  "\r\nhello\r\n0\r\n\r\n"),
            "");
  EXPECT_EQ(fault(kPostHead + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(4096, 'x') +
                  "\r\nhello\r\n0\r\n\r\n"),
            "invalid_value");
  // framing fields themselves
  EXPECT_EQ(fault(kPostHead + "Content-Length: " + std::string(17, '0') + "5\r\n\r\nhello"), "");
  EXPECT_EQ(fault(kPostHead + "Content-Length: " + std::string(18, '0') + "5\r\n\r\nhello"),
            "invalid_value");
}

TEST(FramingGuard, AMillionOneByteChunksTakeLinearTime) {
  std::string chunks;
  for (int i = 0; i < 1'000'000; ++i) chunks += "1\r\nx\r\n";
  FramingGuard guard{FramingLimits{}};
  const double start = support::ThreadSeconds();
  Feed(&guard, kPostHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n", 16384);
  EXPECT_TRUE(guard.done());
  EXPECT_EQ(guard.body_bytes(), 1'000'000u);
  EXPECT_LT(support::ThreadSeconds() - start, support::kSlower);
}

// Any damage to a good message is refused, or leaves a message that ends where its bytes say.
TEST(FramingGuard, RandomDamageNeverMakesItReadPastTheEnd) {
  Random random(7);
  const std::string good =
      kPostHead + "X-A: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int64_t k = random.Between(1, 3); k > 0; --k) {
      const size_t at = random.Below(bytes.size());
      switch (random.Below(3)) {
        case 0:
          bytes[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          bytes.erase(at, 1);
          break;
        default:
          bytes.insert(at, 1, "\r\n :,;\t\0x0"[random.Below(10)]);
      }
    }
    FramingGuard one{FramingLimits{}}, other{FramingLimits{}};
    const size_t whole = Feed(&one, bytes, 1 << 20),
                 split = Feed(&other, bytes, 1 + random.Below(9));
    EXPECT_EQ(one.failed(), other.failed());
    EXPECT_EQ(one.done(), other.done());
    EXPECT_EQ(whole, split);
    EXPECT_LE(whole, bytes.size());
    refused += one.failed();
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace tutti::protocol
