#include "protocol/http1/framing.h"

#include <algorithm>

#include "base/ascii.h"

namespace tutti::protocol {
namespace {

constexpr size_t kMaxMethodBytes = 32;   // the longest registered one has 17
constexpr size_t kMaxFramingValue = 64;  // of the fields that frame a message
constexpr size_t kMaxNameKept = 20;      // "transfer-encoding" has 17
constexpr int kMaxSizeDigits = 16;
constexpr size_t kMaxExtensionBytes = 4096;  // of all chunks together: they are never read

bool IsTokenChar(unsigned char c) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return c != 0 && kOthers.find(static_cast<char>(c)) != std::string_view::npos;
}

bool IsValueChar(unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7F); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void FramingGuard::Fail(std::string_view code, std::string message) {
  const StatusCode canonical =
      code == "invalid_value" ? StatusCode::kInvalidArgument : StatusCode::kUnimplemented;
  fault_ = Status(canonical, code, std::move(message));
  state_ = State::kFailed;
}

size_t FramingGuard::Scan(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && state_ != State::kDone && state_ != State::kFailed) {
    if (state_ == State::kBody || state_ == State::kChunkData) {
      const auto taken = static_cast<size_t>(std::min<uint64_t>(remaining_, bytes.size() - at));
      at += taken;
      remaining_ -= taken;
      body_bytes_ += taken;
      if (remaining_ == 0) state_ = state_ == State::kBody ? State::kDone : State::kChunkDataCr;
    } else {
      const auto c = static_cast<unsigned char>(bytes[at++]);
      if (state_ < State::kBody) {
        Head(c);
      } else {
        ChunkFrame(c);
      }
    }
  }
  return at;
}

void FramingGuard::Head(unsigned char c) {
  if (state_ <= State::kRequestLineLf) {
    if (++line_bytes_ > limits_.request_line_bytes + 2) {
      return Fail("uri_too_long", "the request line is longer than " +
                                      std::to_string(limits_.request_line_bytes) + " bytes");
    }
  } else if (++header_bytes_ > limits_.header_bytes + 2) {  // the blank line is no field
    return Fail("headers_too_large",
                "the header is longer than " + std::to_string(limits_.header_bytes) + " bytes");
  }
  switch (state_) {
    case State::kMethod:
      if (c == ' ' && method_bytes_ > 0) {
        state_ = State::kTarget;
      } else if (!IsTokenChar(c)) {
        Malformed("the method is not a token");
      } else if (++method_bytes_ > kMaxMethodBytes) {
        Fail("not_implemented", "this method is not known here");
      }
      return;
    case State::kTarget:
      if (c == ' ' && target_bytes_ > 0) {
        state_ = State::kVersion;
      } else if (c <= 0x20 || c >= 0x7F) {
        Malformed("the request target");
      } else {
        ++target_bytes_;
      }
      return;
    case State::kVersion:
      if (c != '\r' && version_.size() < 8) {
        version_ += static_cast<char>(c);
        return;
      }
      if (c != '\r' || version_.size() != 8 || version_.compare(0, 5, "HTTP/") != 0 ||
          !IsDigit(version_[5]) || version_[6] != '.' || !IsDigit(version_[7])) {
        return Malformed("the protocol version");
      }
      if (version_ != "HTTP/1.1" && version_ != "HTTP/1.0") {
        return Fail("http_version_not_supported", "this server speaks HTTP/1.1 and HTTP/1.0");
      }
      minor_zero_ = version_.back() == '0';
      state_ = State::kRequestLineLf;
      return;
    case State::kRequestLineLf:
    case State::kLineLf:
      if (c != '\n') return Malformed("a carriage return without its line feed");
      state_ = State::kLineStart;
      return;
    case State::kLineStart:
      if (c == '\r') {
        state_ = State::kHeadLf;
        return;
      }
      if (c == ' ' || c == '\t') return Malformed("a folded header line");
      if (++fields_ > limits_.header_fields) {
        return Fail("headers_too_large", "the header has more than " +
                                             std::to_string(limits_.header_fields) + " fields");
      }
      name_.clear();
      value_.clear();
      state_ = State::kName;
      [[fallthrough]];
    case State::kName:
      if (c == ':' && !name_.empty()) {
        framing_field_ = name_ == "content-length" || name_ == "transfer-encoding";
        if (name_ == "host") ++hosts_;
        state_ = State::kValueStart;
      } else if (!IsTokenChar(c)) {
        Malformed("a header field name");
      } else if (name_.size() < kMaxNameKept) {
        name_ += AsciiLower(static_cast<char>(c));
      }
      return;
    case State::kValueStart:
      if (c == ' ' || c == '\t') return;
      state_ = State::kValue;
      [[fallthrough]];
    case State::kValue:
      if (c == '\r') return EndField();
      if (!IsValueChar(c)) return Malformed("a control character in a header field");
      if (framing_field_) {
        if (value_.size() >= kMaxFramingValue) return Malformed("the " + name_ + " field");
        value_ += AsciiLower(static_cast<char>(c));
      }
      return;
    case State::kHeadLf:
      if (c != '\n') return Malformed("a carriage return without its line feed");
      EndHead();
      return;
    default:
      CHECK(false) << "not a state of the head";
  }
}

void FramingGuard::EndField() {
  state_ = State::kLineLf;
  if (!framing_field_) return;
  while (!value_.empty() && (value_.back() == ' ' || value_.back() == '\t')) value_.pop_back();
  if (name_ == "transfer-encoding") {
    if (chunked_ || value_ != "chunked")
      return Malformed("Transfer-Encoding must be one `chunked`");
    chunked_ = true;
    return;
  }
  const bool digits =
      !value_.empty() && value_.size() <= 18 && std::all_of(value_.begin(), value_.end(), IsDigit);
  if (content_length_.has_value() || !digits)
    return Malformed("Content-Length must be one decimal number");
  content_length_ = std::stoull(value_);
}

void FramingGuard::EndHead() {
  if (chunked_ && content_length_.has_value())
    return Malformed("both Content-Length and Transfer-Encoding");
  if (chunked_ && minor_zero_) return Malformed("Transfer-Encoding in HTTP/1.0");
  if (hosts_ > 1 || (hosts_ == 0 && !minor_zero_))
    return Malformed("exactly one Host field is needed");
  CheckLength();
  if (failed()) return;
  head_done_ = true;
  remaining_ = content_length();
  if (chunked_) {
    state_ = State::kChunkSize;
  } else {
    state_ = remaining_ > 0 ? State::kBody : State::kDone;
  }
}

void FramingGuard::LimitBody(size_t bytes) {
  body_limit_ = bytes;
  if (failed()) return;
  CheckLength();
  if (!failed() && chunked_) CheckChunk();
}

void FramingGuard::CheckLength() {
  if (content_length() <= body_limit_) return;
  Fail("request_too_large", "the body has " + std::to_string(content_length()) +
                                " bytes; at most " + std::to_string(body_limit_) + " are accepted");
}

// Fails if the bytes received so far plus the rest of the current chunk exceed the body limit.
void FramingGuard::CheckChunk() {
  const bool inside = state_ == State::kChunkData;
  const uint64_t room = body_limit_ - std::min<uint64_t>(body_limit_, body_bytes_);
  if (body_bytes_ <= body_limit_ && (!inside || remaining_ <= room)) return;
  Fail("request_too_large",
       "the body is longer than the " + std::to_string(body_limit_) + " bytes that are accepted");
}

void FramingGuard::ChunkFrame(unsigned char c) {
  switch (state_) {
    case State::kChunkSize:
      if (const int digit = HexDigit(c); digit >= 0) {
        if (++size_digits_ > kMaxSizeDigits) return Malformed("a chunk size of too many digits");
        remaining_ = remaining_ << 4 | static_cast<uint64_t>(digit);
      } else if (size_digits_ == 0) {
        Malformed("a chunk size");
      } else if (c == ';') {
        state_ = State::kChunkExtension;
        ++extension_bytes_;
      } else if (c == '\r') {
        state_ = State::kChunkSizeLf;
      } else {
        Malformed("a chunk size");
      }
      return;
    case State::kChunkExtension:
      if (c == '\r') {
        state_ = State::kChunkSizeLf;
      } else if (!IsValueChar(c) || ++extension_bytes_ > kMaxExtensionBytes) {
        Malformed("a chunk extension");
      }
      return;
    case State::kChunkSizeLf:
      if (c != '\n') return Malformed("a carriage return without its line feed");
      EndChunkSize();
      return;
    case State::kChunkDataCr:
      if (c != '\r') return Malformed("a chunk longer than its size");
      state_ = State::kChunkDataLf;
      return;
    case State::kChunkDataLf:
      if (c != '\n') return Malformed("a carriage return without its line feed");
      state_ = State::kChunkSize;
      remaining_ = 0;
      size_digits_ = 0;
      return;
    case State::kTrailerCr:
      if (c != '\r') return Malformed("trailer fields are not accepted");
      state_ = State::kTrailerLf;
      return;
    case State::kTrailerLf:
      if (c != '\n') return Malformed("a carriage return without its line feed");
      state_ = State::kDone;
      return;
    default:
      CHECK(false) << "not a state of the body";
  }
}

void FramingGuard::EndChunkSize() {
  if (remaining_ == 0) {
    state_ = State::kTrailerCr;
  } else {
    state_ = State::kChunkData;
    CheckChunk();
  }
}

}  // namespace tutti::protocol
