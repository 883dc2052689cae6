// The page (web/): GET / for browsers, its files below /web/, and what it has to know before it has
// a key. The files contain no data of the server, so they need no key; what the page shows comes
// from the same routes, under the same rules, as for every other client.
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "protocol/json/json_writer.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/content_coding.h"
#include "server/http/handler.h"
#include "server/http/web/web_files.h"

namespace tutti::http {
namespace {

// Nothing but the page's own files is run or shown, and only this server is asked. Text of a model
// becomes elements through DOMPurify alone, whose policy is the one trusted type.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify";

constexpr std::string_view kIndex = "index.html";

std::string_view NameOf(WebMode mode) {
  switch (mode) {
    case WebMode::kOff:
      return "off";
    case WebMode::kAdminOnly:
      return "admin-only";
    case WebMode::kOn:
      break;
  }
  return "on";
}

// Whether one of the tags in If-None-Match is that of the file (RFC 9110, 13.1.2: weak comparison).
bool Matches(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view tag = Trimmed(if_none_match.substr(0, comma));
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    if (tag == "*" || tag == etag) return true;
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
  }
  return false;
}

class WebHandler final : public Handler {
 public:
  WebHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    if (connection_.context().options.web == WebMode::kOff)
      return connection_.RespondError(
          NotFound("not_found", "this server shows no page; start it with --web on"));
    if (route_ == RouteId::kWebConfig) return Config();
    const bool root = route_ == RouteId::kOllamaRoot;
    if (root && LacksSlash()) return Redirect();
    const std::string path =
        root ? std::string(kIndex) : connection_.request_context().decision().argument;
    const WebFile* const file = FindWebFile(path);
    if (file == nullptr)
      return connection_.RespondError(NotFound("not_found", "the page has no such file"));
    Send(*file, root);
  }

 private:
  // "/tutti" with --web-base: the page's links are relative, so it is asked for as "/tutti/".
  bool LacksSlash() const {
    const std::string_view target = connection_.request().target;
    return !target.substr(0, target.find('?')).ends_with('/');
  }
  void Redirect() {
    connection_.Respond(308, {{"Location", connection_.context().options.web_base + "/"}}, "");
  }
  void Send(const WebFile& file, bool root) {
    const HttpRequest& request = connection_.request();
    const std::string* const accepts = request.Find("accept-encoding");
    const bool gzip = accepts != nullptr && AcceptedCoding(*accepts) == protocol::Coding::kGzip;
    // A strong tag names bytes, so each coding has its own (RFC 9110, 8.8.3).
    std::string etag(file.etag);
    if (gzip) etag.insert(etag.size() - 1, "-gzip");
    HeaderList headers = {{"ETag", etag},
                          // It is asked for each time, and answered with 304: a new program has
                          // new files under the same names.
                          {"Cache-Control", "no-cache"},
                          {"Vary", root ? "Accept, Accept-Encoding" : "Accept-Encoding"}};
    const std::string* const known = request.Find("if-none-match");
    if (known != nullptr && Matches(*known, etag))
      return connection_.Respond(304, std::move(headers), "");
    headers.emplace_back("Content-Type", MediaTypeOf(file));
    headers.emplace_back("Content-Security-Policy", kPolicy);
    headers.emplace_back("Referrer-Policy", "no-referrer");
    headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
    headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
    headers.emplace_back("X-Frame-Options", "DENY");
    if (gzip) {
      headers.emplace_back("Content-Encoding", "gzip");
      return connection_.Respond(200, std::move(headers), std::string(file.compressed()));
    }
    Result<std::string> plain = Decompressed(file);
    if (!plain.ok()) return connection_.RespondError(plain.status());
    connection_.Respond(200, std::move(headers), *std::move(plain));
  }

  void Config() {
    const HttpOptions& options = connection_.context().options;
    protocol::JsonWriter json;
    json.BeginObject()
        .Member("mode", NameOf(options.web))
        .Member("keys", connection_.context().router.NeedsCredential())
        .EndObject();
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        json.Take());
  }

  const RouteId route_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeRootHandler(RouteId route, Connection& connection) {
  const std::string* const accept = connection.request().Find("accept");
  const bool browser =
      accept != nullptr && AsciiLower(*accept).find("text/html") != std::string::npos;
  if (browser && connection.context().options.web != WebMode::kOff)
    return MakeWebHandler(route, connection);
  return MakeImmediateHandler(route, connection);
}

std::unique_ptr<Handler> MakeWebHandler(RouteId route, Connection& connection) {
  return std::make_unique<WebHandler>(route, connection);
}

}  // namespace tutti::http
