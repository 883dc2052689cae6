#include "protocol/websocket/frame.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace tutti::protocol {
namespace {

constexpr uint8_t kFinal = 0x80, kReserved = 0x70, kOpcode = 0x0F, kMasked = 0x80, kLength = 0x7F;
enum Opcode : uint8_t {
  kContinuation = 0,
  kTextFrame = 1,
  kBinary = 2,
  kFirstControl = 8,
  kClose = 8,
  kPing = 9,
  kPong = 10
};
constexpr size_t kMaxControl = 125;  // section 5.5

// Whether a close code is allowed in a frame (section 7.4 and the registry that it founded).
bool IsCloseCode(int code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

void AppendFrame(uint8_t opcode, std::string_view payload, std::string* out) {
  const uint64_t size = payload.size();
  out->push_back(static_cast<char>(kFinal | opcode));
  const auto append = [&](int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(size >> (8 * i)));
  };
  if (size <= kMaxControl) {
    append(1);
  } else if (size <= 0xFFFF) {
    out->push_back(126);
    append(2);
  } else {
    out->push_back(127);
    append(8);
  }
  *out += payload;
}

}  // namespace

FrameEvent FrameReader::Fault(int code, std::string why) {
  done_ = true;
  std::string().swap(message_);
  return {FrameEvent::Kind::kFault, std::move(why), code};
}

size_t FrameReader::HeaderBytes() const {
  if (header_bytes_ < 2) return 2;
  const int length = header_[1] & kLength;
  const size_t longer = length == 126 ? 2 : length == 127 ? 8 : 0;
  return 2 + longer + 4;
}

std::optional<FrameEvent> FrameReader::CheckStart() {
  const int opcode = header_[0] & kOpcode;
  const bool final = (header_[0] & kFinal) != 0;
  if ((header_[0] & kReserved) != 0)
    return Fault(kCloseProtocolError, "reserved bits are set, and no extension was agreed on");
  if ((header_[1] & kMasked) == 0)
    return Fault(kCloseProtocolError, "frames of clients are masked");
  switch (opcode) {
    case kContinuation:
      if (!in_message_) return Fault(kCloseProtocolError, "nothing to continue");
      return std::nullopt;
    case kTextFrame:
    case kBinary:
      if (in_message_) return Fault(kCloseProtocolError, "a message within a message");
      if (opcode == kBinary) return Fault(kCloseUnsupportedData, "messages are text");
      return std::nullopt;
    case kClose:
    case kPing:
    case kPong:
      if (!final || (header_[1] & kLength) > static_cast<int>(kMaxControl))
        return Fault(kCloseProtocolError, "control frames are whole and of at most 125 bytes");
      return std::nullopt;
    default:
      return Fault(kCloseProtocolError, "reserved opcode");
  }
}

std::optional<FrameEvent> FrameReader::CheckLength() {
  const int shown = header_[1] & kLength;
  const size_t digits = shown == 126 ? 2 : shown == 127 ? 8 : 0;
  uint64_t length = digits == 0 ? static_cast<uint64_t>(shown) : 0;
  for (size_t i = 0; i < digits; ++i) length = length << 8 | header_[2 + i];
  if ((digits == 2 && length <= kMaxControl) || (digits == 8 && length <= 0xFFFF))
    return Fault(kCloseProtocolError, "a length in more bytes than it needs");
  left_ = length;
  taken_ = 0;
  if ((header_[0] & kOpcode) >= kFirstControl) return std::nullopt;
  if (length > limits_.frame_bytes) return Fault(kCloseTooBig, "too large a frame");
  if (length > limits_.message_bytes - message_.size())
    return Fault(kCloseTooBig, "too large a message");
  if (length > 0 || (header_[0] & kFinal) != 0) {
    empty_fragments_ = 0;
  } else if (++empty_fragments_ > limits_.empty_fragments) {
    return Fault(kClosePolicy, "too many empty frames");
  }
  return std::nullopt;
}

void FrameReader::TakePayload(std::string_view* bytes) {
  const bool control = (header_[0] & kOpcode) >= kFirstControl;
  std::string& to = control ? control_ : message_;
  const auto count = static_cast<size_t>(std::min<uint64_t>(left_, bytes->size()));
  const uint8_t* const mask = header_ + HeaderBytes() - 4;
  const size_t start = to.size();
  to.append(bytes->substr(0, count));
  for (size_t i = 0; i < count; ++i)
    to[start + i] = static_cast<char>(to[start + i] ^ mask[(taken_ + i) % 4]);
  bytes->remove_prefix(count);
  taken_ += count;
  left_ -= count;
}

FrameEvent FrameReader::EndClose() {
  std::string payload = std::exchange(control_, "");
  if (payload.empty()) {
    done_ = true;
    return {FrameEvent::Kind::kClose, "", kCloseNoStatus};
  }
  if (payload.size() == 1) return Fault(kCloseProtocolError, "half a close code");
  const int code = static_cast<uint8_t>(payload[0]) << 8 | static_cast<uint8_t>(payload[1]);
  if (!IsCloseCode(code)) return Fault(kCloseProtocolError, "no such close code");
  payload.erase(0, 2);
  if (!IsValidUtf8(payload)) return Fault(kCloseBadPayload, "the reason is not UTF-8");
  done_ = true;
  return {FrameEvent::Kind::kClose, std::move(payload), code};
}

std::optional<FrameEvent> FrameReader::EndFrame() {
  in_payload_ = false;
  header_bytes_ = 0;
  switch (header_[0] & kOpcode) {
    case kClose:
      return EndClose();
    case kPing:
      return FrameEvent{FrameEvent::Kind::kPing, std::exchange(control_, "")};
    case kPong:
      return FrameEvent{FrameEvent::Kind::kPong, std::exchange(control_, "")};
    default:
      break;
  }
  in_message_ = (header_[0] & kFinal) == 0;
  if (in_message_) return std::nullopt;
  if (!IsValidUtf8(message_)) return Fault(kCloseBadPayload, "the text is not UTF-8");
  return FrameEvent{FrameEvent::Kind::kText, std::exchange(message_, "")};
}

std::optional<FrameEvent> FrameReader::Next(std::string_view* bytes) {
  while (!done_) {
    while (!in_payload_ && header_bytes_ < HeaderBytes()) {
      if (bytes->empty()) return std::nullopt;
      header_[header_bytes_++] = static_cast<uint8_t>(bytes->front());
      bytes->remove_prefix(1);
      if (header_bytes_ != 2) continue;
      if (auto fault = CheckStart()) return fault;
    }
    if (!std::exchange(in_payload_, true)) {
      if (auto fault = CheckLength()) return fault;
    }
    TakePayload(bytes);
    if (left_ > 0) return std::nullopt;
    if (auto event = EndFrame()) return event;
  }
  return std::nullopt;
}

void AppendText(std::string_view text, std::string* out) { AppendFrame(kTextFrame, text, out); }

void AppendPing(std::string* out) { AppendFrame(kPing, "", out); }

void AppendPong(std::string_view payload, std::string* out) {
  CHECK_LE(payload.size(), kMaxControl);
  AppendFrame(kPong, payload, out);
}

void AppendClose(int code, std::string_view reason, std::string* out) {
  std::string payload;
  if (code != kCloseNoStatus) {
    payload = {static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
    reason = reason.substr(0, kMaxControl - payload.size());
    payload += reason.substr(0, ValidUtf8Prefix(reason));
  }
  AppendFrame(kClose, payload, out);
}

}  // namespace tutti::protocol
