#include "wire/kserve_error.h"

namespace tutti::wire {

int KserveStatusOf(const ErrorRow& row, int http) {
  if (row.canonical == StatusCode::kInvalidArgument) return 400;
  if (row.canonical == StatusCode::kNotFound) return 404;
  // A request whose time is over is unavailable there; a body that comes too slowly is HTTP's.
  if (http == 504) return 503;
  return http;
}

}  // namespace tutti::wire
