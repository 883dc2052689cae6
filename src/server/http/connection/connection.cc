#include "server/http/connection/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <new>

#include "base/memory_reserve.h"
#include "protocol/response_writer.h"

namespace tutti::http {
namespace {

constexpr Duration kLingerTime = std::chrono::seconds(2);
constexpr uint64_t kLingerBytes = 1 << 20;
// Through a relay that closes both halves one after the other, it takes two writes to detect that
// the client has left.
constexpr Duration kProbeTime = std::chrono::seconds(1);
constexpr size_t kMaxPipelined = 64 << 10;  // of further requests, read while one is answered
// Streams stop at `unsent_bytes`. Immediate answers may use this multiple of it, so that a slow
// reader can still send messages, such as a cancel.
constexpr size_t kFullTunnel = 4;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr size_t kLargeAnswer = 256 << 10;  // above it copying takes longer than a packet more
constexpr size_t kSmallBody = 64 << 10;     // read to its end even when the request is refused

void FreeLarge(std::string* buffer) {
  if (buffer->capacity() > kLargeAnswer) std::string().swap(*buffer);
}

}  // namespace

Connection::Connection(std::shared_ptr<IoLoop> loop, ServerContext& context,
                       std::shared_ptr<sockets::Transport> transport, std::string peer)
    : loop_(std::move(loop)),
      context_(context),
      transport_(std::move(transport)),
      request_context_(context, *loop_, request_, peer),
      peer_(std::move(peer)),
      body_share_(&context.memory_budget),
      answer_share_(&context.memory_budget) {}

Connection::~Connection() = default;

void Connection::Start() {
  phase_start_ = loop_->clock().Now();
  shaking_hands_ = true;
  Reschedule();
  transport_->Handshake([self = shared_from_this()](bool ok, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    if (!ok) {
      self->NoteHandshake();
      return self->Close(false);
    }
    if (auto shown = self->transport_->Certificate())
      self->certificate_ = {.name = std::move(shown->name), .expires_s = shown->expires_s};
    self->shaking_hands_ = false;
    self->phase_start_ = self->loop_->clock().Now();
    self->Read();
  });
}

void Connection::NoteHandshake() {
  const std::string fault = transport_->HandshakeFault();
  if (fault.empty() || context_.deps.log == nullptr || !context_.options.access_log) return;
  // The rate of these lines is limited, because scanners and misconfigured clients retry endlessly.
  const std::optional<int64_t> unreported = context_.handshake_lines.Next(loop_->clock().Now());
  if (!unreported.has_value()) return;
  context_.deps.log->Info("tls.handshake_failed",
                          {{"peer", peer_}, {"why", fault}, {"suppressed", *unreported}});
}

void Connection::Abort() { Close(true); }

void Connection::Drain() {
  if (phase_ == Phase::kIdle) return Close(false);
  if (tunnel_) RunHandler([this] { handler_->OnDrain(); });
}

// --- reading ---

void Connection::Read() {
  if (reading_ || peer_done_ || phase_ == Phase::kClosed) return;
  reading_ = true;
  try {
    transport_->ReadSome(read_buffer_.data(), read_buffer_.size(),
                         [self = shared_from_this()](bool ok, size_t bytes) {
                           self->reading_ = false;
                           self->OnRead(ok, bytes);
                         });
  } catch (const std::bad_alloc&) {  // no later event would reach this client
    Close(true);
  }
}

void Connection::OnRead(bool ok, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (!ok) {
    peer_done_ = true;
    return OnPeerDone();
  }
  if (phase_ == Phase::kLingering) {
    lingered_bytes_ += bytes;
    if (lingered_bytes_ > kLingerBytes) return Close(true);
    return Read();
  }
  try {
    TakeIn(bytes);
  } catch (const std::bad_alloc&) {
    GiveUp(OutOfMemory());
  }
  if (phase_ != Phase::kClosed && !TunnelIsFull() && !UploadIsFull()) Read();
}

void Connection::TakeIn(size_t bytes) {
  if (tunnel_ && phase_ != Phase::kBusy) return;  // the tunnel has ended
  input_.append(read_buffer_.data(), bytes);
  if (tunnel_) return FeedTunnel();
  if (phase_ == Phase::kBusy || phase_ == Phase::kFlushing) {
    if (input_.size() > kMaxPipelined) Close(true);
  } else {
    Advance();
  }
}

void Connection::FeedTunnel() {
  RunHandler([this] { input_.erase(0, handler_->OnBytes(input_)); });
}

void Connection::ReadOn() {
  boost::asio::post(loop_->context(), [self = shared_from_this()] {
    if (self->phase_ != Phase::kBusy) return;
    self->FeedTunnel();
    if (!self->TunnelIsFull()) self->Read();
  });
}

bool Connection::TunnelIsFull() const {
  return tunnel_ && phase_ == Phase::kBusy &&
         (!input_.empty() || unsent_ >= kFullTunnel * context_.options.limits.unsent_bytes);
}

bool Connection::UploadIsFull() const {
  return phase_ == Phase::kUpload && handler_ != nullptr && !handler_->WantsBody();
}

void Connection::ReadBody() {
  if (phase_ == Phase::kUpload) Read();
}

void Connection::OnPeerDone() {
  switch (phase_) {
    case Phase::kBusy:
      if (tunnel_) return Close(false);
      return AwaitGone();
    case Phase::kIdle:  // a whole request may wait for its turn
    case Phase::kHead:
    case Phase::kBody:
    case Phase::kUpload:
      try {
        return Advance();
      } catch (const std::bad_alloc&) {
        return GiveUp(OutOfMemory());
      }
    case Phase::kFlushing:
    case Phase::kClosed:
      return;
    case Phase::kLingering:
      return Close(false);
  }
}

void Connection::AwaitGone() {
  // An HTTP/1.0 client may receive nothing before the answer, so its half-close counts as leaving.
  if (request_.http_1_0 && status_ == 0) return Close(true);
  if (!std::exchange(awaiting_gone_, true)) {
    transport_->AwaitGone(context_.options.limits.reader_stall, [self = shared_from_this()] {
      self->Close(self->phase_ == Phase::kBusy);
    });
  }
  Probe();
  Reschedule();
}

// Streamed data also serves as a probe.
TimePoint Connection::ProbeDue() const { return std::max(probed_, last_send_) + kProbeTime; }

void Connection::Probe() {
  probed_ = loop_->clock().Now();
  if (write_in_flight_) return;  // the pending write serves as a probe
  if (streaming_) {
    if (handler_ == nullptr || handler_->StreamsEvents()) Send(protocol::kSsePing);
    return;  // else the streamed data serves as a probe
  }
  // HTTP/1.1 allows any number of 100 responses before the answer (RFC 9110 15.2).
  pending_ += kContinue;
  Write();
}

void Connection::Advance() {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody ||
         phase_ == Phase::kUpload) {
    if (phase_ == Phase::kIdle) {
      // Old clients send an empty line before a request (RFC 9112 2.2).
      if (input_.starts_with("\r\n")) input_.erase(0, 2);
      if (input_.empty() || input_ == "\r") break;
      phase_ = Phase::kHead;
      phase_start_ = loop_->clock().Now();
      request_context_.Begin(phase_start_);
      protocol::FramingLimits framing = context_.options.limits.framing;
      framing.body_bytes = std::max(framing.body_bytes, context_.options.limits.upload_bytes);
      parser_ = std::make_unique<MessageParser>(framing);
    }
    const size_t used = parser_->Feed(input_);
    input_.erase(0, used);
    if (!parser_->fault().ok()) {
      close_after_ = true;
      handler_.reset();  // of an upload
      return Refuse(parser_->fault());
    }
    if (phase_ == Phase::kHead && parser_->head_done()) OnHead();
    if (phase_ == Phase::kUpload) {
      FeedUpload();
      if (phase_ != Phase::kUpload) continue;
      if (peer_done_) return Close(false);
      break;  // more bytes are needed
    }
    if (phase_ == Phase::kBody && !refused_.has_value() && !ReserveBody()) return;
    if (phase_ == Phase::kBody && parser_->done()) {
      OnMessage();
    } else if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
      if (peer_done_) return Close(false);
      break;  // more bytes are needed
    }
  }
  if (peer_done_ && phase_ == Phase::kIdle) return Close(false);
  Reschedule();
}

void Connection::OnHead() {
  phase_ = Phase::kBody;
  phase_start_ = loop_->clock().Now();
  request_context_.OnHead(parser_->head(), certificate_.has_value() ? &*certificate_ : nullptr);
  const Decision& decision = request_context_.decision();
  const bool upload =
      decision.refusal.ok() && !decision.options && decision.route->body == BodyKind::kUpload;
  const HttpLimits& limits = context_.options.limits;
  // If the request is refused for another reason, that reason takes precedence.
  if (decision.refusal.ok() && !upload) parser_->LimitBody(limits.framing.body_bytes);
  if (!parser_->fault().ok()) {
    close_after_ = true;
    return Refuse(parser_->fault());
  }
  const std::string* expect = parser_->head().Find("expect");
  const bool waits = expect != nullptr && !parser_->head().http_1_0 && parser_->has_body() &&
                     input_.empty() && parser_->body_bytes() == 0;
  if (upload) {
    request_ = parser_->head();
    if (!request_.keep_alive) close_after_ = true;
    BeginHandler(Phase::kUpload);
    if (phase_ != Phase::kUpload) return;  // it is answered without its body
  }
  if (decision.refusal.ok()) {
    if (waits) {
      pending_ += kContinue;
      Write();
    }
    return;
  }
  refused_ = decision.refusal;
  // Reads a small body to its end, so that the connection can be reused; a large one is not worth
  // it.
  if (waits || parser_->chunked() || parser_->announced_body() > kSmallBody) {
    close_after_ = true;
    Refuse(*refused_);
  }
}

bool Connection::ReserveBody() {
  const auto wanted =
      static_cast<int64_t>(std::max(parser_->announced_body(), parser_->body_bytes()));
  if (body_share_.GrowTo(wanted)) return true;
  close_after_ = true;
  Refuse(Unavailable("overloaded", "too many large requests are being read"));
  return false;
}

Connection::Body Connection::TakeBody() {
  return {std::move(request_.body),
          std::exchange(body_share_, BudgetShare(&context_.memory_budget))};
}

void Connection::PutBack(Body body) {
  request_.body = std::move(body.text);
  body_share_ = std::move(body.share);
}

void Connection::OnMessage() {
  request_ = parser_->Take();
  parser_.reset();
  if (!request_.keep_alive) close_after_ = true;
  if (refused_.has_value()) return Refuse(*std::exchange(refused_, std::nullopt));
  phase_ = Phase::kBusy;
  request_context_.Activate();
  if (request_context_.decision().options)
    return Respond(204, request_context_.OptionsHeaders(), "");
  BeginHandler(Phase::kBusy);
  if (tunnel_ && !input_.empty()) FeedTunnel();
  if (peer_done_ && phase_ == Phase::kBusy) OnPeerDone();
}

void Connection::BeginHandler(Phase phase) {
  if (phase_ != Phase::kBusy) request_context_.Activate();
  phase_ = phase;
  ++handler_serial_;
  request_context_.SetCaller();
  handler_ = MakeHandler(*request_context_.decision().route, *this);
  RunHandler([this] { handler_->Start(); });
}

// Passes the received part of the body to the handler, which may answer before the body ends.
void Connection::FeedUpload() {
  std::string body = parser_->TakeBody();
  if (!body.empty()) RunHandler([&] { handler_->OnBody(std::move(body)); });
  if (phase_ != Phase::kUpload || !parser_->done()) return;
  phase_ = Phase::kBusy;
  parser_.reset();
  RunHandler([this] { handler_->OnBodyEnd(); });
  if (peer_done_ && phase_ == Phase::kBusy) OnPeerDone();
}

// --- the handler ---

void Connection::RunHandler(const std::function<void()>& call) {
  if (handler_ == nullptr) return;
  const auto self = shared_from_this();
  in_handler_ = true;
  try {
    call();
  } catch (const std::bad_alloc&) {
    in_handler_ = false;
    return GiveUp(OutOfMemory());
  } catch (const std::exception& error) {  // thrown by a library
    in_handler_ = false;
    return GiveUp(Internal(error.what()));
  }
  in_handler_ = false;
  if (finished_ || phase_ == Phase::kClosed) handler_.reset();
  if (phase_ == Phase::kClosed) ReleaseRequest();
  if (finished_ && !write_in_flight_ && pending_.empty()) OnFlushed();
  if (phase_ != Phase::kClosed) Reschedule();
}

// Frees the memory of the request before refusing it, because the answer may need it.
void Connection::GiveUp(Status status) {
  if (phase_ == Phase::kClosed) return;
  close_after_ = true;
  handler_.reset();
  input_ = {};
  if (status_ != 0) return Close(true);  // a part of the answer is already sent
  OpenMemoryReserve();
  try {
    Refuse(std::move(status));
  } catch (const std::exception&) {
    Close(true);
  }
  KeepMemoryReserve();
}

void Connection::Pump() {
  RunHandler([this] { handler_->Pump(); });
}

void Connection::Offload(boost::asio::thread_pool& helper, std::function<Continuation()> work) {
  boost::asio::post(helper, [self = shared_from_this(), serial = handler_serial_.load(),
                             then_here = Return(), work = std::move(work)]() mutable {
    if (self->handler_serial_.load() != serial) return;
    KeepMemoryReserve();
    Continuation then;
    try {
      then = work();
    } catch (...) {
      work = nullptr;  // and what it holds
      UntilMemory([&] {
        then = [failure = std::current_exception()] { std::rethrow_exception(failure); };
      });
    }
    then_here(std::move(then));
  });
}

std::function<void(Connection::Continuation)> Connection::Return() {
  return [self = shared_from_this(), serial = handler_serial_.load()](const Continuation& then) {
    UntilMemory([&] {
      boost::asio::post(self->loop_->context(), [self, serial, then] {
        if (self->handler_ != nullptr && self->handler_serial_.load() == serial) {
          self->RunHandler(then);
        }
      });
    });
  };
}

// --- the answer ---

void Connection::WriteHead(HeadSpec head) {
  request_context_.AddHeaders(&head.headers);
  // An answer during an upload precedes the end of the body, the rest of which is not read.
  if (context_.draining.load() || phase_ == Phase::kUpload) close_after_ = true;
  head.keep_alive = !close_after_ || tunnel_;  // a tunnel sets its own Connection field
  head.http_1_0 = request_.http_1_0;
  status_ = head.status;
  pending_ += SerializeHead(head);
}

void Connection::Respond(int status, HeaderList headers, std::string body) {
  if (handler_ != nullptr) handler_->OnAnswer(status, headers, body);
  HeadSpec head{status, std::move(headers), BodyFraming::kLength, body.size()};
  if (status == 204 || status == 304) head.framing = BodyFraming::kNone;
  WriteHead(std::move(head));
  if (!request_context_.decision().head_only) {
    unsent_ += body.size();
    sent_bytes_ += body.size();
    if (body.size() > kLargeAnswer) Write();  // sends the head first: the body is not copied
    if (pending_.empty()) {
      pending_ = std::move(body);
    } else {
      pending_ += body;
    }
  }
  Finish();
}

void Connection::RespondError(const Status& status, Origin origin,
                              std::optional<protocol::ContextNumbers> numbers) {
  const protocol::ErrorView error = request_context_.MakeErrorView(status, origin);
  if (const auto excess = status.excess(); excess && error.code == "context_length_exceeded") {
    numbers = {static_cast<int>(excess->asked), static_cast<int>(excess->most)};
  }
  Respond(error.http, request_context_.ErrorHeaders(error), protocol::ErrorBody(error, numbers));
}

void Connection::Refuse(Status status) {
  if (!AsksHandler()) request_context_.Activate();
  phase_ = Phase::kBusy;
  request_context_.RequireId();
  if (parser_ != nullptr && parser_->head_done()) {
    request_ = parser_->head();
  } else if (parser_ != nullptr) {
    // A malformed request may be the rest of a body with too small a Content-Length: only what
    // looks like a request line is logged.
    const auto [method, target] = parser_->first_line();
    if (IsKnownMethod(method)) {
      request_.method = method;
      request_.target = target;
    }
  }
  refused_.reset();
  RespondError(status);
}

void Connection::BeginStream(int status, HeaderList headers) {
  HeadSpec head{status, std::move(headers), BodyFraming::kChunked};
  if (request_.http_1_0) {
    head.framing = BodyFraming::kUntilClose;
    close_after_ = true;
  }
  if (request_context_.decision().head_only) head.framing = BodyFraming::kNone;
  framing_ = head.framing;
  streaming_ = true;
  last_progress_ = last_send_ = loop_->clock().Now();
  if (context_.deps.serving != nullptr)
    context_.deps.serving->StreamsOpen(telemetry::ServerKind::kHttp, 1);
  WriteHead(std::move(head));
}

void Connection::BeginTunnel(HeaderList headers) {
  tunnel_ = streaming_ = close_after_ = true;
  framing_ = BodyFraming::kUntilClose;
  last_progress_ = last_send_ = loop_->clock().Now();
  if (context_.deps.serving != nullptr)
    context_.deps.serving->StreamsOpen(telemetry::ServerKind::kHttp, 1);
  WriteHead({101, std::move(headers), framing_});
  WatchStreams(true);
  Write();
}

void Connection::Send(std::string_view data) {
  if (data.empty()) return;
  last_send_ = loop_->clock().Now();
  unsent_ += data.size();
  sent_bytes_ += data.size();
  if (framing_ == BodyFraming::kChunked) {
    AppendChunk(data, &pending_);
  } else {
    pending_ += data;
  }
  Write();
}

void Connection::EndStream() {
  if (framing_ == BodyFraming::kChunked) pending_ += kLastChunk;
  Finish();
}

void Connection::Finish() {
  finished_ = true;
  finished_at_ = loop_->clock().Now();
  phase_ = Phase::kFlushing;
  loop_->SetStreaming(this, false);
  request_context_.Account(status_, streaming_, sent_bytes_);
  body_share_.Release();
  Write();
  // Inside a call of the handler, the caller continues; without a handler, the answer may
  // already be sent completely.
  if (!in_handler_ && !write_in_flight_ && pending_.empty()) OnFlushed();
}

// --- writing ---

void Connection::Write() {
  if (write_in_flight_ || phase_ == Phase::kClosed) return;
  if (written_ == writing_.size()) {
    if (pending_.empty()) return;
    writing_.clear();
    writing_.swap(pending_);
    written_ = 0;
    last_progress_ = loop_->clock().Now();
  }
  write_in_flight_ = true;
  Reschedule();
  transport_->WriteSome(writing_.data() + written_, writing_.size() - written_,
                        [self = shared_from_this()](bool ok, size_t bytes) {
                          self->write_in_flight_ = false;
                          self->OnWritten(ok, bytes);
                        });
}

void Connection::OnWritten(bool ok, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (!ok) return Close(true);
  written_ += bytes;
  if (bytes > 0) last_progress_ = loop_->clock().Now();
  const bool drained = written_ == writing_.size();
  if (drained) unsent_ = std::min(unsent_, pending_.size());
  Write();
  if (write_in_flight_ && !drained) return;
  if (finished_ && !write_in_flight_) return OnFlushed();
  if (handler_ != nullptr) Pump();  // room again
  if (tunnel_ && phase_ == Phase::kBusy && !TunnelIsFull()) Read();
}

void Connection::OnFlushed() {
  if (phase_ != Phase::kFlushing || write_in_flight_ || !pending_.empty()) return;
  handler_.reset();
  FreeLarge(&writing_);  // together with their share
  FreeLarge(&pending_);
  written_ = writing_.size();
  answer_share_.Release();
  request_context_.Stage("write", finished_at_);
  if (close_after_ || (peer_done_ && input_.empty())) return Linger();
  NextRequest();
}

void Connection::NextRequest() {
  phase_ = Phase::kIdle;
  phase_start_ = loop_->clock().Now();
  parser_.reset();
  request_ = HttpRequest();
  request_context_.Reset();
  refused_.reset();
  status_ = 0;
  streaming_ = finished_ = false;
  sent_bytes_ = 0;
  unsent_ = 0;
  if (context_.draining.load() && input_.empty()) return Close(false);
  // Through the loop, so that a client with many requests in hand neither nests calls nor starves
  // others.
  boost::asio::post(loop_->context(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->Advance();
  });
  Reschedule();
  Read();
}

// Reads what the peer still sends before closing; otherwise a reset could discard the answer.
void Connection::Linger() {
  transport_->ShutdownSend();
  if (peer_done_) return Close(false);
  phase_ = Phase::kLingering;
  phase_start_ = loop_->clock().Now();
  Reschedule();
  Read();
}

void Connection::ReleaseRequest() {
  request_ = HttpRequest();
  request_context_.Reset();
  refused_.reset();
  input_ = {};
  if (!write_in_flight_) writing_ = {};
  pending_ = {};
}

void Connection::Close(bool reset) {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  if (AsksHandler()) request_context_.Account(tunnel_ ? status_ : 499, streaming_, sent_bytes_);
  phase_ = Phase::kClosed;
  ++handler_serial_;
  body_share_.Release();
  answer_share_.Release();
  if (!in_handler_) {
    handler_.reset();
    // A callback of Later() may hold this connection for as long as a model is being loaded. In a
    // handler's call, references to the request may be in use: then RunHandler() does it.
    ReleaseRequest();
  }
  parser_.reset();
  transport_->Close(reset);
  loop_->Remove(this);
  context_.connections.fetch_sub(1);
  if (context_.on_closed) context_.on_closed();
}

// --- time ---

TimePoint Connection::Due() const {
  const HttpLimits& limits = context_.options.limits;
  TimePoint due = TimePoint::max();
  switch (phase_) {
    case Phase::kIdle:
      due = phase_start_ + (shaking_hands_ ? limits.header_time : limits.idle_time);
      break;
    case Phase::kHead:
      due = phase_start_ + limits.header_time;
      break;
    case Phase::kBody:
    case Phase::kUpload: {
      const double earned_s = static_cast<double>(parser_ == nullptr ? 0 : parser_->body_bytes()) /
                              limits.body_bytes_per_s;
      due = phase_start_ + limits.body_grace + FromSeconds(earned_s);
      break;
    }
    case Phase::kBusy:
      if (handler_ != nullptr) due = handler_->Due();
      if (peer_done_) due = std::min(due, ProbeDue());
      break;
    case Phase::kLingering:
      due = phase_start_ + kLingerTime;
      break;
    case Phase::kFlushing:
    case Phase::kClosed:
      break;
  }
  if (write_in_flight_) due = std::min(due, last_progress_ + limits.reader_stall);
  return due;
}

void Connection::Reschedule() {
  if (phase_ == Phase::kClosed) return;
  if (const TimePoint due = Due(); due != TimePoint::max()) loop_->Schedule(this, due);
}

void Connection::OnTimer(TimePoint now) {
  const auto self = shared_from_this();
  if (Due() > now) return Reschedule();
  if (write_in_flight_ && last_progress_ + context_.options.limits.reader_stall <= now) {
    if (phase_ == Phase::kBusy && context_.deps.serving != nullptr) {
      context_.deps.serving->SlowReaderCancelled(telemetry::ServerKind::kHttp);
    }
    return Close(true);
  }
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kLingering:
      return Close(false);
    case Phase::kHead:
    case Phase::kBody:
    case Phase::kUpload:
      close_after_ = true;
      handler_.reset();  // of an upload
      return Refuse(Status(StatusCode::kDeadlineExceeded, "request_timeout",
                           phase_ == Phase::kHead ? "the header did not arrive in time"
                                                  : "the body arrives too slowly"));
    case Phase::kBusy:
      if (peer_done_ && ProbeDue() <= now) Probe();
      if (handler_ == nullptr || handler_->Due() > now) return Reschedule();
      return RunHandler([this, now] { handler_->OnTimer(now); });
    case Phase::kFlushing:
    case Phase::kClosed:
      return;
  }
}

}  // namespace tutti::http
