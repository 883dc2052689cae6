#include "services/models/http.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"
#include "base/quote.h"
#include "curl/handle.h"

namespace tutti::models {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;
constexpr uint64_t kMaxDroppedBytes = uint64_t{1} << 20;  // of a body that nobody reads
constexpr long kBufferBytes = 256L << 10;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string PartOf(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string out = text;
  curl_free(text);
  return out;
}

std::unique_ptr<CURLU, FreeUrl> ReadUrl(const std::string& text) {
  std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  CHECK(url != nullptr);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return nullptr;
  return url;
}

bool IsHttps(const std::string& url) { return AsciiLower(url.substr(0, 8)) == "https://"; }

Status Unreachable(const std::string& url, std::string_view why) {
  return Unavailable("hub_unreachable", PublicPartOf(url) + ": " + Printable(why));
}

bool IsRedirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string_view HttpAnswer::Field(std::string_view name) const {
  const auto found = fields.find(std::string(name));
  return found == fields.end() ? std::string_view() : found->second;
}

std::optional<uint64_t> HttpAnswer::Length() const {
  return ParseNumber<uint64_t>(Field("content-length"));
}

std::optional<std::chrono::seconds> HttpAnswer::RetryAfter() const {
  const std::optional<uint32_t> seconds = ParseNumber<uint32_t>(Field("retry-after"));
  if (!seconds.has_value()) return std::nullopt;  // a date is treated as none
  return std::chrono::seconds(*seconds);
}

std::string OriginOf(const std::string& url) {
  const auto parsed = ReadUrl(url);
  if (parsed == nullptr) return "";
  const std::string scheme = PartOf(parsed.get(), CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") return "";
  return scheme + "://" + AsciiLower(PartOf(parsed.get(), CURLUPART_HOST)) + ":" +
         PartOf(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::string WithoutQuery(const std::string& url) {
  const auto parsed = ReadUrl(url);
  if (parsed == nullptr) return Quote(url.substr(0, url.find_first_of("?#")), 200);
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    curl_url_set(parsed.get(), part, nullptr, 0);
  return PartOf(parsed.get(), CURLUPART_URL);
}

std::string PublicPartOf(const std::string& url) {
  const std::string text = WithoutQuery(url);
  return text.size() <= 300 ? text : text.substr(0, 300) + "...";
}

std::string EscapePath(std::string_view path, bool slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && !slashes);
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

// State of one request while libcurl runs it.
struct HttpClient::Exchange {
  HttpBody* body = nullptr;
  const std::atomic<bool>* stop = nullptr;
  CURL* curl = nullptr;
  HttpAnswer answer;
  size_t header_bytes = 0;
  uint64_t dropped = 0;
  bool begun = false;   // body->Begin was called
  bool enough = false;  // of a body that is dropped
  // libcurl's own limit judges the mean of several seconds.
  std::chrono::steady_clock::time_point last_byte = std::chrono::steady_clock::now();
  std::chrono::seconds patience{0};
  bool stalled = false;
  Status fault;

  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    return static_cast<Exchange*>(self)->Header({data, size * count});
  }
  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    return static_cast<Exchange*>(self)->Body({data, size * count});
  }
  // Called when bytes come, and about once a second while none do.
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto* const exchange = static_cast<Exchange*>(self);
    exchange->stalled = std::chrono::steady_clock::now() - exchange->last_byte > exchange->patience;
    const bool stopped =
        exchange->stop != nullptr && exchange->stop->load(std::memory_order_relaxed);
    return stopped || exchange->stalled ? 1 : 0;
  }

  size_t Header(std::string_view line) {
    last_byte = std::chrono::steady_clock::now();
    header_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) {
      fault = Unavailable("hub_reply", "the head of the answer has more than 256 KiB");
      return 0;
    }
    const size_t taken = line.size();
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // a further answer begins, after one with status 1xx
      answer.fields.clear();
      return taken;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || answer.fields.size() >= 256) return taken;
    answer.fields[AsciiLower(line.substr(0, colon))] = std::string(Trimmed(line.substr(colon + 1)));
    return taken;
  }

  // Called before the first byte, and at the end for a body without bytes.
  bool Begin() {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    begun = true;
    if (body != nullptr && status / 100 == 2) fault = body->Begin(answer);
    return fault.ok();
  }

  size_t Body(std::string_view bytes) {
    last_byte = std::chrono::steady_clock::now();
    if (!begun && !Begin()) return 0;
    if (body == nullptr || answer.status / 100 != 2) {
      dropped += bytes.size();
      enough = dropped > kMaxDroppedBytes;
      return enough ? 0 : bytes.size();
    }
    fault = body->Take(std::as_bytes(std::span(bytes)));
    return fault.ok() ? bytes.size() : 0;
  }
};

HttpClient::HttpClient(HttpOptions options)
    : options_(std::move(options)), curl_(curl::NewHandle().release()) {}

HttpClient::~HttpClient() { curl::FreeHandle()(static_cast<CURL*>(curl_)); }

Result<HttpAnswer> HttpClient::Get(const HttpRequest& request, HttpBody* body) {
  const std::string origin = OriginOf(request.url);
  if (origin.empty())
    return InvalidArgument("invalid_value",
                           PublicPartOf(request.url) + " is not an http or https URL");
  std::string url = request.url;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    std::string next;
    ASSIGN_OR_RETURN(HttpAnswer answer,
                     GetOnce(request, url, OriginOf(url) == origin, body, &next));
    if (next.empty()) return answer;
    const std::string target = OriginOf(next);
    if (target.empty() || (IsHttps(url) && !IsHttps(next))) {
      return Status(
          StatusCode::kFailedPrecondition, "hub_redirect",
          PublicPartOf(url) + " redirects to an address that is not https: " + PublicPartOf(next));
    }
    url = std::move(next);
  }
  return Status(StatusCode::kFailedPrecondition, "hub_redirect",
                PublicPartOf(request.url) + " redirects more than 10 times; ask who runs it");
}

Result<HttpAnswer> HttpClient::GetOnce(const HttpRequest& request, const std::string& url,
                                       bool with_token, HttpBody* body, std::string* redirect) {
  CURL* const curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);  // keeps connections
  Exchange exchange;
  exchange.body = body;
  exchange.stop = options_.stop;
  exchange.curl = curl;
  exchange.patience = options_.patience;
  curl::HeaderLines headers;
  headers.Add("Accept-Encoding: identity");
  if (with_token && !request.token.empty()) headers.Add("Authorization: Bearer " + request.token);
  if (request.from > 0) headers.Add("Range: bytes=" + std::to_string(request.from) + "-");
  if (request.from > 0 && !request.if_range.empty()) headers.Add("If-Range: " + request.if_range);
  std::array<char, CURL_ERROR_SIZE> words{};
  const auto patience_s = static_cast<long>(options_.patience.count());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, options_.user_agent.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words.data());
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, patience_s);
  if (request.limit.has_value())
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.limit->count()));
  if (!options_.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Exchange::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Exchange::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Exchange::OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);

  const CURLcode done = curl_easy_perform(curl);
  if (!exchange.fault.ok()) return exchange.fault;
  const std::string why = words[0] != '\0' ? words.data() : curl_easy_strerror(done);
  switch (done) {
    case CURLE_OK:
      break;
    case CURLE_WRITE_ERROR:
      if (exchange.enough) break;
      return Unreachable(url, why);
    case CURLE_ABORTED_BY_CALLBACK:
      if (!exchange.stalled) return Cancelled();
      return Unreachable(url, "no byte came for " + std::to_string(patience_s) + " s");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return Status(StatusCode::kFailedPrecondition, "hub_certificate",
                    PublicPartOf(url) + ": " + Printable(why) +
                        "; SSL_CERT_FILE names a file of authorities");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return InvalidArgument("invalid_value", PublicPartOf(url) + ": " + Printable(why));
    default:
      return Unreachable(url, why);
  }
  if (!exchange.begun && !exchange.Begin()) return exchange.fault;
  exchange.answer.url = PublicPartOf(url);
  if (IsRedirect(exchange.answer.status)) {
    char* next = nullptr;  // absolute, owned by the handle
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &next);
    if (next == nullptr || *next == '\0')
      return Unavailable("hub_reply", PublicPartOf(url) + " redirects to no address");
    *redirect = next;
  }
  return std::move(exchange.answer);
}

}  // namespace tutti::models
