// Connection: one client, from accept to close; owned by its IoLoop and used on that thread only.
//
// Reads requests one after the other, gives each to an Exchange and writes what it answers.
// Something is always being read, so that a client that leaves is noticed in every phase; leaving
// destroys the Exchange, and with it the generation. One that only closed its sending side behind
// whole requests gets their answers: what tells them apart is written while an answer is made, and
// resets the connection of one that left. Invariants: one request at a time; at most one write in
// flight; after a framing fault nothing more is read as a request.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "doors/http/door_context.h"
#include "doors/http/exchange.h"
#include "doors/http/io_loop.h"
#include "doors/http/message_parser.h"
#include "doors/http/response.h"
#include "doors/sockets/transport.h"
#include "services/auth/authority.h"
#include "services/auth/principal.h"
#include "wire/error.h"

namespace tutti::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<IoLoop> loop, DoorContext& context,
             std::shared_ptr<sockets::Transport> transport, std::string peer);
  ~Connection();

  void Start();  // the handshake, then the first request
  void Abort();  // closes at once, cancelling what runs
  void Drain();  // closes if it is idle; an exchange that has a tunnel is told

  // --- IoLoop ---
  void Pump();  // streams have grown
  void OnTimer(TimePoint now);
  TimePoint timer_due() const { return timer_due_; }
  void set_timer_due(TimePoint due) { timer_due_ = due; }

  // --- Exchange: the answer. Respond, or BeginStream, Send.., EndStream; or BeginTunnel, and then
  // --- Send and Exchange::OnBytes until EndStream ---
  void Respond(int status, HeaderList headers, std::string body);
  // Refusals of the waist are counted behind it; those of this door, here.
  enum class Origin { kDoor, kWaist };
  void RespondError(const Status& status, Origin origin = Origin::kDoor,
                    std::optional<wire::ContextNumbers> numbers = std::nullopt);
  void BeginStream(int status, HeaderList headers);
  // 101 with `headers`: from now on the bytes of both directions are another protocol's. They are
  // not read while too much waits for the socket.
  void BeginTunnel(HeaderList headers);
  void ReadOn();    // Exchange::OnBytes() is called for what it left
  void ReadBody();  // Exchange::WantsBody() is true again
  void Send(std::string_view data);
  void EndStream();
  size_t unsent() const { return unsent_; }  // body bytes given and not yet taken by the socket
  TimePoint last_send() const { return last_send_; }
  void WatchStreams(bool watch) { loop_->SetStreaming(this, watch); }
  void Reschedule();  // Exchange::Due() may have changed

  // Runs `work` on `helper`, then the continuation it returns here; neither, once the exchange has
  // ended. `work` must not refer to the exchange; the continuation may.
  using Continuation = std::function<void()>;
  void Offload(boost::asio::thread_pool& helper, std::function<Continuation()> work);
  // What others call when they have an answer: from any thread, it runs a continuation here, unless
  // the exchange has ended.
  std::function<void(Continuation)> Return();
  // Counts an answer of so many bytes against the door's memory until it is sent. False: no room.
  bool HoldAnswer(size_t bytes) { return answer_share_.GrowTo(static_cast<int64_t>(bytes)); }
  void HoldAnswer(BudgetShare share) { answer_share_ = std::move(share); }

  const HttpRequest& request() const { return request_; }
  // The body, and its share of the door's memory: both are to be dropped together.
  struct Body {
    std::string text;
    BudgetShare share;
  };
  Body TakeBody();          // once
  void PutBack(Body body);  // as if it had not been taken
  void WillStream() {       // the answer, before anything of it is written
    if (exchange_ != nullptr) exchange_->OnStream();
  }
  const std::string& request_id() const { return request_id_; }
  // Whose responses and dialogs these are.
  const std::string& tenant() const { return caller()->tenant; }
  const api::CallerRef& caller() const { return caller_; }
  // Every request to the waist says who asks, and tells this answer's head what
  // is left of their limits.
  template <typename Request>
  void Sign(Request* request) {
    request->caller = caller_;
    request->rate_limits = rate_limits_;
    if constexpr (requires { request->cache_report; })
      SignForCache(&request->cache, &request->cache_report);
  }
  // Its route, as the ledger of usage names it.
  std::string usage_route() const { return UsageName(*decision_.route); }
  // The body's own id for the request; counts unless the header gave one.
  void AdoptRequestId(const std::string& id);
  // Of the errors of this request, where the route alone does not tell.
  void set_error_form(wire::ErrorForm form) { error_options_.form = form; }
  // Who asks, where the request itself did not have to say it (Decision::asks_later).
  void Identify(auth::PrincipalRef principal);
  // As it is shown in the form of this request; one of ours is logged, one of this door counted.
  wire::ErrorView Shown(const Status& status, Origin origin);
  // What the request is counted as, where its route does not tell.
  void CountAs(telemetry::OpKind op);
  const Decision& decision() const { return decision_; }
  TimePoint request_start() const { return request_start_; }
  std::shared_ptr<IoLoop> loop() const { return loop_; }
  DoorContext& context() { return context_; }
  const wire::ErrorOptions& error_options() const { return error_options_; }

 private:
  enum class Phase {
    kIdle,  // between requests, nothing read yet
    kHead,
    kBody,
    kUpload,     // an exchange takes the body as it comes
    kBusy,       // an exchange answers
    kFlushing,   // all is written but not all sent; then the next request or kLingering
    kLingering,  // our side is shut; what the peer still sends is thrown away
    kClosed,
  };

  void Recognise();  // who asks, from decision_
  void SignForCache(api::CacheControl* control, std::shared_ptr<api::CacheReport>* report);
  void NoteHandshake();  // a line about one that failed
  void Read();
  void OnRead(bool ok, size_t bytes);
  void TakeIn(size_t bytes);  // of read_buffer_; throws std::bad_alloc
  // Ends the request with `status`, or without a word if half an answer stands, and then the
  // connection.
  void GiveUp(Status status);
  void FeedTunnel();
  bool TunnelIsFull() const;
  bool UploadIsFull() const;
  bool AsksExchange() const { return phase_ == Phase::kUpload || phase_ == Phase::kBusy; }
  void OnPeerDone();  // it sends nothing more; whether it reads is to be seen
  void AwaitGone();   // while an exchange answers it
  void Probe();       // writes what only a peer that still reads takes
  TimePoint ProbeDue() const;
  void Advance();  // as far as the bytes read allow
  void OnHead();
  void OnMessage();
  void BeginExchange(Phase phase);
  void FeedUpload();
  // Answers without an exchange. By value: what it answers is among what it resets.
  void Refuse(Status status);
  bool ReserveBody();
  void RunExchange(const std::function<void()>& call);
  void WriteHead(HeadSpec head);
  void Finish();  // the answer is complete
  void Stage(std::string_view stage, TimePoint since);
  void Account(int code);                // the request is no longer active
  void Report(int code, Duration took);  // its log line and metrics; std::bad_alloc
  void Write();
  void OnWritten(bool ok, size_t bytes);
  void OnFlushed();
  void NextRequest();
  void Linger();
  void Close(bool reset);
  TimePoint Due() const;

  const std::shared_ptr<IoLoop> loop_;
  DoorContext& context_;
  const std::shared_ptr<sockets::Transport> transport_;
  const std::string peer_;
  wire::ErrorOptions error_options_;  // its form is the request's

  Phase phase_ = Phase::kIdle;
  TimePoint phase_start_;  // of kIdle, kHead, kBody, kLingering
  TimePoint timer_due_ = TimePoint::max();
  bool shaking_hands_ = false;  // before the first request, over TLS; has the time of a header
  bool reading_ = false, peer_done_ = false, awaiting_gone_ = false;
  TimePoint probed_;  // last
  std::array<char, 16384> read_buffer_;
  std::string input_;  // read, not yet parsed

  std::unique_ptr<MessageParser> parser_;
  HttpRequest request_;
  Decision decision_;
  std::optional<auth::CertifiedName> certificate_;  // what the client showed, over TLS
  // Who asks: made once for all requests of one principal.
  auth::PrincipalRef principal_;
  api::CallerRef caller_;
  std::shared_ptr<api::RateLimits> rate_limits_;  // of this request; null once its head is written
  std::vector<std::shared_ptr<api::CacheReport>> cache_reports_;  // likewise; of each prompt
  std::string request_id_;
  TimePoint request_start_;
  std::optional<Status> refused_;  // answered once the body has been read
  BudgetShare body_share_, answer_share_;
  std::unique_ptr<Exchange> exchange_;
  std::atomic<uint64_t> exchange_serial_{0};  // read by helpers: whom they work for has gone
  bool in_exchange_ = false;

  // the answer
  int status_ = 0;  // 0 = no head written
  bool streaming_ = false, close_after_ = false, finished_ = false;
  bool tunnel_ = false;
  BodyFraming framing_ = BodyFraming::kLength;
  uint64_t sent_bytes_ = 0;
  size_t unsent_ = 0;
  std::string writing_, pending_;  // in flight; waiting
  size_t written_ = 0;             // of writing_
  bool write_in_flight_ = false;
  TimePoint last_progress_, last_send_, finished_at_;
  uint64_t lingered_bytes_ = 0;
};

}  // namespace tutti::http
