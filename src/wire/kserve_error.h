// The HTTP status of an error on the routes of KServe v2. Pure.
//
// Clients of Triton expect 400, 404, 500, 501 and 503, as its HTTP server sends them
// (HttpCodeFromError). Errors of HTTP itself (authentication, method, size, rate limits) keep the
// status of the error table.
#pragma once

#include "wire/error.h"

namespace tutti::wire {

// KServe status of error `row`; `http` is the status that OpenAI routes send for it.
int KserveStatusOf(const ErrorRow& row, int http);

}  // namespace tutti::wire
