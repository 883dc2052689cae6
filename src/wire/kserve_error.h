// The HTTP status of an error on the routes of KServe v2. Pure.
//
// Clients of Triton know 400, 404, 500, 501 and 503 (its HTTP server, HttpCodeFromError: not found,
// unavailable, internal, unsupported, everything else); what its server leaves to HTTP itself (the
// key, the method, the size, too many requests) stays as the error table has it.
#pragma once

#include "wire/error.h"

namespace tutti::wire {

// Of a row of the table whose status would be `http`.
int KserveStatusOf(const ErrorRow& row, int http);

}  // namespace tutti::wire
