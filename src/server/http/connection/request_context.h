// RequestContext: the properties of one HTTP request other than its bytes: caller, id, route,
// limits and caches reported in the answer's head, error format, log line and metrics. A connection
// has one, reused for each request. Used on the connection's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/caller.h"
#include "api/request_trace.h"
#include "protocol/error.h"
#include "protocol/schema/checked_object.h"
#include "server/http/connection/io_loop.h"
#include "server/http/connection/message_parser.h"
#include "server/http/connection/response.h"
#include "server/http/server_context.h"
#include "services/auth/authenticator.h"
#include "services/auth/principal.h"

namespace tutti::http {

class RequestContext {
 public:
  // `request` is empty until its head is known. All outlive this.
  RequestContext(ServerContext& server, IoLoop& loop, const HttpRequest& request, std::string peer);

  // --- handlers ---
  const std::string& id() const { return id_; }
  // The id of the body; used unless the header gave one.
  void AdoptId(const std::string& id);
  const Decision& decision() const { return decision_; }
  TimePoint start() const { return start_; }
  const api::CallerRef& caller() const { return caller_; }
  // The tenant of the responses and dialogs.
  const std::string& tenant() const { return caller_->tenant; }
  // Sets the caller, if the request's head had no credential (Decision::asks_later).
  void Identify(auth::PrincipalRef principal);
  // Adds the caller to a request to the inference API, and the report through which the remaining
  // limits get into this answer's head.
  template <typename Request>
  void Sign(Request* request) {
    request->caller = caller_;
    request->rate_limits = rate_limits_;
    if constexpr (requires { request->trace_context; }) request->trace_context = SentContext();
    if constexpr (requires { request->trace; }) request->trace = BeginTrace(request->request_id);
    if constexpr (requires { request->cache_report; })
      SignForCache(&request->cache, &request->cache_report);
    if constexpr (requires { request->explain_prefix; })
      request->explain_prefix = request->explain_prefix || AsksToExplainCache();
  }
  // How bodies of this request are parsed.
  protocol::ParseOptions parse_options() const {
    return {server_.options.strict, start_, server_.options.limits.deadline_cap};
  }
  // The route's name in usage records.
  std::string usage_route() const { return UsageName(*decision_.route); }
  // Sets the operation under which the request is counted, if the route does not determine it.
  void CountAs(telemetry::OpKind op);

  // Errors: `form` if the route alone does not determine it.
  void set_error_form(protocol::ErrorForm form) { error_options_.form = form; }
  const protocol::ErrorOptions& error_options() const { return error_options_; }
  // Refusals by the inference API are counted there, refusals by this server here.
  enum class Origin { kServer, kInference };
  // Converts an error to the format of this request. Logs internal errors, and counts those of this
  // server.
  protocol::ErrorView MakeErrorView(const Status& status, Origin origin);

  // --- the connection ---
  void Begin(TimePoint now) { start_ = now; }  // the first byte has come
  // Gives it an id and a route. `certificate`: the client's; null: none.
  void OnHead(const HttpRequest& head, const auth::CertifiedName* certificate);
  void RequireId();  // where no head was read
  void SetCaller();  // from the decision; a handler begins
  void Activate();   // it counts as active until Account()
  // The end, once. `code`: status of the answer, or 499.
  void Account(int code, bool streamed, uint64_t sent_bytes);
  void Reset();  // for the next request
  void Stage(std::string_view stage, TimePoint since);

  // Headers of every answer; what limits and caches have reported is sent once.
  void AddHeaders(HeaderList* headers);
  HeaderList ErrorHeaders(const protocol::ErrorView& error) const;
  HeaderList OptionsHeaders() const;  // for an answer to OPTIONS

 private:
  // The caller's, from the request's head.
  TraceContext SentContext() const;
  // Null if this server keeps no traces.
  std::shared_ptr<api::RequestTrace> BeginTrace(const std::string& request_id);
  bool AsksToExplainCache() const;
  void SignForCache(api::CacheControl* control, std::shared_ptr<api::CacheReport>* report);
  void Report(int code, Duration took, uint64_t sent_bytes);  // log line, metrics; std::bad_alloc

  ServerContext& server_;
  IoLoop& loop_;
  const HttpRequest& request_;
  const std::string peer_;
  protocol::ErrorOptions error_options_;
  Decision decision_;
  // The caller, shared by all requests of one principal.
  auth::PrincipalRef principal_;
  api::CallerRef caller_;
  std::shared_ptr<api::RateLimits> rate_limits_;                  // null once the head is written
  std::vector<std::shared_ptr<api::CacheReport>> cache_reports_;  // one for each prompt
  std::vector<std::shared_ptr<api::RequestTrace>> traces_;        // the same, of the first ones
  TraceContext
      trace_context_;  // copied from the first trace; invalid while traces are not exported
  bool head_written_ = false;
  std::string id_;
  TimePoint start_;
};

}  // namespace tutti::http
