#include "protocol/http1/multipart.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/utf8.h"

namespace tutti::protocol {
namespace {

constexpr size_t kMaxBoundary = 70;  // RFC 2046 5.1.1
constexpr size_t kMaxPadding = 64;   // blanks behind a boundary
constexpr size_t kMaxNameBytes = 255;

Status Malformed(std::string_view what) {
  return InvalidArgument("invalid_value", "malformed multipart body: " + std::string(what));
}

bool IsBoundaryChar(char c) {
  constexpr std::string_view kOthers = "'()+_,-./:=? ";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kOthers.find(c) != std::string_view::npos;
}

// Reads `; name=value` from the front: a token or a quoted text. nullopt if none is left.
struct Parameter {
  std::string name, value;  // the name in lower case
};
Result<std::optional<Parameter>> TakeParameter(std::string_view* text) {
  *text = Trimmed(*text);
  if (text->empty()) return std::optional<Parameter>();
  if (text->front() != ';') return Malformed("a field's parameters");
  text->remove_prefix(1);
  *text = Trimmed(*text);
  if (text->empty()) return std::optional<Parameter>();
  const size_t equals = text->find('=');
  if (equals == std::string_view::npos) return Malformed("a field's parameters");
  Parameter parameter{AsciiLower(std::string(Trimmed(text->substr(0, equals)))), ""};
  text->remove_prefix(equals + 1);
  *text = Trimmed(*text);
  if (!text->starts_with('"')) {
    const size_t end = std::min(text->find(';'), text->size());
    parameter.value = Trimmed(text->substr(0, end));
    text->remove_prefix(end);
    return std::optional(std::move(parameter));
  }
  for (size_t i = 1; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (c == '"') {
      text->remove_prefix(i + 1);
      return std::optional(std::move(parameter));
    }
    // Browsers of Windows send folders with bare backslashes: only these two are escaped.
    if (c == '\\' && i + 1 < text->size() && ((*text)[i + 1] == '"' || (*text)[i + 1] == '\\')) ++i;
    parameter.value += (*text)[i];
  }
  return Malformed("a quoted text without its end");
}

// UTF-8''na%C3%AFve (RFC 8187), as some clients write names beyond ASCII.
std::string ExtendedValue(const std::string& value) {
  const size_t mark = value.find("''");
  if (mark == std::string::npos) return value;
  std::string out;
  for (size_t i = mark + 2; i < value.size(); ++i) {
    const bool escape = value[i] == '%' && i + 2 < value.size() && HexDigit(value[i + 1]) >= 0 &&
                        HexDigit(value[i + 2]) >= 0;
    out +=
        escape ? static_cast<char>(HexDigit(value[i + 1]) * 16 + HexDigit(value[i + 2])) : value[i];
    if (escape) i += 2;
  }
  return out;
}

Status CheckName(const std::string& name) {
  if (name.size() > kMaxNameBytes) return Malformed("a name of more than 255 bytes");
  if (!IsValidUtf8(name)) return InvalidArgument("invalid_utf8", "a part's name is not UTF-8");
  return OkStatus();
}

Result<PartHead> ReadDisposition(std::string_view value) {
  const size_t end = std::min(value.find(';'), value.size());
  if (AsciiLower(std::string(Trimmed(value.substr(0, end)))) != "form-data")
    return Malformed("a part that is no form-data");
  value.remove_prefix(end);
  PartHead head;
  bool named = false, extended = false;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Parameter> parameter, TakeParameter(&value));
    if (!parameter.has_value()) break;
    if (parameter->name == "name") {
      if (std::exchange(named, true)) return Malformed("a part with two names");
      head.name = std::move(parameter->value);
    } else if (parameter->name == "filename*") {
      head.filename = ExtendedValue(parameter->value);
      extended = true;
    } else if (parameter->name == "filename" && !extended) {
      head.filename = std::move(parameter->value);
    }
  }
  if (!named) return Malformed("a part without a name");
  RETURN_IF_ERROR(CheckName(head.name));
  if (head.filename.has_value()) {
    const size_t folder = head.filename->find_last_of("/\\");
    if (folder != std::string::npos) head.filename->erase(0, folder + 1);
    RETURN_IF_ERROR(CheckName(*head.filename));
  }
  return head;
}

// The lines of a part's head, without the empty one.
Result<PartHead> ReadHead(std::string_view lines) {
  std::optional<PartHead> head;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find("\r\n"), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 2, lines.size()));
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos || line.front() == ' ' ||
        line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
      return Malformed("a header line of a part");
    const std::string name = AsciiLower(std::string(line.substr(0, colon)));
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name == "content-transfer-encoding" && AsciiLower(std::string(value)) != "binary" &&
        AsciiLower(std::string(value)) != "8bit" && AsciiLower(std::string(value)) != "7bit")
      return Malformed("a part in another encoding than binary");
    if (name != "content-disposition") continue;
    if (head.has_value()) return Malformed("a part with two Content-Dispositions");
    ASSIGN_OR_RETURN(head, ReadDisposition(value));
  }
  if (!head.has_value()) return Malformed("a part without Content-Disposition");
  return *std::move(head);
}

}  // namespace

Result<std::string> MultipartBoundary(std::string_view content_type) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (AsciiLower(std::string(Trimmed(content_type.substr(0, end)))) != "multipart/form-data") {
    return Status(StatusCode::kUnimplemented, "unsupported_media_type",
                  "the body must be a form: send Content-Type: multipart/form-data");
  }
  content_type.remove_prefix(end);
  std::optional<std::string> boundary;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Parameter> parameter, TakeParameter(&content_type));
    if (!parameter.has_value()) break;
    if (parameter->name != "boundary") continue;
    if (boundary.has_value()) return Malformed("two boundaries");
    boundary = std::move(parameter->value);
  }
  if (!boundary.has_value()) return Malformed("the Content-Type names no boundary");
  if (boundary->empty() || boundary->size() > kMaxBoundary || boundary->back() == ' ' ||
      !std::all_of(boundary->begin(), boundary->end(), IsBoundaryChar))
    return Malformed("the boundary must be 1 to 70 characters of RFC 2046");
  return *std::move(boundary);
}

MultipartReader::MultipartReader(const std::string& boundary, PartSink* sink)
    : delimiter_("\r\n--" + boundary), sink_(sink) {}

Status MultipartReader::Feed(std::string_view bytes) {
  if (state_ == State::kEpilogue) return OkStatus();  // RFC 2046: to be ignored
  buffer_.append(bytes);
  bool stuck = false;
  while (!stuck) RETURN_IF_ERROR(Step(&stuck));
  return OkStatus();
}

Status MultipartReader::End() const {
  return state_ == State::kEpilogue ? OkStatus() : Malformed("it ends before its last boundary");
}

Status MultipartReader::Step(bool* stuck) {
  switch (state_) {
    case State::kPreamble:
    case State::kData:
      return AtData(stuck);
    case State::kDelimiter:
      return AtDelimiter(stuck);
    case State::kHead:
      return AtHead(stuck);
    case State::kEpilogue:
      break;
  }
  buffer_.clear();
  *stuck = true;
  return OkStatus();
}

Status MultipartReader::AtDelimiter(bool* stuck) {
  if (buffer_.starts_with("--")) {
    state_ = State::kEpilogue;
    return OkStatus();
  }
  const size_t text = buffer_.find_first_not_of(" \t");
  if (text == std::string::npos || buffer_.size() < text + 2) {
    *stuck = true;
    if (buffer_.size() > kMaxPadding) return Malformed("blanks behind a boundary");
    return OkStatus();
  }
  if (buffer_.compare(text, 2, "\r\n") != 0) return Malformed("text behind a boundary");
  if (++parts_ > kMaxParts) return Malformed("more than 16 parts");
  buffer_.erase(0, text);  // its line end may be that of an empty head
  state_ = State::kHead;
  return OkStatus();
}

Status MultipartReader::AtHead(bool* stuck) {
  const size_t end = buffer_.find("\r\n\r\n");
  if (std::min(end, buffer_.size()) > kMaxHeadBytes)
    return Malformed("the head of a part is longer than 8192 bytes");
  if (end == std::string::npos) {
    *stuck = true;
    return OkStatus();
  }
  const std::string_view lines = std::string_view(buffer_).substr(0, end);
  ASSIGN_OR_RETURN(const PartHead head, ReadHead(lines.substr(std::min<size_t>(2, lines.size()))));
  RETURN_IF_ERROR(sink_->OnPart(head));
  buffer_.erase(0, end + 4);
  state_ = State::kData;
  return OkStatus();
}

Status MultipartReader::AtData(bool* stuck) {
  const bool preamble = state_ == State::kPreamble;
  const size_t at = buffer_.find(delimiter_);
  const bool found = at != std::string::npos;
  const size_t kept = delimiter_.size() - 1;  // it may begin within these
  const size_t take = found ? at : buffer_.size() - std::min(kept, buffer_.size());
  if (preamble && take > kMaxPreambleBytes) return Malformed("its first boundary does not come");
  if (!preamble) RETURN_IF_ERROR(sink_->OnData(std::string_view(buffer_).substr(0, take)));
  buffer_.erase(0, take + (found ? delimiter_.size() : 0));
  if (found) state_ = State::kDelimiter;
  *stuck = !found;
  return OkStatus();
}

}  // namespace tutti::protocol
