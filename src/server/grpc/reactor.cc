#include "server/grpc/reactor.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "protocol/cache_headers.h"
#include "protocol/error.h"
#include "protocol/http1/compression.h"
#include "protocol/schema/checked_object.h"
#include "server/grpc/call.h"
#include "server/grpc/router.h"
#include "services/auth/authenticator.h"
#include "services/auth/principal.h"

namespace tutti::rpc {
namespace {

// The compression of a received message. The library does not inflate it (grpc_server.cc); this
// server does, with a size limit. The C++ class hides the compression, which the C type has; the
// class consists of a pointer to that type only, as its own header also asserts.
std::optional<protocol::Coding> CodingOf(const grpc::ByteBuffer& buffer) {
  static_assert(std::is_standard_layout_v<grpc::ByteBuffer> &&
                sizeof(grpc::ByteBuffer) == sizeof(grpc_byte_buffer*));
  const grpc_byte_buffer* raw = *reinterpret_cast<grpc_byte_buffer* const*>(&buffer);
  if (raw == nullptr || raw->type != GRPC_BB_RAW) return std::nullopt;
  if (raw->data.raw.compression == GRPC_COMPRESS_GZIP) return protocol::Coding::kGzip;
  if (raw->data.raw.compression == GRPC_COMPRESS_DEFLATE) return protocol::Coding::kDeflate;
  return std::nullopt;
}

std::string Joined(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (!buffer.Dump(&slices).ok()) return all;
  all.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

grpc::ByteBuffer Serialised(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer buffer;
  bool own = false;
  (void)grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
      message, &buffer, &own);  // this server's own message always fits
  return buffer;
}

std::optional<std::string> Metadata(const grpc::GenericCallbackServerContext& call,
                                    const char* name) {
  const auto found = call.client_metadata().find(name);
  if (found == call.client_metadata().end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

// The name in the client certificate of the call's connection, which the library has verified and
// keeps as PEM.
std::optional<auth::CertifiedName> CertificateOf(const grpc::GenericCallbackServerContext& call,
                                                 SeenCertificates& seen) {
  const std::shared_ptr<const grpc::AuthContext> peer = call.auth_context();
  if (peer == nullptr) return std::nullopt;
  const std::vector<grpc::string_ref> shown =
      peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (shown.size() != 1) return std::nullopt;
  return seen.NameOf(std::string_view(shown[0].data(), shown[0].size()));
}

class Reactor final : public grpc::ServerGenericBidiReactor, public Call, public Pumped {
 public:
  Reactor(GrpcContext& context, grpc::GenericCallbackServerContext& call)
      : context_(context), call_(call) {}

  // Decides whether the call is answered at all. Called once, before anything else.
  void Begin(std::shared_ptr<Reactor> self) {
    self_ = std::move(self);
    ReadInfo();
    account_ = context_.accounts.Find(call_.peer());
    const MutexLock lock(mutex_);
    if (account_ != nullptr) account_->CallBegins(MetadataBytes());
    method_ = FindMethod(info_.method);
    if (method_ != nullptr) op_ = method_->op;
    if (info_.principal == nullptr && (method_ == nullptr || !method_->open)) return End(unknown_);
    if (method_ == nullptr) {
      return End(
          Status(StatusCode::kUnimplemented, "not_implemented", "this server has no such method"));
    }
    if (!method_->open) {
      if (Status refusal = auth::MayUse(*info_.principal, method_->rule); !refusal.ok())
        return End(refusal);
    }
    if (!method_->watches) {
      counted_ = true;
      context_.active.fetch_add(1);
    }
    if (context_.draining.load()) {
      return End(Draining());
    }
    context_.pump.Watch(self_);
    exchange_ = method_->make(*this);
    Read();
  }

  // --- Call ---
  const CallInfo& info() const override { return info_; }
  GrpcContext& context() const override { return context_; }
  std::shared_ptr<Waker> waker() const override { return context_.pump.waker(); }
  void CountAs(telemetry::OpKind op) override {
    if (op_ == telemetry::OpKind::kOther) op_ = op;
  }
  const api::CacheControl& cache_control() const override { return cache_control_; }
  std::shared_ptr<api::CacheReport> NewCacheReport() override {
    cache_reports_.push_back(std::make_shared<api::CacheReport>());
    return cache_reports_.back();
  }

  void Read() override {
    if (ended_) return;
    unread_ = true;
    if (account_ != nullptr && !expects_ && !method_->open) {  // requests of open methods are small
      expects_ = true;
      account_->ReadsBegin();
    }
    StartRead(&incoming_);
  }
  void Write(const google::protobuf::MessageLite& message) override {
    if (ended_) return;
    outgoing_ = Serialised(message);
    WriteBegins();
    StartWrite(&outgoing_);
  }
  void Reply(const google::protobuf::MessageLite& message) override {
    if (ended_) return;
    ended_ = true;
    Measure();
    outgoing_ = Serialised(message);
    WriteBegins();
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Finish(const Status& status) override { End(status); }

  // --- what happens to the call; each on some thread of the library ---
  void OnReadDone(bool ok) override {
    const MutexLock lock(mutex_);
    if (ok || !ended_) unread_ = false;
    if (ok && account_ != nullptr) account_->MessageCame(static_cast<int64_t>(incoming_.Length()));
    if (exchange_ == nullptr) return;
    if (!ok) {
      Run([](CallHandler& exchange) { exchange.OnEnd(); });
      return;
    }
    if (!method_->handled) return Take();
    const auto bytes = static_cast<int64_t>(incoming_.Length());
    switch (context_.handlers.Enter(
        bytes, [self = self_] { self->TakeWaiting(); }, &ticket_)) {
      case Handlers::Entered::kNow:
        ++handlers_;
        return Take();
      case Handlers::Entered::kWait:
        in_line_ = true;
        return;
      case Handlers::Entered::kFull:
        incoming_.Clear();
        End(Unavailable("queue_full", "too many calls wait to be prepared; try again"));
        return Settle();
    }
  }

  void OnWriteDone(bool ok) override {
    const MutexLock lock(mutex_);
    outgoing_.Clear();
    writing_ = false;
    if (exchange_ == nullptr || ended_) return;
    if (!ok) {  // the client has gone
      End(Status(StatusCode::kCancelled, "cancelled", "the client has gone"));
      return Settle();
    }
    Run([](CallHandler& exchange) { exchange.OnWritten(); });
  }

  void OnCancel() override {
    const MutexLock lock(mutex_);
    const TimePoint now = context_.deps.clock->Now();
    const bool late = info_.deadline <= now;
    if (account_ != nullptr) account_->Reset(now - info_.start, now);
    End(late ? Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                      "the deadline passed before the request was answered")
             : Status(StatusCode::kCancelled, "cancelled", "the client has gone"));
    Settle();
  }

  void OnDone() override {
    std::shared_ptr<Reactor> self;  // the last reference may go at the end
    {
      const MutexLock lock(mutex_);
      ended_ = true;
      writing_ = false;
      done_ = true;
      Settle();
      self = std::move(self_);
    }
    context_.pump.Unwatch(this);
    Account();
  }

  // --- Pumped ---
  TimePoint PumpOnce() override {
    const MutexLock lock(mutex_);
    if (exchange_ == nullptr) return TimePoint::max();
    due_ = TimePoint::min();  // the return value carries the next due time
    Run([](CallHandler& exchange) { exchange.Pump(); });
    due_ = exchange_ == nullptr ? TimePoint::max() : exchange_->due();
    return due_;
  }

  // Cancels calls whose client does not read, because unread messages hold memory, and the request
  // occupies the model.
  void Sweep() override {
    const MutexLock lock(mutex_);
    const GrpcLimits& limits = context_.options.limits;
    const bool idle = exchange_ != nullptr && !exchange_->waits() && !writing_ && !in_line_;
    if (idle && context_.draining.load()) {  // no work of this call is pending
      End(Draining());
      return Settle();
    }
    if (done_ || !writing_ || context_.deps.clock->Now() - write_began_ < limits.reader_stall)
      return;
    writing_ = false;
    if (context_.deps.metrics != nullptr) {
      context_.deps.metrics->SlowReaderCancelled(telemetry::ServerKind::kGrpc);
    }
    call_.TryCancel();
  }

 private:
  void SendCacheHeaders() {
    std::vector<std::pair<std::string, std::string>> fields;
    protocol::AppendCacheHeaders(cache_reports_, &fields);
    cache_reports_.clear();
    for (const auto& [name, value] : fields) call_.AddInitialMetadata(AsciiLower(name), value);
  }

  void WriteBegins() {
    SendCacheHeaders();
    writing_ = true;
    write_began_ = context_.deps.clock->Now();
    if (account_ != nullptr) account_->Written(static_cast<int64_t>(outgoing_.Length()));
  }

  void ReadInfo() {
    info_.method = call_.method();
    info_.start = context_.deps.clock->Now();
    info_.deadline = Deadline();
    std::vector<std::string_view> keys;
    const auto [first, last] = call_.client_metadata().equal_range("authorization");
    for (auto it = first; it != last; ++it) keys.emplace_back(it->second.data(), it->second.size());
    std::optional<auth::CertifiedName> certificate;  // read if there is no other credential
    if (keys.empty() && !context_.options.tls_client_ca_file.empty())
      certificate = CertificateOf(call_, context_.certificates);
    const auth::PresentedCredentials shown{
        .authorization = keys, .certificate = certificate.has_value() ? &*certificate : nullptr};
    Result<auth::PrincipalRef> who =
        auth::ResolveCaller(*context_.deps.authority, context_.loopback, shown, std::time(nullptr));
    if (who.ok()) {
      info_.principal = *std::move(who);
    } else {
      unknown_ = std::move(who).status();
      claim_ = auth::ClaimOf(shown);
    }
    const std::optional<std::string> id = Metadata(call_, "x-request-id");
    info_.request_id = id.has_value() && protocol::IsRequestId(*id) ? *id : context_.NewRequestId();
    info_.trace_context = ReadTraceContext(Metadata(call_, "traceparent").value_or(""),
                                           Metadata(call_, "tracestate").value_or(""));
    const auto [wish, last_wish] = call_.client_metadata().equal_range("cache-control");
    std::string wishes;
    for (auto it = wish; it != last_wish; ++it)
      wishes += "," + std::string(it->second.data(), it->second.size());
    cache_control_ = protocol::ReadCacheControl(wishes);
    if (const auto similarity = Metadata(call_, "x-cache-similarity"))
      cache_control_.least_similarity = protocol::ReadSimilarity(*similarity);
    info_.stream_errors_end = Metadata(call_, "triton_grpc_error") == "true";
    call_.AddTrailingMetadata("x-request-id", info_.request_id);
  }

  int64_t MetadataBytes() const {
    size_t bytes = info_.method.size();
    for (const auto& [name, value] : call_.client_metadata()) bytes += name.size() + value.size();
    return static_cast<int64_t>(bytes);
  }

  // The C++ time point cannot hold every deadline that a client can send, so the C type is read.
  TimePoint Deadline() const {
    const gpr_timespec until = gpr_convert_clock_type(call_.raw_deadline(), GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(until, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return TimePoint::max();
    const gpr_timespec left = gpr_time_sub(until, gpr_now(GPR_CLOCK_MONOTONIC));
    const Duration cap = context_.options.limits.deadline_cap;
    if (left.tv_sec >= std::chrono::duration_cast<std::chrono::seconds>(cap).count()) {
      return info_.start + cap;
    }
    if (left.tv_sec < 0) return info_.start;
    return info_.start + std::chrono::seconds(left.tv_sec) + Duration(left.tv_nsec);
  }

  // Passes the message to the call handler; the handler's place stays with this call.
  void Take() REQUIRES(mutex_) {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    if (context_.deps.clock->Now() >= info_.deadline) {
      End(ExpiredDeadline());
      return Settle();
    }
    const std::optional<protocol::Coding> coding = CodingOf(message);
    Run([&](CallHandler& exchange) {
      if (coding.has_value()) {
        Result<std::string> inflated = protocol::Inflate(
            *coding, Joined(message), static_cast<size_t>(context_.options.limits.message_bytes));
        message.Clear();
        if (!inflated.ok()) return Finish(inflated.status());
        google::protobuf::io::ArrayInputStream stream(inflated->data(),
                                                      static_cast<int>(inflated->size()));
        return exchange.OnMessage(stream);
      }
      grpc::ProtoBufferReader stream(&message);
      exchange.OnMessage(stream);
    });
  }

  // Called on the pump when a handler is free for the waiting message.
  void TakeWaiting() {
    const MutexLock lock(mutex_);
    ++handlers_;
    in_line_ = false;
    if (exchange_ == nullptr) return Settle();
    Take();
  }

  template <typename Event>
  void Run(const Event& event) REQUIRES(mutex_) {
    try {
      event(*exchange_);
    } catch (const std::bad_alloc&) {
      End(OutOfMemory());
    }
    Settle();
  }

  // Updates the state after an event: destroys the handler of an ended call, returns handler
  // places that are no longer needed, and gives the pump the next due time.
  void Settle() REQUIRES(mutex_) {
    if (ended_) {
      exchange_.reset();
      if (in_line_) {
        context_.handlers.Forget(ticket_);
        incoming_.Clear();
        in_line_ = false;
      }
    }
    const int needed = exchange_ == nullptr ? 0 : exchange_->unprepared();
    for (; handlers_ > needed; --handlers_) context_.handlers.Leave();
    const bool waits = exchange_ != nullptr && exchange_->waits();
    if (waits && exchange_->due() < due_) {  // earlier than the pump knows
      due_ = exchange_->due();
      context_.pump.Wake();
    }
    if (waits == pumped_) return;
    pumped_ = waits;
    if (waits) {
      context_.pump.Add(self_);
    } else {
      context_.pump.Remove(this);
    }
  }

  void End(const Status& status) {
    if (ended_) return;
    ended_ = true;
    const WireStatus out = ToWire(status);
    code_ = out.code;
    reason_ = out.reason;
    Measure();
    if (status.ok()) return grpc::ServerGenericBidiReactor::Finish(grpc::Status::OK);
    if (context_.deps.errors != nullptr && status.code() != StatusCode::kCancelled) {
      context_.deps.errors->Add(
          {.unix_ms = UnixMillis(),
           .request_id = info_.request_id,
           .route = std::string(method_ == nullptr ? std::string_view("-") : method_->path),
           .code = out.reason,
           .status = protocol::ViewError(status).http,
           .message = status.message()});
    }
    call_.AddTrailingMetadata("tutti-error-code", out.reason);
    grpc::ServerGenericBidiReactor::Finish(
        grpc::Status(static_cast<grpc::StatusCode>(out.code), out.message, out.details));
  }

  // Called before the answer is sent, so that a client which has the answer finds it counted.
  void Measure() {
    if (method_ == nullptr || !method_->measured) return;
    context_.window.Record(method_->path, context_.deps.clock->Now() - info_.start, code_ == 0);
  }

  // After the end: log and metrics.
  void Account() {
    const Duration took = context_.deps.clock->Now() - info_.start;
    if (counted_) context_.active.fetch_sub(1);
    if (account_ != nullptr && unread_ && info_.principal != nullptr) account_->MessageLost();
    if (expects_) account_->ReadsEnd();
    if (account_ != nullptr) account_->CallEnds();
    if (telemetry::ServerMetrics* metrics = context_.deps.metrics) {
      metrics->ServerRequest(telemetry::ServerKind::kGrpc, op_, code_, took);
      if (code_ != 0 && code_ != 1) metrics->RequestRejected(reason_);
    }
    Logger* log = context_.deps.log;
    if (log == nullptr || !context_.options.access_log || (method_ != nullptr && method_->watches))
      return;
    log->Info("grpc.request",
              {{"id", info_.request_id},
               {"method", method_ == nullptr ? std::string_view("-") : method_->path},
               {"code", code_},
               {"reason", reason_.empty() ? "-" : reason_},
               {"ms", ToMillis(took)},
               {"caller", auth::LogNameOf(info_.principal, claim_)},
               {"tenant", auth::LogTenantOf(info_.principal)}});
  }

  GrpcContext& context_;
  grpc::GenericCallbackServerContext& call_;  // until OnDone
  CallInfo info_;
  Status unknown_;           // why there is no principal
  std::string claim_ = "-";  // the claimed identity; for the log
  const Method* method_ = nullptr;
  telemetry::OpKind op_ = telemetry::OpKind::kOther;
  std::shared_ptr<ConnectionAccount> account_;  // of its connection; null when that has ended
  Mutex mutex_;
  std::shared_ptr<Reactor> self_;          // until OnDone
  std::unique_ptr<CallHandler> exchange_;  // until the end
  api::CacheControl cache_control_;
  std::vector<std::shared_ptr<api::CacheReport>> cache_reports_;  // until the first message
  bool ended_ = false;                                            // the status is on its way
  bool done_ = false;  // the library has no more of the call
  bool counted_ = false;
  bool expects_ = false;  // expects messages, as reported to the account
  bool unread_ = true;    // an unread message may be on its way
  bool pumped_ = false;
  TimePoint due_ = TimePoint::max();  // as the pump knows it
  bool in_line_ = false;              // a message waits for a handler
  uint64_t ticket_ = 0;               // place in that line
  int handlers_ = 0;                  // held by this call
  bool writing_ = false;              // a message is on its way
  TimePoint write_began_;
  int code_ = 0;
  std::string reason_;
  grpc::ByteBuffer incoming_, outgoing_;  // of the read and the write that are under way
};

}  // namespace

grpc::ServerGenericBidiReactor* CallService::CreateReactor(
    grpc::GenericCallbackServerContext* call) {
  auto reactor = std::make_shared<Reactor>(context_, *call);
  Reactor* raw = reactor.get();
  raw->Begin(std::move(reactor));
  return raw;
}

}  // namespace tutti::rpc
