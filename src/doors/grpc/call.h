// A call as the services see it: messages in, messages out, one status at the end.
//
// A Call belongs to the gRPC library and its Exchange to the call. Everything that happens to a
// call happens under its lock, one thing after the other: an exchange needs none of its own. No
// type of the gRPC library stands here.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_cache.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/auth/principal.h"
#include "telemetry/labels.h"

namespace tutti::rpc {

struct DoorContext;

// What is known of a call when it comes.
struct CallInfo {
  std::string method;      // "/inference.GRPCInferenceService/ModelInfer"
  std::string request_id;  // the client's, or one of ours; also a trailer
  TimePoint start;
  TimePoint deadline = TimePoint::max();
  auth::PrincipalRef principal;    // who asks; null: nobody whom the server knows
  bool stream_errors_end = false;  // metadata triton_grpc_error: an error ends its stream
};

class Call {
 public:
  virtual ~Call() = default;
  virtual const CallInfo& info() const = 0;
  virtual DoorContext& context() const = 0;
  // Told of growing streams; the pump then calls the exchange's Pump().
  virtual std::shared_ptr<api::StreamWaker> waker() const = 0;
  // What the call is counted as, where its method does not tell; the first that is not `other`.
  virtual void CountAs(telemetry::OpKind op) = 0;
  // What a client wishes of kept answers; and where what became of its request there is told: with
  // the metadata in front of the call's first message.
  virtual const api::CacheControl& cache_control() const = 0;
  virtual std::shared_ptr<api::CacheReport> NewCacheReport() = 0;

  // Each of these is for the exchange, from inside one of its methods.
  virtual void Read() = 0;                                               // then OnMessage or OnEnd
  virtual void Write(const google::protobuf::MessageLite& message) = 0;  // then OnWritten
  virtual void Reply(const google::protobuf::MessageLite& message) = 0;  // the last, and OK
  virtual void Finish(const Status& status) = 0;
};

// What answers one call. Destroyed when the call is finished or its client has gone, which cancels
// what it still holds.
class Exchange {
 public:
  explicit Exchange(Call& call) : call_(call) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) = 0;
  virtual void OnEnd() {}      // the client has sent its last message
  virtual void OnWritten() {}  // another may be written
  virtual void Pump() {}       // something that it waits for may have come
  // When to pump although nobody was woken. Asked after each event; max() = not at all.
  virtual TimePoint due() const { return TimePoint::max(); }
  virtual bool waits() const { return false; }  // for a waker or for due()
  // Messages taken whose requests are still being prepared behind: each keeps its handler.
  virtual int unprepared() const { return 0; }

 protected:
  Call& call_;
};

}  // namespace tutti::rpc
