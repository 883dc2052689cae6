#include "protocol/websocket/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::protocol {
namespace {

using FrameKind = FrameEvent::Kind;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// A frame of a client. `first`: the first byte.
std::string ClientFrame(int first, const std::string& payload) {
  std::string frame(1, static_cast<char>(first));
  if (payload.size() <= 125) {
    frame += BigEndian(0x80 | payload.size(), 1);
  } else if (payload.size() <= 0xFFFF) {
    frame += "\xFE" + BigEndian(payload.size(), 2);
  } else {
    frame += "\xFF" + BigEndian(payload.size(), 8);
  }
  const std::string mask = "\x37\xFA\x21\x3D";
  frame += mask;
  for (size_t i = 0; i < payload.size(); ++i)
    frame.push_back(static_cast<char>(payload[i] ^ mask[i % 4]));
  return frame;
}

std::string ShowFrame(const FrameEvent& event) {
  switch (event.kind) {
    case FrameKind::kText:
      return "text " + event.payload;
    case FrameKind::kPing:
      return "ping " + event.payload;
    case FrameKind::kPong:
      return "pong " + event.payload;
    case FrameKind::kClose:
      return "close " + std::to_string(event.code) + " " + event.payload;
    case FrameKind::kFault:
      return "fault " + std::to_string(event.code);
  }
  return "";
}

// FrameTexts of `bytes` in pieces of that size.
std::vector<std::string> ReadFrames(const std::string& bytes, size_t piece = SIZE_MAX,
                                    const FrameLimits& limits = {}) {
  FrameReader reader(limits);
  std::vector<std::string> events;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    std::string_view part = rest.substr(0, piece);
    const size_t size = part.size();
    while (auto event = reader.Next(&part)) {
      events.push_back(ShowFrame(*event));
      if (event->kind == FrameKind::kClose || event->kind == FrameKind::kFault) {
        EXPECT_FALSE(reader.Next(&part).has_value()) << "something behind the end";
        return events;
      }
    }
    EXPECT_TRUE(part.empty());
    rest.remove_prefix(size);
  }
  return events;
}

using FrameTexts = std::vector<std::string>;

TEST(FrameReader, TextsAreReadHoweverTheirBytesAreCut) {
  const std::string euro = "\xE2\x82\xAC";
  const std::string bytes =
      ClientFrame(0x81, "") + ClientFrame(0x81, "one") +
      ClientFrame(0x01, "tw" + euro.substr(0, 1)) + ClientFrame(0x89, "still there?") +
      ClientFrame(0x00, euro.substr(1, 1)) + ClientFrame(0x8A, "") +
      ClientFrame(0x80, euro.substr(2) + "o") + ClientFrame(0x81, std::string(126, 'a')) +
      ClientFrame(0x81, std::string(65536, 'b'));
  const FrameTexts expected = {"text ",
                               "text one",
                               "ping still there?",
                               "pong ",
                               "text tw" + euro + "o",
                               "text " + std::string(126, 'a'),
                               "text " + std::string(65536, 'b')};
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{1000}, SIZE_MAX})
    EXPECT_EQ(ReadFrames(bytes, piece), expected) << piece;
}

TEST(FrameReader, WhatIsNoFrameOfAClientIsAProtocolError) {
  std::vector<std::string> broken = {
      std::string("\x81\x03one", 5),                            // not masked
      ClientFrame(0x80, "x"),                                   // nothing to continue
      ClientFrame(0x01, "a") + ClientFrame(0x81, "b"),          // a message within one
      ClientFrame(0x09, ""),                                    // control frames are not cut
      ClientFrame(0x89, std::string(126, 'x')),                 // nor long
      std::string("\x81\xFE", 2) + BigEndian(125, 2) + "mask",  // longer than it need be
      std::string("\x81\xFF", 2) + BigEndian(65535, 8) + "mask",
  };
  for (const int reserved : {0x40, 0x20, 0x10}) broken.push_back(ClientFrame(0x81 | reserved, "x"));
  for (const int opcode : {3, 4, 5, 6, 7, 11, 12, 13, 14, 15})
    broken.push_back(ClientFrame(0x80 | opcode, ""));
  for (const std::string& bytes : broken) {
    const FrameTexts events = ReadFrames(bytes);
    ASSERT_FALSE(events.empty()) << bytes;
    EXPECT_EQ(events.back(), "fault 1002") << bytes;
  }
}

TEST(FrameReader, BinaryMessagesAndBrokenTextsHaveCodesOfTheirOwn) {
  EXPECT_EQ(ReadFrames(ClientFrame(0x82, "x")), FrameTexts{"fault 1003"});
  for (const std::string& bad :
       {std::string("\xFF"), std::string("\xE2\x82"), std::string("\xED\xA0\x80"),
        std::string("\xC0\x80"), std::string("\xF4\x90\x80\x80")}) {
    EXPECT_EQ(ReadFrames(ClientFrame(0x81, bad)), FrameTexts{"fault 1007"});
    EXPECT_EQ(ReadFrames(ClientFrame(0x01, bad) + ClientFrame(0x80, "")), FrameTexts{"fault 1007"});
    EXPECT_EQ(ReadFrames(ClientFrame(0x88, BigEndian(1000, 2) + bad)), FrameTexts{"fault 1007"});
  }
}

TEST(FrameReader, ACloseHasACodeThatMayBeSentOrNone) {
  EXPECT_EQ(ReadFrames(ClientFrame(0x88, "")), FrameTexts{"close 1005 "});
  EXPECT_EQ(ReadFrames(ClientFrame(0x88, "\x03")), FrameTexts{"fault 1002"});
  for (const int code : {1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4400, 4999})
    EXPECT_EQ(ReadFrames(ClientFrame(0x88, BigEndian(code, 2) + "why")),
              FrameTexts{"close " + std::to_string(code) + " why"});
  for (const int code : {0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535})
    EXPECT_EQ(ReadFrames(ClientFrame(0x88, BigEndian(code, 2))), FrameTexts{"fault 1002"}) << code;
}

TEST(FrameReader, LengthsAreRefusedBeforeTheirBytesAreThere) {
  for (const uint64_t length : {(uint64_t{1} << 20) + 1, uint64_t{1} << 62, (uint64_t{1} << 63) - 1,
                                uint64_t{1} << 63, UINT64_MAX})
    EXPECT_EQ(ReadFrames(std::string("\x81\xFF", 2) + BigEndian(length, 8) + "mask"),
              FrameTexts{"fault 1009"});
  EXPECT_EQ(ReadFrames(ClientFrame(0x81, std::string(1 << 20, 'x'))).size(), 1u);
}

TEST(FrameReader, AMessageIsBoundedInBytesAndInFramesThatHoldNone) {
  const FrameLimits limits{.frame_bytes = 8, .message_bytes = 20, .empty_fragments = 3};
  const std::string eight(8, 'x');
  EXPECT_EQ(ReadFrames(ClientFrame(0x81, eight + "x"), SIZE_MAX, limits), FrameTexts{"fault 1009"});
  const std::string sixteen = ClientFrame(0x01, eight) + ClientFrame(0x00, eight);
  EXPECT_EQ(ReadFrames(sixteen + ClientFrame(0x80, "1234"), SIZE_MAX, limits),
            FrameTexts{"text " + eight + eight + "1234"});
  EXPECT_EQ(ReadFrames(sixteen + ClientFrame(0x80, "12345"), SIZE_MAX, limits),
            FrameTexts{"fault 1009"});
  std::string single = ClientFrame(0x01, "a");
  for (int i = 0; i < 20; ++i) single += ClientFrame(0x00, "b");
  EXPECT_EQ(ReadFrames(single, SIZE_MAX, limits), FrameTexts{"fault 1009"});
  const std::string none = ClientFrame(0x00, "");
  EXPECT_EQ(ReadFrames(ClientFrame(0x01, "") + none + none + ClientFrame(0x00, "a") + none + none +
                           none + ClientFrame(0x80, ""),
                       SIZE_MAX, limits),
            FrameTexts{"text a"});
  EXPECT_EQ(ReadFrames(ClientFrame(0x01, "") + none + none + none, SIZE_MAX, limits),
            FrameTexts{"fault 1008"});
}

TEST(FrameReader, TellsWhatItHoldsOfAMessage) {
  FrameReader reader({});
  const std::string bytes = ClientFrame(0x01, "abc");
  std::string_view rest = bytes;
  EXPECT_FALSE(reader.Next(&rest).has_value());
  EXPECT_EQ(reader.held(), 3u);
  const std::string last = ClientFrame(0x80, "");
  rest = last;
  EXPECT_TRUE(reader.Next(&rest).has_value());
  EXPECT_EQ(reader.held(), 0u);
}

TEST(Frames, OfTheServerAreWholeAndUnmasked) {
  std::string out;
  AppendText("hi", &out);
  EXPECT_EQ(out, std::string("\x81\x02hi"));
  for (const auto& [size, head] :
       {std::pair{size_t{125}, std::string("\x81\x7D")},
        std::pair{size_t{126}, std::string("\x81\x7E") + BigEndian(126, 2)},
        std::pair{size_t{65535}, std::string("\x81\x7E") + BigEndian(65535, 2)},
        std::pair{size_t{65536}, std::string("\x81\x7F") + BigEndian(65536, 8)}}) {
    out.clear();
    AppendText(std::string(size, 'x'), &out);
    EXPECT_EQ(out, head + std::string(size, 'x'));
  }
  out.clear();
  AppendPing(&out);
  AppendPong("p", &out);
  EXPECT_EQ(out, std::string("\x89\x00\x8A\x01p", 5));
}

TEST(Frames, ACloseCutsItsReasonBetweenCharacters) {
  std::string out;
  AppendClose(kCloseNoStatus, "unheard", &out);
  EXPECT_EQ(out, std::string("\x88\x00", 2));
  out.clear();
  AppendClose(4400, std::string(122, 'x') + "\xE2\x82\xAC", &out);
  EXPECT_EQ(out, std::string("\x88\x7C") + BigEndian(4400, 2) + std::string(122, 'x'));
}

}  // namespace
}  // namespace tutti::protocol
