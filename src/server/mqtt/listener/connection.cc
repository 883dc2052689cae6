#include "server/mqtt/listener/connection.h"

#include <openssl/rand.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "base/check.h"

namespace tutti::mqtt::listener {
namespace {

constexpr size_t kMaxWriteBytes = 16 << 10;  // at once, so that progress shows
constexpr size_t kMaxLingeredBytes = 64 << 10;
constexpr Duration kLinger = std::chrono::seconds(2);

}  // namespace

Connection::Connection(Loop& loop, std::shared_ptr<sockets::Transport> transport,
                       std::string address)
    : loop_(loop),
      transport_(std::move(transport)),
      address_(std::move(address)),
      splitter_(FrameLimits{loop.limits.login_packet_bytes, PacketType::kConnect}),
      peer_(*this, loop.hub, loop.limits, loop.clock),
      last_progress_(loop.clock.Now()),
      handshake_due_(last_progress_ + loop.limits.login_time),
      timer_(loop.context()) {}

Connection::~Connection() {
  peer_.OnGone();
  LeaveGate();
}

void Connection::Start() {
  Arm();
  transport_->Handshake([self = shared_from_this()](bool ok, size_t) {
    if (self->phase_ != Phase::kHandshake) return;
    if (!ok) {
      self->loop_.NoteHandshake(self->address_, self->transport_->HandshakeFault());
      return self->Close();
    }
    self->certificate_ = self->transport_->Certificate();
    self->phase_ = Phase::kOpen;
    self->Advance();
    self->Event();
  });
}

void Connection::Read() {
  if (reading_) return;
  reading_ = true;
  transport_->ReadSome(buffer_.data(), buffer_.size(),
                       [self = shared_from_this()](bool ok, size_t bytes) {
                         self->Guarded([&] { self->OnRead(ok, bytes); });
                       });
}

void Connection::OnRead(bool ok, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (!ok) return Close();
  if (phase_ != Phase::kOpen) {
    lingered_bytes_ += bytes;
    return lingered_bytes_ > kMaxLingeredBytes ? Close() : Read();
  }
  unread_ = std::string_view(buffer_.data(), bytes);
  Advance();
  Event();
}

void Connection::Advance() {
  while (phase_ == Phase::kOpen && peer_.reading() && !unread_.empty()) {
    unread_.remove_prefix(splitter_.Feed(unread_));
    if (splitter_.fault()) return peer_.OnFramingFault(*splitter_.fault());
    if (splitter_.done()) peer_.OnFrame(splitter_.Take());
  }
  if (phase_ == Phase::kOpen && peer_.reading() && unread_.empty()) Read();
}

// Bytes of one event go out together.
void Connection::Write(std::string bytes) {
  if (pending_.empty()) {
    pending_ = std::move(bytes);
  } else {
    pending_ += bytes;
  }
  if (PostWrite() && writing_.empty()) last_progress_ = loop_.clock.Now();
}

bool Connection::PostWrite() {
  if (write_in_flight_ || std::exchange(write_posted_, true)) return false;
  boost::asio::post(loop_.context(), [self = shared_from_this()] {
    self->write_posted_ = false;
    self->StartWrite();
  });
  return true;
}

void Connection::StartWrite() {
  if (phase_ == Phase::kClosed || write_in_flight_) return;
  if (written_ == writing_.size()) {
    writing_ = std::exchange(pending_, "");
    written_ = 0;
  }
  if (writing_.empty()) return Finish();
  write_in_flight_ = wrote_ = true;
  transport_->WriteSome(writing_.data() + written_,
                        std::min(writing_.size() - written_, kMaxWriteBytes),
                        [self = shared_from_this()](bool ok, size_t bytes) {
                          self->Guarded([&] { self->OnWritten(ok, bytes); });
                        });
}

void Connection::OnWritten(bool ok, size_t bytes) {
  write_in_flight_ = false;
  if (phase_ == Phase::kClosed) return;
  if (!ok) return Close();
  written_ += bytes;
  last_progress_ = loop_.clock.Now();
  if (phase_ == Phase::kOpen) {
    peer_.Serve();
    Advance();
  }
  StartWrite();
  Event();
}

void Connection::Finish() {
  if (phase_ != Phase::kFlushing) return;
  if (!wrote_) return Close();
  // Closing with bytes unread would reset the connection, and take our last words with it.
  phase_ = Phase::kLingering;
  lingering_due_ = loop_.clock.Now() + kLinger;
  transport_->ShutdownSend();
  unread_ = {};
  Read();
  Arm();
}

void Connection::Authenticate(Credentials credentials) {
  has_asked_ = true;
  credentials.address = address_;
  asked_name_ = NameForLog(credentials.user_name.value_or(""));
  credentials.certificate = certificate_;
  loop_.authenticator.Check(
      std::move(credentials),
      [inbox = loop_.inbox(), weak = weak_from_this()](Result<Principal> result) {
        inbox->Post([weak, result = std::move(result)] {
          const auto self = weak.lock();
          if (self == nullptr || self->phase_ != Phase::kOpen) return;
          self->Guarded([&] {
            self->peer_.OnAuthenticated(result);
            self->Advance();
            self->Event();
          });
        });
      });
}

Receipt::Callback Connection::ReceiptCallback(uint64_t serial) {
  return [inbox = loop_.inbox(), weak = weak_from_this(), serial](const Status& status) {
    inbox->Post([weak, serial, status] {
      const auto self = weak.lock();
      if (self == nullptr || self->phase_ != Phase::kOpen) return;
      self->Guarded([&] {
        self->peer_.OnReceipt(serial, status);
        self->Advance();
        self->Event();
      });
    });
  };
}

std::string Connection::NewClientId() {
  constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz012345";  // 32
  unsigned char random[20] = {};
  CHECK_EQ(RAND_bytes(random, sizeof random), 1) << "no random numbers";
  std::string id = "auto-";
  for (const unsigned char byte : random) id += kAlphabet[byte % 32];
  return id;
}

void Connection::Forbidden(std::string_view what, std::string_view topic) {
  loop_.NoteForbidden({address_, user_, asked_name_}, what, topic);
}

void Connection::LoggedIn() {
  LeaveGate();
  user_ = peer_.session()->principal.user;
  splitter_.set_limits(FrameLimits{loop_.limits.packet_bytes, std::nullopt});
}

void Connection::End(ReasonCode why) {
  loop_.NoteEnd({address_, user_, asked_name_}, why);
  if (phase_ != Phase::kOpen && phase_ != Phase::kHandshake) return;
  phase_ = Phase::kFlushing;
  PostWrite();
}

void Connection::Revoke(std::string_view credential) {
  Guarded([&] {
    peer_.Revoke(credential);
    Event();
  });
}

void Connection::CheckLogin() {
  if (!peer_.open()) return;
  const Principal& principal = peer_.session()->principal;
  if (!loop_.authenticator.MayStay(principal)) Revoke(std::string(principal.credential));
}

void Connection::Shutdown() {
  peer_.Shutdown();
  Event();
}

void Connection::LeaveGate() {
  if (std::exchange(in_gate_, false)) loop_.Leave(*this);
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  peer_.OnGone();
  LeaveGate();
  timer_.cancel();
  transport_->Close(/*reset=*/false);
  loop_.Remove(shared_from_this());
  loop_.Settle();
}

// If memory runs out for a client's request, only this client is disconnected.
template <typename Work>
void Connection::Guarded(const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    Close();
  }
}

void Connection::Event() {
  loop_.Settle();
  if (phase_ != Phase::kClosed) Arm();
}

TimePoint Connection::Due() const {
  if (phase_ == Phase::kClosed) return TimePoint::max();
  if (phase_ == Phase::kHandshake) return handshake_due_;
  if (phase_ == Phase::kLingering) return lingering_due_;
  TimePoint due = phase_ == Phase::kOpen ? peer_.due() : TimePoint::max();
  if (unsent() > 0) due = std::min(due, last_progress_ + loop_.limits.reader_stall);
  return due;
}

// Sets the timer lazily: a timer that fires too early sets it again.
void Connection::Arm() {
  const TimePoint due = Due();
  if (due >= armed_for_) return;
  armed_for_ = due;
  timer_.expires_after(due - loop_.clock.Now());
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (!cancelled) self->OnTimer();
  });
}

void Connection::OnTimer() {
  armed_for_ = TimePoint::max();
  if (phase_ == Phase::kClosed) return;
  const TimePoint now = loop_.clock.Now();
  if (Due() <= now) {
    const bool stalled = unsent() > 0 && last_progress_ + loop_.limits.reader_stall <= now;
    if (phase_ != Phase::kOpen || stalled) return Close();
    peer_.OnTime();
    Advance();
  }
  Event();
}

}  // namespace tutti::mqtt::listener
