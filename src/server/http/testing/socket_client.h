// For tests: a WebSocket from the client's side, frame by frame, with no rule of the protocol in
// its way.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/testing/raw_client.h"

namespace tutti::http::testing {

inline constexpr std::string_view kUpgradeFields =
    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

// The content of one frame, or the end of the connection: "close CODE", "gone".
struct Came {
  int opcode = 0;
  std::string payload;
};

class SocketClient {
 public:
  explicit SocketClient(int port, const std::string& fields = "",
                        const std::string& target = "/v1/responses", int receive_buffer = 0)
      : raw_(port, receive_buffer) {
    raw_.Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(kUpgradeFields) +
              fields + "\r\n");
    raw_.WaitFor("\r\n\r\n");
    const size_t end = raw_.buffer().find("\r\n\r\n");
    head_ = raw_.buffer().substr(0, end);
    raw_.buffer().erase(0, end + 4);
  }
  const std::string& head() const { return head_; }
  bool accepted() const { return head_.starts_with("HTTP/1.1 101 "); }

  // Masked with zeros, which change nothing.
  static std::string Frame(int first, std::string_view payload) {
    std::string frame(1, static_cast<char>(first));
    const size_t size = payload.size();
    if (size <= 125) {
      frame.push_back(static_cast<char>(0x80 | size));
    } else if (size <= 0xFFFF) {
      frame += {static_cast<char>(0xFE), static_cast<char>(size >> 8), static_cast<char>(size)};
    } else {
      frame.push_back(static_cast<char>(0xFF));
      for (int i = 7; i >= 0; --i) frame.push_back(static_cast<char>(size >> (8 * i)));
    }
    return frame + std::string(4, '\0') + std::string(payload);
  }
  bool SendRaw(std::string_view bytes) { return raw_.Send(bytes); }
  bool SendText(std::string_view text) { return raw_.Send(Frame(0x81, text)); }

  Came Read(int timeout_ms = kPatienceMs) {
    std::string& in = raw_.buffer();
    const auto need = [&](size_t bytes) {
      while (in.size() < bytes) {
        if (!raw_.Fill(timeout_ms)) return false;
      }
      return true;
    };
    if (!need(2)) return {-1, raw_.closed() ? "gone" : "nothing"};
    const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(in[i])); };
    EXPECT_EQ(byte(0) & 0xF0, 0x80u) << "whole, without extensions";
    uint64_t size = byte(1);
    size_t head = 2;
    if (size >= 126) {
      const size_t digits = size == 126 ? 2 : 8;
      if (!need(2 + digits)) return {-1, "nothing"};
      size = 0;
      for (size_t i = 0; i < digits; ++i) size = size << 8 | byte(2 + i);
      head += digits;
    }
    if (!need(head + size)) return {-1, "nothing"};
    Came came{static_cast<int>(byte(0) & 0x0F), in.substr(head, size)};
    in.erase(0, head + size);
    return came;
  }
  // The next message; "" with a failure where something else came.
  std::string Text() {
    const Came came = Read();
    EXPECT_EQ(came.opcode, 1) << came.payload;
    return came.opcode == 1 ? came.payload : "";
  }
  // The code of the close frame; frames before it are skipped.
  int CloseCode() {
    while (true) {
      const Came came = Read();
      if (came.opcode == 8 && came.payload.size() >= 2)
        return static_cast<uint8_t>(came.payload[0]) << 8 | static_cast<uint8_t>(came.payload[1]);
      if (came.opcode == 8) return 1005;
      if (came.opcode < 0) return came.payload == "gone" ? -1 : -2;
    }
  }
  RawClient& raw() { return raw_; }

 private:
  RawClient raw_;
  std::string head_;
};

// A text member of an object, which it must be; absent: empty.
inline std::string Member(const std::string& json, const char* name) {
  const boost::json::value value = boost::json::parse(json);
  const boost::json::value* found = value.as_object().if_contains(name);
  return found != nullptr && found->is_string() ? found->as_string().c_str() : "";
}

// Whether an event of that type is the last one of an answer.
inline bool EndsAnswer(const std::string& type) {
  return type == "response.completed" || type == "response.incomplete" ||
         type == "response.failed" || type == "response.cancelled" || type == "error";
}

}  // namespace tutti::http::testing
