// Connection: one client, from accept to close. Owned by its IoLoop, and used on the loop's thread
// only.
//
// Reads requests one at a time, gives each to a Handler and writes the answer. A read is always
// pending, so that a disconnect is noticed in every phase; it destroys the Handler, which cancels
// the generation. A client may close its sending side after complete requests and still get their
// answers; to detect whether it has left entirely, interim bytes are written while an answer is
// computed, which reset the connection of a client that left. Invariants: one request at a time; at
// most one write in flight; after a framing error no more requests are read.
// Long, because every phase reads and changes the same few fields.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "protocol/error.h"
#include "server/http/connection/io_loop.h"
#include "server/http/connection/message_parser.h"
#include "server/http/connection/request_context.h"
#include "server/http/connection/response.h"
#include "server/http/handler.h"
#include "server/http/server_context.h"
#include "server/net/transport.h"
#include "services/auth/authenticator.h"

namespace tutti::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<IoLoop> loop, ServerContext& context,
             std::shared_ptr<sockets::Transport> transport, std::string peer);
  ~Connection();

  void Start();  // the handshake, then the first request
  void Abort();  // closes at once, cancelling what runs
  void Drain();  // closes if idle; notifies a handler that has a tunnel

  // --- IoLoop ---
  void Pump();  // streams have grown
  void OnTimer(TimePoint now);
  TimePoint timer_due() const { return timer_due_; }
  void set_timer_due(TimePoint due) { timer_due_ = due; }

  // --- Handler: the answer. Respond, or BeginStream, Send.., EndStream; or BeginTunnel, and then
  // --- Send and Handler::OnBytes until EndStream ---
  void Respond(int status, HeaderList headers, std::string body);
  using Origin = RequestContext::Origin;
  void RespondError(const Status& status, Origin origin = Origin::kServer,
                    std::optional<protocol::ContextNumbers> numbers = std::nullopt);
  void BeginStream(int status, HeaderList headers);
  // Sends 101 with `headers`: from now on both directions carry another protocol. Input is not read
  // while too much output waits for the socket.
  void BeginTunnel(HeaderList headers);
  void ReadOn();    // calls Handler::OnBytes() for the bytes that it left
  void ReadBody();  // Handler::WantsBody() is true again
  void Send(std::string_view data);
  void EndStream();
  size_t unsent() const { return unsent_; }  // body bytes given and not yet taken by the socket
  TimePoint last_send() const { return last_send_; }
  void WatchStreams(bool watch) { loop_->SetStreaming(this, watch); }
  void Reschedule();  // Handler::Due() may have changed

  // Runs `work` on `helper`, then the continuation that it returns on this thread; runs nothing
  // once the handler has ended. `work` must not refer to the handler; the continuation may.
  using Continuation = std::function<void()>;
  void Offload(boost::asio::thread_pool& helper, std::function<Continuation()> work);
  // Returns a function for callbacks: called from any thread, it runs `then` with its arguments on
  // this thread, unless the handler has ended.
  template <typename Then>
  auto Later(Then then) {
    return [here = Return(), then = std::move(then)](auto... arguments) {
      using Arguments = std::tuple<decltype(arguments)...>;
      here([then, held = std::make_shared<Arguments>(std::move(arguments)...)] {
        std::apply(then, std::move(*held));
      });
    };
  }
  // Counts an answer of `bytes` bytes against the server's memory until it is sent. False: no room.
  bool HoldAnswer(size_t bytes) { return answer_share_.GrowTo(static_cast<int64_t>(bytes)); }
  void HoldAnswer(BudgetShare share) { answer_share_ = std::move(share); }

  const HttpRequest& request() const { return request_; }
  // The body, and its share of the server's memory; both must be released together.
  struct Body {
    std::string text;
    BudgetShare share;
  };
  Body TakeBody();          // once
  void PutBack(Body body);  // undoes TakeBody()
  void WillStream() {       // the answer, before anything of it is written
    if (handler_ != nullptr) handler_->OnStream();
  }
  // The caller and the other properties of the request.
  RequestContext& request_context() { return request_context_; }
  const RequestContext& request_context() const { return request_context_; }
  std::shared_ptr<IoLoop> loop() const { return loop_; }
  ServerContext& context() { return context_; }

 private:
  //   kIdle -> kHead -+-> kBody ---+-> kBusy -> kFlushing -+-> kIdle, for the next request
  //      ^            +-> kUpload -+                       +-> kLingering -> kClosed
  //
  // An answer may begin in kUpload too. Errors of the socket and Abort() lead from any phase to
  // kClosed; what cannot be parsed goes to kBusy, is refused, and the connection then lingers.
  enum class Phase {
    kIdle,  // between requests, nothing read yet
    kHead,
    kBody,
    kUpload,     // a handler takes the body as it comes
    kBusy,       // a handler answers
    kFlushing,   // everything is written, not everything sent; then the next request or kLingering
    kLingering,  // the sending side is shut; received bytes are dropped
    kClosed,
  };

  std::function<void(Continuation)> Return();  // as Later(), for any continuation
  void NoteHandshake();                        // logs a failed handshake
  void Read();
  void OnRead(bool ok, size_t bytes);
  void TakeIn(size_t bytes);  // of read_buffer_; throws std::bad_alloc
  // Ends the request with `status`, or silently if a part of the answer is already sent, and then
  // the connection.
  void GiveUp(Status status);
  void FeedTunnel();
  bool TunnelIsFull() const;
  bool UploadIsFull() const;
  bool AsksHandler() const { return phase_ == Phase::kUpload || phase_ == Phase::kBusy; }
  void OnPeerDone();  // the peer has shut its sending side; it may still read
  void AwaitGone();   // while a handler runs
  void Probe();       // writes interim bytes, which a disconnected peer answers with a reset
  TimePoint ProbeDue() const;
  void Advance();  // processes the bytes that were read
  void OnHead();
  void OnMessage();
  void BeginHandler(Phase phase);
  void FeedUpload();
  // Answers without a handler. `status` is by value, because it may be a member that this resets.
  void Refuse(Status status);
  bool ReserveBody();
  void RunHandler(const std::function<void()>& call);
  void WriteHead(HeadSpec head);
  void Finish();  // the answer is complete
  void Write();
  void OnWritten(bool ok, size_t bytes);
  void OnFlushed();
  void NextRequest();
  void Linger();
  void Close(bool reset);
  void ReleaseRequest();  // frees what a closed connection no longer needs
  TimePoint Due() const;

  const std::shared_ptr<IoLoop> loop_;
  ServerContext& context_;
  const std::shared_ptr<sockets::Transport> transport_;
  HttpRequest request_;
  RequestContext request_context_;
  const std::string peer_;

  Phase phase_ = Phase::kIdle;
  TimePoint phase_start_;  // of kIdle, kHead, kBody, kLingering
  TimePoint timer_due_ = TimePoint::max();
  bool shaking_hands_ = false;  // before the first request, over TLS; has the time of a header
  bool reading_ = false;        // a read is in flight
  bool peer_done_ = false;      // the client has shut its sending side; in any phase but kClosed
  bool awaiting_gone_ = false;  // kUpload, kBusy after peer_done_: probes whether it still reads
  TimePoint probed_;            // last
  std::array<char, 16384> read_buffer_;
  std::string input_;  // read, not yet parsed

  std::unique_ptr<MessageParser> parser_;
  std::optional<auth::CertifiedName> certificate_;  // of the client, over TLS
  std::optional<Status> refused_;                   // answered once the body has been read
  BudgetShare body_share_, answer_share_;
  std::unique_ptr<Handler> handler_;
  std::atomic<uint64_t> handler_serial_{0};  // read by helpers: changes when their handler ends
  bool in_handler_ = false;  // a call of the handler runs: it is destroyed only after that

  // the answer
  int status_ = 0;          // 0 = no head written
  bool streaming_ = false;  // kUpload, kBusy, kFlushing: the head is written, the body follows
  bool tunnel_ = false;  // until the end: another protocol's bytes; streaming_ and close_after_ too
  bool finished_ = false;     // kFlushing: all of the answer is written
  bool close_after_ = false;  // kLingering follows kFlushing, not the next request
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
