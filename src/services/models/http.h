// HttpClient: GET requests to a hub and to the hosts that it redirects to, by libcurl.
//
// One thread at a time; blocks. A connection is kept for the next request. Its rules:
// - Only http and https; from an https address never to an http one.
// - At most 10 redirects. The token goes to the host, port and scheme of the first address only.
// - Answers are never decompressed: a body has the bytes that were sent, so nothing can expand.
// - Certificates are checked. Proxies are those of the environment (https_proxy, no_proxy).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::models {

struct HttpOptions {
  std::string user_agent = "tutti";
  std::string ca_file;                      // PEM of authorities; empty: the system's
  std::chrono::seconds patience{20};        // longest time without a byte, and to connect
  const std::atomic<bool>* stop = nullptr;  // set from any thread: requests end as cancelled
};

struct HttpRequest {
  std::string url;
  std::string token;     // sent as a bearer's; empty: none
  uint64_t from = 0;     // the first byte that is asked for; 0: no range
  std::string if_range;  // the range counts for this validator only; empty: for any content
  std::optional<std::chrono::seconds> limit;  // of the whole request; nothing: none
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> fields;  // of the last answer; names in lower case
  std::string url;  // of the last answer, without query: a query may hold a signature

  std::string_view Field(std::string_view name) const;  // "" if there is none
  std::optional<uint64_t> Length() const;               // Content-Length
  // Retry-After in seconds.
  std::optional<std::chrono::seconds> RetryAfter() const;
};

// Where a body goes. Called by Get on its thread. An error ends the request and is returned by it.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  virtual Status Begin(const HttpAnswer& answer) = 0;
  virtual Status Take(std::span<const std::byte> bytes) = 0;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Returns the answer that is no redirect. `body` gets the body of a 2xx answer; other bodies are
  // dropped. Errors: those of `body`; hub_unreachable (kUnavailable: it may be tried again, the
  // body may have been begun); hub_certificate; hub_redirect; hub_reply for an answer that is
  // not HTTP; cancelled.
  Result<HttpAnswer> Get(const HttpRequest& request, HttpBody* body);

  const std::atomic<bool>* stop() const { return options_.stop; }

 private:
  struct Exchange;
  Result<HttpAnswer> GetOnce(const HttpRequest& request, const std::string& url, bool with_token,
                             HttpBody* body, std::string* redirect);

  const HttpOptions options_;
  void* const curl_;  // CURL*: no header of libcurl is included here
};

// "https://host:port" with the default port written out; empty if `url` is no http or https URL.
std::string OriginOf(const std::string& url);
// `url` without user, query and fragment, which may hold secrets.
std::string WithoutQuery(const std::string& url);
// The same for messages: cut if it is long.
std::string PublicPartOf(const std::string& url);
// Escapes a path for a URL; slashes stay unless `slashes`.
std::string EscapePath(std::string_view path, bool slashes = false);

}  // namespace tutti::models
