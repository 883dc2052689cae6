#include "services/post/post.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/ascii.h"
#include "curl/handle.h"

namespace tutti::post {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxHeadBytes = 16 << 10;

// 4 or 16 bytes in network order; empty if `text` is no address.
std::vector<uint8_t> BytesOf(const std::string& text) {
  std::vector<uint8_t> bytes(sizeof(in6_addr));
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(sizeof(in_addr));
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

std::vector<uint8_t> BytesOf(const curl_sockaddr& address) {
  const auto copy = [](const auto& in) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(&in);
    return std::vector<uint8_t>(begin, begin + sizeof(in));
  };
  if (address.family == AF_INET)
    return copy(reinterpret_cast<const sockaddr_in*>(&address.addr)->sin_addr);
  if (address.family == AF_INET6)
    return copy(reinterpret_cast<const sockaddr_in6*>(&address.addr)->sin6_addr);
  return {};
}

// State of one POST while libcurl runs it.
struct Exchange {
  std::vector<std::vector<uint8_t>> permitted;  // addresses
  Response answer;
  size_t head_bytes = 0;
  bool too_long = false;
  bool ended = false;  // the head, which is all that is read

  // Refuses every address that was not checked, whatever libcurl made of the host's name.
  static curl_socket_t OnOpenSocket(void* self, curlsocktype, curl_sockaddr* address) {
    const auto& permitted = static_cast<const Exchange*>(self)->permitted;
    if (std::ranges::find(permitted, BytesOf(*address)) == permitted.end()) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    return static_cast<Exchange*>(self)->Header({data, size * count}) ? size * count : 0;
  }

  // Whether to go on.
  bool Header(std::string_view line) {
    head_bytes += line.size();
    too_long = head_bytes > kMaxHeadBytes;
    if (too_long) return false;
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
      // "HTTP/1.1 200 OK"; another one follows a head with status 1xx.
      const size_t space = line.find(' ');
      const auto status = space == std::string_view::npos
                              ? std::nullopt
                              : ParseNumber<int>(line.substr(space + 1, 3));
      answer = Response{};
      answer.status = status.value_or(0);
      return true;
    }
    if (line.empty()) {
      ended = answer.status >= 200;
      return !ended;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || AsciiLower(line.substr(0, colon)) != "retry-after")
      return true;
    const auto seconds = ParseNumber<int64_t>(Trimmed(line.substr(colon + 1)));
    if (seconds.has_value() && *seconds >= 0)
      answer.retry_after = std::chrono::seconds(std::min<int64_t>(*seconds, 86'400));
    return true;
  }
};

// Error text for the client; the library's own texts contain names of files and addresses.
Status WhyNot(const std::string& who, const Exchange& exchange, CURL* curl, CURLcode code) {
  long os_error = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os_error);
  const auto why = [&](const char* text) { return Unavailable("unavailable", who + text); };
  if (exchange.too_long) return why(" answers with too long a head");
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return why(" did not answer in time");
    case CURLE_COULDNT_CONNECT:
      return why(os_error == ECONNREFUSED ? " refuses connections" : " cannot be reached");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return why(" has a certificate or a version of TLS that is not accepted");
    case CURLE_UNSUPPORTED_PROTOCOL:  // what libcurl calls an answer without a status line
    case CURLE_WEIRD_SERVER_REPLY:
      return why(" answers something else than HTTP");
    default:
      return why(" ended the connection");
  }
}

// All addresses are checked: a host with any private address is refused.
Result<Exchange> Begin(const Addresses& addresses, bool trusted) {
  Exchange exchange;
  for (const std::string& text : addresses) {
    std::vector<uint8_t> bytes = BytesOf(text);
    if (bytes.empty()) return Unavailable("unavailable", "invalid address for the host");
    if (!trusted && !IsPublic(bytes)) {
      return Status(StatusCode::kPermissionDenied, "permission_denied",
                    "the host has an address inside a network");
    }
    exchange.permitted.push_back(std::move(bytes));
  }
  if (addresses.empty()) return Unavailable("unavailable", "the host has no address");
  return exchange;
}

// "HOST:PORT:ADDRESS,...": where libcurl finds the host, so that it asks no resolver.
std::string ResolvedAs(const Target& target, const Addresses& addresses) {
  std::string line = target.host + ":" + std::to_string(target.port) + ":";
  for (const std::string& address : addresses) {
    if (!line.ends_with(':')) line += ',';
    line += address.find(':') == std::string::npos ? address : "[" + address + "]";
  }
  return line;
}

}  // namespace

Result<Response> Post(const Target& target,
                      const std::vector<std::pair<std::string, std::string>>& fields,
                      const std::string& body, const Options& options) {
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  ASSIGN_OR_RETURN(const Addresses addresses, options.look_up(target.host, options.timeout));
  ASSIGN_OR_RETURN(Exchange exchange, Begin(addresses, options.trusted));
  const curl::Handle handle = curl::NewHandle();
  CURL* const curl = handle.get();
  curl::HeaderLines headers;
  for (const auto& [name, value] : fields) headers.Add(name + ": " + value);
  headers.Add("Connection: close");
  for (const char* const added : {"Accept:", "Expect:"}) headers.Add(added);
  curl::HeaderLines resolved;
  if (target.host.find(':') == std::string::npos) resolved.Add(ResolvedAs(target, addresses));
  const std::string url = (target.tls ? "https://" : "http://") + target.authority + "/";
  const auto left =
      std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());

  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_REQUEST_TARGET, target.path.c_str());
  curl_easy_setopt(curl, CURLOPT_RESOLVE, resolved.get());
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Exchange::OnOpenSocket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // none of the environment's: the checked address
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, target.tls ? "https" : "http");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(left.count(), 1)));
  // The system's folder of authorities is read as well.
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Exchange::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);

  const CURLcode code = curl_easy_perform(curl);
  if (!exchange.ended) return WhyNot(target.authority, exchange, curl, code);
  return exchange.answer;
}

}  // namespace tutti::post
