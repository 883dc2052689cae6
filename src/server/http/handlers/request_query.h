// The query of a request as a route reads it.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"

namespace tutti::http {

// `read` is one of the functions of protocol/schema/query_parameters.h.
template <typename Query>
Result<Query> ReadQuery(Connection& connection,
                        Result<Query> (*read)(std::span<const protocol::QueryParameter>,
                                              const protocol::ParseOptions&,
                                              protocol::IgnoredFields*),
                        protocol::IgnoredFields* ignored) {
  const std::string_view target = connection.request().target;
  const size_t mark = std::min(target.find('?'), target.size());
  ASSIGN_OR_RETURN(const std::vector<protocol::QueryParameter> parameters,
                   protocol::DecodeQuery(target.substr(std::min(mark + 1, target.size()))));
  const protocol::ParseOptions options{connection.context().options.strict};
  return read(parameters, options, ignored);
}

// Lists are asked for with one element more than the page of `limit` elements. Drops that one;
// whether there was one.
template <typename T>
bool CutPage(std::vector<T>* page, size_t limit) {
  const bool more = page->size() > limit;
  if (more) page->resize(limit);
  return more;
}

}  // namespace tutti::http
