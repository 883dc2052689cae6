// Bytes of a connection: where a request ends does not depend on how the bytes were cut, and what
// passes the framing is also understood by the message parser. Input: one byte (how to cut), then
// the bytes.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/http1/framing.h"
#include "server/http/connection/message_parser.h"

namespace {

constexpr tutti::protocol::FramingLimits kLimits{
    .request_line_bytes = 256, .header_bytes = 1024, .header_fields = 16, .body_bytes = 2048};

struct Outcome {
  size_t taken = 0;
  bool head = false, done = false;
  std::string fault;
  uint64_t body = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

template <typename Reader, typename Feed>
size_t FeedInPieces(Reader& reader, std::string_view bytes, size_t piece, const Feed& feed) {
  size_t taken = 0;
  while (taken < bytes.size()) {
    const std::string_view part = bytes.substr(taken, piece);
    const size_t used = feed(reader, part);
    CHECK_LE(used, part.size());
    taken += used;
    if (used < part.size()) break;
  }
  return taken;
}

Outcome Scan(std::string_view bytes, size_t piece) {
  tutti::protocol::FramingGuard guard(kLimits);
  Outcome outcome;
  outcome.taken = FeedInPieces(guard, bytes, piece,
                               [](auto& g, std::string_view part) { return g.Scan(part); });
  outcome.head = guard.head_done();
  outcome.done = guard.done();
  outcome.fault = guard.fault().reason();
  outcome.body = guard.body_bytes();
  CHECK(!(guard.done() && guard.failed()));
  CHECK_LE(guard.body_bytes(), kLimits.body_bytes);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const size_t piece = input.Byte() % 64 + 1;
  const std::string_view bytes = input.Rest();
  const Outcome whole = Scan(bytes, std::max<size_t>(bytes.size(), 1));
  CHECK(whole == Scan(bytes, 1)) << "byte by byte the request ends elsewhere";
  CHECK(whole == Scan(bytes, piece)) << "in pieces the request ends elsewhere";

  tutti::http::MessageParser parser(kLimits);
  const size_t taken = FeedInPieces(parser, bytes, piece,
                                    [](auto& p, std::string_view part) { return p.Feed(part); });
  CHECK_LE(taken, bytes.size());
  if (!parser.fault().ok()) {
    CHECK(!parser.done());
    return 0;
  }
  CHECK(parser.done() == whole.done) << "the two readers disagree";
  if (!parser.done()) return 0;
  CHECK_EQ(taken, whole.taken);
  const tutti::http::HttpRequest request = parser.Take();
  CHECK(!request.method.empty() && !request.target.empty());
  CHECK_EQ(request.body.size(), whole.body);
  return 0;
}
