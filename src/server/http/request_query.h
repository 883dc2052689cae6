// The query of a request as a route reads it.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "server/http/connection.h"
#include "wire/query_parameters.h"

namespace tutti::http {

// `read` is one of the functions of wire/query_parameters.h.
template <typename Query>
Result<Query> ReadQuery(Connection& connection,
                        Result<Query> (*read)(std::span<const wire::QueryParameter>,
                                              const wire::ParseOptions&, wire::IgnoredFields*),
                        wire::IgnoredFields* ignored) {
  const std::string_view target = connection.request().target;
  const size_t mark = std::min(target.find('?'), target.size());
  ASSIGN_OR_RETURN(const std::vector<wire::QueryParameter> parameters,
                   wire::DecodeQuery(target.substr(std::min(mark + 1, target.size()))));
  const wire::ParseOptions options{connection.context().options.strict};
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
