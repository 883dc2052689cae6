// A client for one streamed request: connect, POST, read until the answer is complete. Plain TCP;
// blocking, on the caller's thread, with a limit of time for each wait. Any thread, one call each.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::client {

struct Server {
  std::string host, port;
  std::string base;             // path prefix without a final '/': "", or the root of a proxy
  std::string scheme = "http";  // for messages alone
};
// "[http://]127.0.0.1:8080[/base][/v1]". Errors: invalid_value; https is refused by name.
Result<Server> ParseServer(std::string_view url);

// An answer with another status than 200, by what its number means: "HTTP 401 " and the server's
// message, or the start of `body`. PostStream's has the Retry-After that came with it.
Status AnswerError(int http_status, const std::string& body);

// The head of a request up to its last fields; `close`: the server ends the connection behind the
// answer.
std::string RequestHead(std::string_view method, const Server& server, std::string_view path,
                        const std::string& api_key, bool close);

// Posts JSON; `on_event` gets the data of each server-sent event and when its last byte had come. A
// whole answer, from a server that does not stream, is one event.
// `stopped`, where given, is asked a few times a second and after each signal; true closes the
// connection, which ends the request. Errors: unavailable (connect, closed early, no byte for
// `patience`); cancelled (stopped); those of AnswerError() for an answer other than 200.
Status PostStream(const Server& server, const std::string& path, const std::string& body,
                  const std::string& api_key, std::chrono::milliseconds patience,
                  const std::function<void(std::string_view data, TimePoint when)>& on_event,
                  const std::function<bool()>& stopped = nullptr);

// GET of a small document; its body.
Result<std::string> Get(const Server& server, const std::string& path, const std::string& api_key,
                        std::chrono::milliseconds patience);

// The error message of another vendor's server, in the forms in which OpenAI-compatible servers
// report errors, in a body or in an event. Empty: `answer` is no error. Pure.
std::string ErrorText(const boost::json::value& answer);

}  // namespace tutti::client
