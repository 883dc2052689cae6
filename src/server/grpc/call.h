// A gRPC call as seen by the services: incoming messages, outgoing messages, and one status at the
// end, with its form on the wire.
//
// The gRPC library owns a Call, and the Call owns its CallHandler. All events of a call are
// serialised by the call's lock, so a handler needs no lock of its own. This header uses no type
// of the gRPC library.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>

#include <memory>
#include <optional>
#include <string>

#include "api/answer_cache.h"
#include "api/caller.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/auth/principal.h"
#include "telemetry/labels.h"

namespace tutti::rpc {

struct GrpcContext;

// Facts about a call, known when it begins.
struct CallInfo {
  std::string method;          // "/inference.GRPCInferenceService/ModelInfer"
  std::string request_id;      // from the client, else generated; also sent as a trailer
  TraceContext trace_context;  // sent by the client; may be invalid
  TimePoint start;
  TimePoint deadline = TimePoint::max();
  auth::PrincipalRef principal;    // the authenticated caller; null: none
  bool stream_errors_end = false;  // metadata triton_grpc_error: an error ends its stream
};

class Call {
 public:
  virtual ~Call() = default;
  virtual const CallInfo& info() const = 0;
  virtual GrpcContext& context() const = 0;
  // Woken when a stream grows; the pump then calls the handler's Pump().
  virtual std::shared_ptr<Waker> waker() const = 0;
  // Sets the operation under which the call is counted, if its method does not determine it. The
  // first value other than `other` counts.
  virtual void CountAs(telemetry::OpKind op) = 0;
  // The client's options for the response cache; and a report of how the cache treated the request,
  // which is sent in the initial metadata.
  virtual const api::CacheControl& cache_control() const = 0;
  virtual std::shared_ptr<api::CacheReport> NewCacheReport() = 0;

  // Called by the handler only, from inside one of its methods.
  virtual void Read() = 0;                                               // then OnMessage or OnEnd
  virtual void Write(const google::protobuf::MessageLite& message) = 0;  // then OnWritten
  virtual void Reply(const google::protobuf::MessageLite& message) = 0;  // the last; then OK
  virtual void Finish(const Status& status) = 0;
};

// The authenticated caller of `call`, which must have one: its method's rule is not kAnybody.
inline api::CallerRef CallerOf(const Call& call) { return auth::CallerOf(*call.info().principal); }

// Handles one call. Destroyed when the call is finished or its client has gone; the destructor
// cancels what is still running for the call.
class CallHandler {
 public:
  explicit CallHandler(Call& call) : call_(call) {}
  virtual ~CallHandler() = default;
  CallHandler(const CallHandler&) = delete;
  CallHandler& operator=(const CallHandler&) = delete;

  virtual void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) = 0;
  virtual void OnEnd() {}      // the client has sent its last message
  virtual void OnWritten() {}  // another message may be written
  virtual void Pump() {}       // something that the handler waits for may be ready
  // When to call Pump() without a wake-up. Read after each event; max(): never.
  virtual TimePoint due() const { return TimePoint::max(); }
  virtual bool waits() const { return false; }  // whether it waits for a waker or for due()
  // Number of received messages whose requests are still being prepared; each occupies a
  // handler place (pump.h).
  virtual int unprepared() const { return 0; }

 protected:
  Call& call_;
};
using HandlerPtr = std::unique_ptr<CallHandler>;

// --- a Status in gRPC's form: code, message, and the details that client libraries read; pure ---

struct WireStatus {
  int code = 0;  // google.rpc.Code
  std::string message;
  std::string reason;   // machine code, the trailer `tutti-error-code`
  std::string details;  // a serialised google.rpc.Status: RetryInfo, ErrorInfo
  std::optional<std::chrono::milliseconds> retry_after;
};

// Uses the table that all servers share (protocol/error.h). An internal error becomes INTERNAL
// without its text.
WireStatus ToWire(const Status& status);

// The public text of an error, for protocols whose errors are only a text.
std::string PublicMessage(const Status& status);

}  // namespace tutti::rpc
