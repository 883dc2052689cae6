// JsonHandler: base of handlers that answer with JSON about objects of the caller's tenant: one of
// them, by its id, or a page of a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/response.h"
#include "server/http/handler.h"
#include "server/http/handlers/request_fields.h"

namespace tutti::http {

class JsonHandler : public Handler {
 protected:
  explicit JsonHandler(Connection& connection) : connection_(connection) {}

  const std::string& Owner() const { return connection_.request_context().tenant(); }
  const std::string& Id() const { return connection_.request_context().decision().argument; }

  // As ReadQuery(). The names of unknown parameters become `ignored_`.
  template <typename Query>
  Result<Query> TakeQuery(Result<Query> (*read)(std::span<const protocol::QueryParameter>,
                                                const protocol::ParseOptions&,
                                                protocol::IgnoredFields*)) {
    protocol::IgnoredFields ignored;
    Result<Query> query = ReadQuery(connection_, read, &ignored);
    ignored_ = ignored.names();
    return query;
  }

  void Json(std::string body) { connection_.Respond(200, JsonHeaders(ignored_), std::move(body)); }

  // Callbacks for services, as Connection::Later(). They answer with an error, or with what `write`
  // makes of the object.
  template <typename T, typename Write>
  auto ThenJson(Write write) {
    return connection_.Later([this, write](const Result<T>& object) {
      if (!object.ok()) return connection_.RespondError(object.status());
      Json(write(*object));
    });
  }
  // The same for a list that was asked for with one element more than `limit`. `write` takes the
  // page, and whether there is more.
  template <typename T, typename Write>
  auto ThenPage(int64_t limit, Write write) {
    return connection_.Later(
        [this, most = static_cast<size_t>(limit), write](Result<std::vector<T>> page) {
          if (!page.ok()) return connection_.RespondError(page.status());
          const bool more = CutPage(&*page, most);
          Json(write(*page, more));
        });
  }
  // The same after work without a result. `write` takes no arguments.
  template <typename Write>
  auto ThenDone(Write write) {
    return connection_.Later([this, write](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      Json(write());
    });
  }

  Connection& connection_;
  std::vector<std::string> ignored_;  // names of unknown fields, for the head of the answer
};

}  // namespace tutti::http
