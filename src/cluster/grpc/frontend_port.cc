// clang-format off: first
#include "cluster/grpc/grpc_library.h"
// clang-format on
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/threads.h"
#include "cluster/grpc/frontend_port.h"
#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

// Interval of checks for paused requests, and for silent workers.
constexpr std::chrono::milliseconds kSoon(20), kNowAndThen(1000);

class Session;

// The sessions and their sending thread: the pool wakes sessions under its lock, so they cannot
// send in that call.
class Sender {
 public:
  explicit Sender(WorkerPool& pool) : pool_(pool) {}
  void Start() {
    thread_ = std::thread([this] { Main(); });
  }
  ~Sender() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    wake_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }
  WorkerPool& pool() { return pool_; }
  void Post(std::shared_ptr<Session> session) {
    {
      const MutexLock lock(mutex_);
      ready_.push_back(std::move(session));
    }
    wake_.NotifyOne();
  }

 private:
  void Main();

  WorkerPool& pool_;
  Mutex mutex_;
  CondVar wake_;
  std::vector<std::shared_ptr<Session>> ready_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// One worker's stream.
class Session final : public grpc::ServerGenericBidiReactor,
                      public WorkerPool::Connection,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(Sender& sender, grpc::GenericCallbackServerContext& call)
      : sender_(sender), call_(call) {}

  void Begin() {
    self_ = shared_from_this();
    if (call_.method() != kAttachMethod) {
      const MutexLock lock(mutex_);
      return End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
    }
    StartRead(&incoming_);
  }

  // --- WorkerPool::Connection ---
  void Wake() override {
    {
      const MutexLock lock(mutex_);
      if (ended_ || std::exchange(wanted_, true) || writing_) return;
    }
    sender_.Post(shared_from_this());
  }
  void Close() override {
    const MutexLock lock(mutex_);
    call_.TryCancel();
    End(grpc::Status::CANCELLED);
  }

  // Called on the sender's thread.
  void Send() {
    WorkerPool::WorkerRef worker;
    {
      const MutexLock lock(mutex_);
      if (ended_ || writing_ || worker_ == nullptr) return;
      worker = worker_;
      wanted_ = false;
      writing_ = true;  // no other thread takes a message
    }
    v1::FrontendMessage message;
    const bool any = sender_.pool().TakeMessage(worker, &message);
    const MutexLock lock(mutex_);
    if (ended_ || !any) {
      writing_ = false;
      return;
    }
    outgoing_ = Serialised(message);
    StartWrite(&outgoing_);
  }

  // --- the library's ---
  void OnReadDone(bool ok) override {
    v1::WorkerMessage message;
    if (!ok || !Parse(&incoming_, &message)) {
      const MutexLock lock(mutex_);
      return End(grpc::Status::OK);
    }
    if (const WorkerPool::WorkerRef known = worker(); known != nullptr) {
      sender_.pool().Receive(known, message);
    } else if (!Attach(message)) {
      return;
    }
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) return End(grpc::Status::OK);
      if (refused_) return End(grpc::Status::OK);
      if (!wanted_ || ended_) return;
    }
    sender_.Post(shared_from_this());
  }
  void OnCancel() override {
    const MutexLock lock(mutex_);
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    if (const WorkerPool::WorkerRef known = worker()) sender_.pool().Lost(known);
    self_.reset();  // may be the last
  }

 private:
  WorkerPool::WorkerRef worker() {
    const MutexLock lock(mutex_);
    return worker_;
  }
  // Attaches the worker; returns whether to read further messages.
  bool Attach(const v1::WorkerMessage& message) {
    Result<WorkerPool::WorkerRef> worker =
        sender_.pool().Attach(message.hello(), shared_from_this());
    const MutexLock lock(mutex_);
    if (worker.ok()) {
      worker_ = *std::move(worker);
      if (wanted_) sender_.Post(shared_from_this());
      return true;
    }
    v1::FrontendMessage refusal;
    ToWire(worker.status(), refusal.mutable_refused());
    refused_ = writing_ = true;
    outgoing_ = Serialised(refusal);
    StartWrite(&outgoing_);
    return false;
  }
  void End(const grpc::Status& status) REQUIRES(mutex_) {
    if (std::exchange(ended_, true)) return;
    Finish(status);
  }

  Sender& sender_;
  grpc::GenericCallbackServerContext& call_;
  std::shared_ptr<Session> self_;  // until OnDone()
  grpc::ByteBuffer incoming_, outgoing_;
  Mutex mutex_;
  WorkerPool::WorkerRef worker_ GUARDED_BY(mutex_);  // once it is attached
  bool wanted_ GUARDED_BY(mutex_) = false, writing_ GUARDED_BY(mutex_) = false;
  bool refused_ GUARDED_BY(mutex_) = false, ended_ GUARDED_BY(mutex_) = false;
};

void Sender::Main() {
  NameThread("tutti-workers");
  while (true) {
    std::vector<std::shared_ptr<Session>> ready;
    {
      const MutexLock lock(mutex_);
      if (ready_.empty() && !stop_)
        wake_.WaitFor(mutex_, pool_.wants_look_soon() ? kSoon : kNowAndThen);
      if (stop_) return;
      ready.swap(ready_);
    }
    for (const auto& session : ready) session->Send();
    pool_.Look();
  }
}

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(Sender& sender) : sender_(sender) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    const auto session = std::make_shared<Session>(sender_, *call);
    session->Begin();
    return session.get();
  }

 private:
  Sender& sender_;
};

class Port final : public FrontendPort {
 public:
  Port(std::string path, WorkerPool& pool)
      : path_(std::move(path)), sender_(pool), service_(sender_) {}
  ~Port() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();  // all calls have ended
    (void)unlink(path_.c_str());
  }

  Status Start() {
    (void)unlink(path_.c_str());  // of a killed frontend: the store's lock excludes a live one
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
    builder.AddListeningPort("unix:" + path_, grpc::InsecureServerCredentials());
    const mode_t before = umask(0077);
    server_ = builder.BuildAndStart();
    umask(before);
    if (server_ == nullptr) {
      return Status(StatusCode::kUnavailable, "io_error",
                    "the workers' socket cannot be opened at " + path_);
    }
    try {
      sender_.Start();
    } catch (const std::system_error& error) {
      return Unavailable("overloaded", std::string("cannot start a thread: ") + error.what());
    }
    return OkStatus();
  }

 private:
  const std::string path_;
  Sender sender_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Status FrontendPort::CheckBuilt() { return OkStatus(); }

Result<std::unique_ptr<FrontendPort>> FrontendPort::Open(const std::string& path,
                                                         WorkerPool& pool) {
  if (path.size() > kMaxSocketPath) {
    return InvalidArgument("invalid_value", "the path of the workers' socket has " +
                                                std::to_string(path.size()) + " bytes; at most " +
                                                std::to_string(kMaxSocketPath) + " are possible");
  }
  auto port = std::make_unique<Port>(path, pool);
  RETURN_IF_ERROR(port->Start());
  return std::unique_ptr<FrontendPort>(std::move(port));
}

}  // namespace tutti::cluster
