// clang-format off: first
#include "cluster/grpc/grpc_library.h"
// clang-format on
#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/threads.h"
#include "cluster/grpc/frontend_port.h"
#include "cluster/grpc/worker_link.h"
#include "cluster/inference_codec.h"
#include "cluster/relay.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {
namespace {

using std::chrono::milliseconds;

// Time between attempts to reach the frontend; doubled up to the maximum.
constexpr milliseconds kFirstWait(50), kLongestWait(1000);
// Longest that the channel takes to connect to a socket of this machine.
constexpr milliseconds kConnect(2000);

// Wakes the link's thread. Called by the models' threads and by those of the gRPC library.
class LinkWaker final : public Waker {
 public:
  void Wake() noexcept override {
    if (woken_.exchange(true, std::memory_order_acq_rel)) return;
    {
      const MutexLock lock(mutex_);  // so that no thread is about to wait
    }
    changed_.NotifyAll();
  }
  // Waits for Wake() or until `longest` has passed.
  void Wait(Duration longest) {
    const MutexLock lock(mutex_);
    if (!woken_.load(std::memory_order_acquire)) changed_.WaitFor(mutex_, longest);
    woken_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> woken_{false};
  Mutex mutex_;
  CondVar changed_;
};

// One stream to the frontend, from its beginning to its end. The sending side is the link's thread.
class Stream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `state` is notified when the frontend has announced that no more requests come.
  Stream(const std::shared_ptr<grpc::Channel>& channel, Relay& relay,
         std::shared_ptr<LinkWaker> waker, LinkState& state)
      : stub_(channel), relay_(relay), waker_(std::move(waker)), state_(state) {}

  void Begin() {
    stub_.PrepareBidiStreamingCall(&context_, kAttachMethod, grpc::StubOptions(), this);
    AddHold();  // the link's thread writes when it likes
    StartRead(&incoming_);
    StartCall();
  }
  // Whether the last message has been taken by the library.
  bool idle() const { return !writing_.load(std::memory_order_acquire); }
  void Write(const v1::WorkerMessage& message) {
    outgoing_ = Serialised(message);
    writing_.store(true, std::memory_order_release);
    StartWrite(&outgoing_);
  }
  void Leave() { context_.TryCancel(); }
  // No Write() follows.
  void RemoveLinkHold() { RemoveHold(); }
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  bool done() const { return done_.load(std::memory_order_acquire); }
  // After done(): why the frontend did not take the worker, or OK.
  const Status& refused() const { return refused_; }

  void OnReadDone(bool ok) override {
    v1::FrontendMessage message;
    if (!ok || !Parse(&incoming_, &message)) return Break();
    if (message.has_refused()) {
      refused_ = FromWire(message.refused());
      return Break();
    }
    relay_.Receive(message);
    if (message.no_more()) state_.NoMore();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    writing_.store(false, std::memory_order_release);
    if (!ok) return Break();
    waker_->Wake();
  }
  void OnDone(const grpc::Status&) override {
    const std::shared_ptr<LinkWaker> waker = waker_;
    done_.store(true, std::memory_order_release);  // from here on the stream may be gone
    waker->Wake();
  }

 private:
  void Break() {
    broken_.store(true, std::memory_order_release);
    waker_->Wake();
  }

  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  Relay& relay_;
  const std::shared_ptr<LinkWaker> waker_;
  LinkState& state_;
  grpc::ByteBuffer incoming_, outgoing_;
  Status refused_;
  std::atomic<bool> writing_{false}, broken_{false}, done_{false};
};

class Link final : public WorkerLink {
 public:
  Link(std::string path, v1::Hello hello, Relay::Ports ports, Logger* log)
      : path_(std::move(path)),
        hello_(std::move(hello)),
        clock_(*ports.clock),
        log_(log),
        waker_(std::make_shared<LinkWaker>()),
        relay_(std::move(ports), waker_) {}
  ~Link() override {
    stop_.store(true, std::memory_order_release);
    waker_->Wake();
    if (thread_.joinable()) thread_.join();
  }
  void Start() {
    thread_ = std::thread([this] { Main(); });
  }

  bool attached() const override { return state_.attached(); }
  void BeatSoon() override {
    state_.BeatNow();
    waker_->Wake();
  }
  bool Drain(Duration limit) override {
    state_.BeginDrain();
    waker_->Wake();
    return state_.AwaitDrained(clock_, limit, [this] { return relay_.calls() == 0; });
  }

 private:
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

  void Main() {
    NameThread("tutti-frontend");
    milliseconds wait = kFirstWait;
    while (!stopping()) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      const auto channel =
          grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments);
      if (channel->WaitForConnected(std::chrono::system_clock::now() + wait)) {
        wait = kFirstWait;
        const Status refused = Serve(channel);
        if (stopping()) return;
        if (log_ != nullptr) LogEnd(refused);
        Pause(refused.ok() ? Duration(kFirstWait) : LinkState::kRefusedWait);
      } else {
        if (wait >= kLongestWait && log_ != nullptr && !std::exchange(told_absent_, true))
          log_->Warn("frontend.absent", {{"socket", path_}});
        wait = std::min(wait * 2, kConnect);
      }
    }
  }

  // Serves until the stream has ended. Errors: the frontend refuses this worker.
  Status Serve(const std::shared_ptr<grpc::Channel>& channel) {
    Stream stream(channel, relay_, waker_, state_);
    stream.Begin();
    v1::WorkerMessage first;
    *first.mutable_hello() = relay_.Announce(hello_);
    state_.Beat(relay_, &first);
    stream.Write(first);
    state_.set_attached(true);
    told_absent_ = false;
    if (log_ != nullptr) log_->Info("frontend.attached", {{"socket", path_}});
    TimePoint next_beat = clock_.Now() + WorkerPool::kBeat;
    while (!stream.broken() && !stopping()) {
      if (stream.idle()) {
        v1::WorkerMessage message;
        const TimePoint now = clock_.Now();
        if (state_.TakeBeatNow() || now >= next_beat) {
          state_.Beat(relay_, &message);
          next_beat = now + WorkerPool::kBeat;
        }
        if (relay_.Next(&message) || message.has_beat()) {
          stream.Write(message);
          continue;  // more may have come meanwhile
        }
      }
      waker_->Wait(std::max(next_beat - clock_.Now(), Duration(milliseconds(1))));
    }
    if (stopping()) {  // what was written last leaves first
      for (int i = 0; i < 100 && !stream.idle() && !stream.broken(); ++i)
        std::this_thread::sleep_for(milliseconds(5));
    }
    state_.set_attached(false);
    stream.Leave();
    stream.RemoveLinkHold();
    while (!stream.done()) waker_->Wait(milliseconds(100));
    relay_.Drop();
    return stream.refused();
  }

  void LogEnd(const Status& refused) {
    if (refused.ok()) {
      log_->Warn("frontend.lost", {{"socket", path_}});
    } else {
      log_->Error("frontend.refused", {{"socket", path_}, {"why", refused.message()}});
    }
  }
  void Pause(Duration longest) {
    const TimePoint end = clock_.Now() + longest;
    while (!stopping() && clock_.Now() < end) waker_->Wait(end - clock_.Now());
  }

  const std::string path_;
  const v1::Hello hello_;
  const Clock& clock_;
  Logger* const log_;
  const std::shared_ptr<LinkWaker> waker_;
  Relay relay_;
  LinkState state_;
  std::atomic<bool> stop_{false};
  bool told_absent_ = false;  // the thread's
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<WorkerLink>> WorkerLink::Open(const std::string& path, v1::Hello hello,
                                                     Relay::Ports ports, Logger* log) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return InvalidArgument("invalid_value", "the path of the frontend's socket must have 1 to " +
                                                std::to_string(kMaxSocketPath) + " bytes");
  }
  auto link = std::make_unique<Link>(path, std::move(hello), std::move(ports), log);
  try {
    link->Start();
  } catch (const std::system_error& error) {
    return Unavailable("overloaded", std::string("cannot start a thread: ") + error.what());
  }
  return std::unique_ptr<WorkerLink>(std::move(link));
}

}  // namespace tutti::cluster
