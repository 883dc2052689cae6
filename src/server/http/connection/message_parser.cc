#include "server/http/connection/message_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <limits>

#include "base/ascii.h"
#include "services/auth/key_text.h"

namespace tutti::http {

namespace beast = boost::beast;

const std::string* HttpRequest::Find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

size_t HttpRequest::Count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(fields.begin(), fields.end(),
                                           [&](const auto& field) { return field.first == name; }));
}

std::string HttpRequest::Joined(std::string_view name) const {
  std::string all;
  for (const auto& [field, value] : fields) {
    if (field == name) all += (all.empty() ? "" : ",") + value;
  }
  return all;
}

namespace {

constexpr std::uint64_t kMaxReserved = 8 << 20;  // longer ones are taken away as they come

// Like Beast's string_body, except for the reserved memory.
struct TextBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool IsRequest, typename Fields>
    reader(beast::http::header<IsRequest, Fields>&, std::string& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& length, beast::error_code& ec) {
      ec = {};
      if (length && *length <= kMaxReserved) body_.reserve(static_cast<size_t>(*length));
    }
    template <typename Buffers>
    std::size_t put(const Buffers& buffers, beast::error_code& ec) {
      ec = {};
      std::size_t taken = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers);
           it != boost::asio::buffer_sequence_end(buffers); ++it) {
        const boost::asio::const_buffer part = *it;
        body_.append(static_cast<const char*>(part.data()), part.size());
        taken += part.size();
      }
      return taken;
    }
    void finish(beast::error_code& ec) { ec = {}; }

   private:
    std::string& body_;
  };
};

// Characters that never need an escape, and those that must not hide behind one.
bool EscapeIsSuspicious(int c) {
  const bool unreserved = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                          (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_' || c == '~';
  return unreserved || c < 0x20 || c == 0x7F || c == '\\';
}

}  // namespace

struct MessageParser::Impl {
  explicit Impl(const protocol::FramingLimits& limits) : guard(limits) {
    // The guard enforces the limits; these only keep the second reader from having others.
    parser.header_limit(std::numeric_limits<std::uint32_t>::max());
    parser.body_limit(boost::none);
    parser.eager(true);
  }

  void Disagree() { fault = InvalidArgument("invalid_value", "malformed HTTP request"); }

  // Gives the accepted bytes to Beast, which leaves a partial line for later.
  void Parse(std::string_view accepted) {
    pending.append(accepted);
    size_t at = 0;
    while (at < pending.size() && !parser.is_done()) {
      // Beast asserts that a last chunk it has seen the beginning of comes back with 5 bytes or
      // more.
      const bool short_chunk =
          parser.is_header_done() && parser.chunked() && pending.size() - at < 5 && !guard.done();
      if (short_chunk) break;
      beast::error_code ec;
      const size_t used =
          parser.put(boost::asio::buffer(pending.data() + at, pending.size() - at), ec);
      at += used;
      if (ec == beast::http::error::need_more) break;
      if (ec) return Disagree();
      if (used == 0) break;
    }
    pending.erase(0, at);
    if (guard.head_done() && !head.has_value()) {
      if (!parser.is_header_done()) return Disagree();
      ReadHead();
    }
    if (guard.done() != parser.is_done()) Disagree();
  }

  void ReadHead() {
    const auto& message = parser.get();
    head.emplace();
    head->method = std::string(message.method_string());
    head->target = std::string(message.target());
    head->http_1_0 = message.version() == 10;
    head->keep_alive = message.keep_alive();
    for (const auto& field : message) {
      head->fields.emplace_back(
          AsciiLower(std::string_view{field.name_string().data(), field.name_string().size()}),
          std::string(field.value()));
    }
  }

  void NoteFirstLine(std::string_view bytes) {
    if (line_noted) return;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line.append(bytes.substr(0, std::min(end, kNotedLine - line.size())));
    line_noted = end < bytes.size() || line.size() == kNotedLine;
  }

  static constexpr size_t kNotedLine = 8 << 10;
  std::string line;  // the first one, without its end
  bool line_noted = false;
  protocol::FramingGuard guard;
  beast::http::request_parser<TextBody> parser;
  std::string pending;  // accepted by the guard, not yet taken by Beast
  std::optional<HttpRequest> head;
  Status fault;
};

MessageParser::MessageParser(const protocol::FramingLimits& limits)
    : impl_(std::make_unique<Impl>(limits)) {}
MessageParser::~MessageParser() = default;

size_t MessageParser::Feed(std::string_view bytes) {
  if (!impl_->fault.ok()) return 0;
  impl_->NoteFirstLine(bytes);
  const size_t accepted = impl_->guard.Scan(bytes);
  if (impl_->guard.failed()) {
    impl_->fault = impl_->guard.fault();
    return accepted;
  }
  impl_->Parse(bytes.substr(0, accepted));
  return accepted;
}

bool MessageParser::head_done() const { return impl_->head.has_value() && impl_->fault.ok(); }
bool MessageParser::done() const { return impl_->guard.done() && impl_->fault.ok(); }
const Status& MessageParser::fault() const { return impl_->fault; }
const HttpRequest& MessageParser::head() const { return *impl_->head; }

std::pair<std::string_view, std::string_view> MessageParser::first_line() const {
  const std::string_view line = impl_->line;
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return {};
  const std::string_view target = line.substr(blank + 1);
  return {line.substr(0, blank), target.substr(0, target.find(' '))};
}

HttpRequest MessageParser::Take() {
  HttpRequest request = std::move(*impl_->head);
  request.body = std::move(impl_->parser.get().body());
  return request;
}

void MessageParser::LimitBody(size_t bytes) {
  impl_->guard.LimitBody(bytes);
  if (impl_->guard.failed() && impl_->fault.ok()) impl_->fault = impl_->guard.fault();
}

std::string MessageParser::TakeBody() { return std::exchange(impl_->parser.get().body(), {}); }

bool MessageParser::has_body() const {
  return impl_->guard.chunked() || impl_->guard.content_length() > 0;
}
uint64_t MessageParser::announced_body() const { return impl_->guard.content_length(); }
bool MessageParser::chunked() const { return impl_->guard.chunked(); }
uint64_t MessageParser::body_bytes() const { return impl_->guard.body_bytes(); }

std::optional<std::string> CanonicalPath(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  if (path == "/v2/") path = "/v2";  // the published descriptions of KServe have both
  if (path.empty() || path[0] != '/' || target.find('#') != std::string_view::npos)
    return std::nullopt;
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (c <= 0x20 || c >= 0x7F || c == '\\') return std::nullopt;
    if (c == '%') {
      if (i + 2 >= path.size()) return std::nullopt;
      const int high = HexDigit(path[i + 1]), low = HexDigit(path[i + 2]);
      if (high < 0 || low < 0 || EscapeIsSuspicious(high * 16 + low)) return std::nullopt;
      i += 2;
    }
  }
  for (std::string_view rest = path.substr(1); path.size() > 1;) {
    const size_t slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..") return std::nullopt;
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return std::string(path);
}

std::string PathForLog(std::string_view target, std::string_view key) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!AsciiLower(target.substr(0, scheme.size())).starts_with(scheme)) continue;
    target.remove_prefix(std::min(target.find_first_of("/?#", scheme.size()), target.size()));
    if (!target.starts_with('/')) return "/";
  }
  target = target.substr(0, target.find_first_of("?#"));
  if (target != "*" && !target.starts_with('/')) return "-";  // an authority, or no target at all
  const std::string decoded = DecodedPath(target);
  const bool secret = (!key.empty() && decoded.find(key) != std::string::npos) ||
                      decoded.find(auth::kKeyPrefix) != std::string::npos;
  return secret ? "-" : std::string(target);
}

std::string DecodedPath(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                        HexDigit(text[i + 2]) >= 0;
    out += escape ? static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

}  // namespace tutti::http
