#include "client/stream_response.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"

namespace tutti::client {
namespace {

constexpr size_t kMaxEvent = size_t{4} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

constexpr size_t kMaxHeader = size_t{64} << 10;
// A list of some thousand models, as gateways to other servers have, takes about a megabyte.
constexpr size_t kMaxStreamedBody = size_t{8} << 20;

Status Malformed(const char* what) {
  return Unavailable("bad_response", std::string("the server's answer ") + what);
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

}  // namespace

void EventParser::TakeLine(std::vector<std::string>& events) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark))
    line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) {
    if (has_data_) events.push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
  } else if (line == "data" || line.starts_with("data:")) {
    line.remove_prefix(std::min<size_t>(line.size(), 5));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

Status EventParser::Feed(std::string_view bytes, std::vector<std::string>& events) {
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > kMaxEvent)
      return Unavailable("bad_response", "the server's answer has an event that is too long");
    if (end == std::string_view::npos) return OkStatus();
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    TakeLine(events);
  }
  return OkStatus();
}

void EventParser::Finish(std::vector<std::string>& events) {
  if (!line_.empty()) TakeLine(events);
  if (has_data_) TakeLine(events);  // as if the empty line had come
}

Status StreamResponse::ParseHeader(std::string_view header) {
  const bool http = header.starts_with("HTTP/1.") && header.size() >= 12;
  const std::optional<uint64_t> code =
      http ? ParseNumber<uint64_t>(header.substr(9, 3)) : std::nullopt;
  if (!code.has_value()) return Malformed("does not begin with an HTTP/1.1 status line");
  status_code_ = static_cast<int>(*code);
  keeps_connection_ = !header.starts_with("HTTP/1.0");
  state_ = State::kUntilClose;
  size_t begin = header.find('\n');
  while (begin != std::string_view::npos && begin + 1 < header.size()) {
    const size_t end = std::min(header.find('\n', begin + 1), header.size());
    const std::string_view line = header.substr(begin + 1, end - begin - 1);
    begin = end;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = AsciiLower(line.substr(0, colon));
    const std::string value = AsciiLower(Trimmed(line.substr(colon + 1)));
    if (name == "content-type") event_stream_ = value.starts_with("text/event-stream");
    if (name == "connection" && value.find("close") != std::string::npos) keeps_connection_ = false;
    if (name == "retry-after") {
      if (const auto seconds = ParseNumber<uint64_t>(value))
        retry_after_ = std::chrono::seconds(std::min<uint64_t>(*seconds, 86'400));
    }
    if (name == "transfer-encoding" && value.find("chunked") != std::string::npos)
      state_ = State::kChunkSize;
    if (name == "content-length" && state_ != State::kChunkSize) {
      const std::optional<uint64_t> length = ParseNumber<uint64_t>(value);
      if (!length.has_value()) return Malformed("has a bad content-length");
      remaining_ = *length;
      state_ = remaining_ == 0 ? State::kDone : State::kLength;
    }
  }
  if (state_ == State::kUntilClose) keeps_connection_ = false;
  return OkStatus();
}

// A line of the framing (status of chunks) without its line end.
Status StreamResponse::TakeLine(std::string_view line) {
  line = Trimmed(line);
  switch (state_) {
    case State::kChunkSize: {
      const auto size = ParseNumber<uint64_t>(line.substr(0, line.find(';')), 16);
      if (!size.has_value()) return Malformed("has a bad chunk size");
      remaining_ = *size;
      state_ = remaining_ == 0 ? State::kTrailer : State::kChunk;
      return OkStatus();
    }
    case State::kChunkEnd:
      if (!line.empty()) return Malformed("has a chunk longer than it says");
      state_ = State::kChunkSize;
      return OkStatus();
    default:  // kTrailer
      if (line.empty()) state_ = State::kDone;
      return OkStatus();
  }
}

Status StreamResponse::TakeBody(std::string_view bytes, std::vector<std::string>& events) {
  if (!event_stream_) {
    if (status_code_ == 200 && body_.size() + bytes.size() > kMaxStreamedBody)
      return Malformed("is longer than 8 MiB");
    body_.append(bytes.substr(0, kMaxStreamedBody - std::min(kMaxStreamedBody, body_.size())));
    return OkStatus();
  }
  return parser_.Feed(bytes, events);
}

Status StreamResponse::Feed(std::string_view bytes, std::vector<std::string>& events) {
  RETURN_IF_ERROR(TakeBytes(bytes, events));
  if (complete()) parser_.Finish(events);
  return OkStatus();
}

Status StreamResponse::TakeBytes(std::string_view bytes, std::vector<std::string>& events) {
  while (!bytes.empty() && state_ != State::kDone) {
    switch (state_) {
      case State::kHeader: {
        const size_t before = pending_.size();
        pending_.append(bytes.substr(0, kMaxHeader + 4 - std::min(kMaxHeader, before)));
        const size_t end = pending_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
        if (end == std::string::npos) {
          if (pending_.size() > kMaxHeader) return Malformed("has a header that is too long");
          return OkStatus();
        }
        bytes.remove_prefix(end + 4 - before);
        pending_.resize(end);
        RETURN_IF_ERROR(ParseHeader(pending_));
        pending_.clear();
        break;
      }
      case State::kLength:
      case State::kChunk: {
        const std::string_view part =
            bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(remaining_, bytes.size())));
        RETURN_IF_ERROR(TakeBody(part, events));
        bytes.remove_prefix(part.size());
        remaining_ -= part.size();
        if (remaining_ == 0) state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
        break;
      }
      case State::kChunkSize:
      case State::kChunkEnd:
      case State::kTrailer: {
        const size_t end = bytes.find('\n');
        pending_.append(bytes.substr(0, end));
        if (pending_.size() > kMaxHeader) return Malformed("has bad chunk framing");
        if (end == std::string_view::npos) return OkStatus();
        bytes.remove_prefix(end + 1);
        RETURN_IF_ERROR(TakeLine(pending_));
        pending_.clear();
        break;
      }
      case State::kUntilClose:
        RETURN_IF_ERROR(TakeBody(bytes, events));
        return OkStatus();
      case State::kDone:
        break;
    }
  }
  return OkStatus();
}

Status StreamResponse::End(std::vector<std::string>& events) {
  if (state_ == State::kUntilClose) {
    state_ = State::kDone;
    parser_.Finish(events);
  }
  return complete() ? OkStatus() : Malformed("ended before it was complete");
}

}  // namespace tutti::client
