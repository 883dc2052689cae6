#include "services/webhooks/post.h"

#include <openssl/ssl.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

#include "base/ascii.h"

namespace tutti::webhooks {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr uint32_t kMaxHeadBytes = 16 << 10;

std::vector<uint8_t> BytesOf(const asio::ip::address& address) {
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    return {bytes.begin(), bytes.end()};
  }
  const auto bytes = address.to_v6().to_bytes();
  return {bytes.begin(), bytes.end()};
}

// Checks all addresses: a host with any private address is refused.
Result<std::vector<tcp::endpoint>> EndpointsOf(const Target& target, const Addresses& addresses,
                                               bool trusted) {
  std::vector<tcp::endpoint> endpoints;
  for (const std::string& text : addresses) {
    boost::system::error_code failed;
    const asio::ip::address address = asio::ip::make_address(text, failed);
    if (failed) return Unavailable("unavailable", "invalid address for the host");
    if (!trusted && !IsPublic(BytesOf(address))) {
      return Status(StatusCode::kPermissionDenied, "permission_denied",
                    "the host has an address inside a network");
    }
    endpoints.emplace_back(address, target.port);
  }
  if (endpoints.empty()) return Unavailable("unavailable", "the host has no address");
  return endpoints;
}

template <typename Stream>
asio::awaitable<PostAnswer> Exchange(Stream& stream, http::request<http::string_body>& request) {
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer(kMaxHeadBytes);
  http::response_parser<http::empty_body> parser;
  parser.header_limit(kMaxHeadBytes);
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  PostAnswer answer;
  answer.status = parser.get().result_int();
  const auto wait = parser.get()[http::field::retry_after];
  const std::optional<int64_t> seconds =
      ParseNumber<int64_t>(std::string_view(wait.data(), wait.size()));
  if (seconds.has_value() && *seconds >= 0)
    answer.retry_after = std::chrono::seconds(std::min<int64_t>(*seconds, 86'400));
  co_return answer;
}

asio::awaitable<PostAnswer> Send(const Target& target, std::vector<tcp::endpoint> endpoints,
                                 http::request<http::string_body>& request,
                                 const PostOptions& options,
                                 std::chrono::steady_clock::time_point end) {
  const auto executor = co_await asio::this_coro::executor;
  if (!target.tls) {
    beast::tcp_stream stream(executor);
    stream.expires_at(end);
    co_await stream.async_connect(endpoints, asio::use_awaitable);
    co_return co_await Exchange(stream, request);
  }
  asio::ssl::context tls(asio::ssl::context::tls_client);
  tls.set_default_verify_paths();
  if (!options.ca_file.empty()) tls.load_verify_file(options.ca_file);
  tls.set_verify_mode(asio::ssl::verify_peer);
  beast::ssl_stream<beast::tcp_stream> stream(executor, tls);
  stream.set_verify_callback(asio::ssl::host_name_verification(target.host));
  SSL_set_tlsext_host_name(stream.native_handle(), target.host.c_str());
  beast::get_lowest_layer(stream).expires_at(end);
  co_await beast::get_lowest_layer(stream).async_connect(endpoints, asio::use_awaitable);
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  co_return co_await Exchange(stream, request);
}

// Error text for the client; the library's own texts contain places in its source code.
Status WhyNot(const std::exception& error) {
  const auto why = [](const char* text) { return Unavailable("unavailable", text); };
  const auto* const known = dynamic_cast<const boost::system::system_error*>(&error);
  if (known == nullptr) return why("the attempt failed");
  const boost::system::error_code code = known->code();
  if (code == beast::error::timeout) return why("it did not answer in time");
  if (code == asio::error::connection_refused) return why("it refuses connections");
  if (code == asio::error::host_unreachable || code == asio::error::network_unreachable)
    return why("it cannot be reached");
  if (code.category() == asio::error::get_ssl_category())
    return why("no TLS with it: its certificate or its protocol is not accepted");
  if (code == http::error::header_limit || code == http::error::body_limit)
    return why("the head of its answer is too long");
  if (code.category() == http::make_error_code(http::error::bad_version).category())
    return why("what it answered is not HTTP");
  return why("the connection was lost");
}

}  // namespace

Result<PostAnswer> Post(const Target& target,
                        const std::vector<std::pair<std::string, std::string>>& fields,
                        const std::string& body, const PostOptions& options) {
  try {  // the library's errors are exceptions in coroutines
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const Addresses addresses, options.look_up(target.host, options.timeout));
    ASSIGN_OR_RETURN(const std::vector<tcp::endpoint> endpoints,
                     EndpointsOf(target, addresses, options.trusted));
    const auto end = begin + options.timeout;
    asio::io_context context(1);
    http::request<http::string_body> request(http::verb::post, target.path, 11, body);
    request.set(http::field::host, target.authority);
    request.set(http::field::connection, "close");
    for (const auto& [name, value] : fields) request.set(name, value);
    request.prepare_payload();
    Result<PostAnswer> result = Unavailable("unavailable", "no answer");
    asio::co_spawn(context, Send(target, endpoints, request, options, end),
                   [&](const std::exception_ptr& failed, PostAnswer answer) {
                     if (!failed) {
                       result = answer;
                       return;
                     }
                     try {
                       std::rethrow_exception(failed);
                     } catch (const std::exception& error) {
                       result = WhyNot(error);
                     }
                   });
    context.run();
    return result;
  } catch (const std::exception& error) {
    return WhyNot(error);
  }
}

}  // namespace tutti::webhooks
