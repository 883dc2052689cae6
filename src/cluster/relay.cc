#include "cluster/relay.h"

#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

// What identifies a list of models: all but their order and status, which change with every load.
std::string KeyOf(const v1::WireModelList& list) {
  std::map<std::string, std::string> models;
  for (v1::WireModel model : list.models()) {
    model.clear_status();
    models[model.id()] = model.SerializeAsString();
  }
  std::string key;
  for (const auto& [id, model] : models) key += model;
  return key;
}

Status OrRefused(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace

struct Relay::Call {
  // One of the two is set.
  api::Generation generation;
  api::Encoding encoding;
  std::shared_ptr<api::CacheReport> report;  // null: not requested
  bool reported = false, prepared = false, ended = false;
  bool paused = false;

  const std::shared_ptr<api::Cancellable>& control() const {
    return generation ? generation.control() : encoding.control();
  }
};

// Answers that wait to be sent. Shared with the callbacks of calls that are answered later, which
// may come after the relay has gone.
class Relay::Replies {
 public:
  explicit Replies(std::shared_ptr<Waker> waker) : waker_(std::move(waker)) {}
  // Number of the connection; answers to calls of an earlier one are discarded.
  uint64_t connection() const {
    const MutexLock lock(mutex_);
    return connection_;
  }
  void Add(uint64_t connection, v1::Update update) {
    {
      const MutexLock lock(mutex_);
      if (connection != connection_) return;
      *waiting_.add_updates() = std::move(update);
    }
    waker_->Wake();
  }
  void Take(v1::WorkerMessage* message) {
    const MutexLock lock(mutex_);
    message->mutable_updates()->Swap(waiting_.mutable_updates());
  }
  void Drop() {
    const MutexLock lock(mutex_);
    ++connection_;
    waiting_.Clear();
  }

 private:
  const std::shared_ptr<Waker> waker_;
  mutable Mutex mutex_;
  uint64_t connection_ GUARDED_BY(mutex_) = 0;
  v1::WorkerMessage waiting_ GUARDED_BY(mutex_);
};

Relay::Relay(Ports ports, std::shared_ptr<Waker> waker)
    : ports_(std::move(ports)),
      waker_(std::move(waker)),
      replies_(std::make_shared<Replies>(waker_)) {}

Relay::~Relay() { Drop(); }

void Relay::Receive(const v1::FrontendMessage& message) {
  for (const v1::Call& call : message.calls()) Start(call);
  const MutexLock lock(mutex_);
  auto* const calls = &calls_;  // the lock analysis does not cover lambdas
  const auto each = [calls](const auto& ids, const auto& act) {
    for (const uint64_t id : ids) {
      if (const auto found = calls->find(id); found != calls->end()) act(*found->second);
    }
  };
  each(message.paused(), [](Call& call) { call.paused = true; });
  each(message.resumed(), [](Call& call) { call.paused = false; });
  each(message.cancelled(), [](Call& call) {
    call.paused = false;
    if (call.control() != nullptr) call.control()->Cancel();
  });
  if (message.resumed_size() + message.cancelled_size() > 0) waker_->Wake();
}

void Relay::Start(const v1::Call& call) {
  if (!call.has_generate() && !call.has_encode()) return Answer(call);
  v1::Update refused;
  refused.set_id(call.id());
  std::shared_ptr<Call> started = StartRequest(call, &refused);
  if (started == nullptr) return replies_->Add(replies_->connection(), std::move(refused));
  const MutexLock lock(mutex_);
  calls_[call.id()] = std::move(started);
  waker_->Wake();
}

std::shared_ptr<Relay::Call> Relay::StartRequest(const v1::Call& wire, v1::Update* refused) {
  auto call = std::make_shared<Call>();
  const Status status = OrRefused([&]() -> Status {
    if (wire.has_generate()) {
      api::GenerateRequest request = FromWire(wire.generate(), ports_.clock->Now());
      call->report = request.cache_report;
      ASSIGN_OR_RETURN(call->generation, ports_.inference->Generate(std::move(request), waker_));
    } else {
      api::EncodeRequest request = FromWire(wire.encode(), ports_.clock->Now());
      call->report = request.cache_report;
      ASSIGN_OR_RETURN(call->encoding, ports_.inference->Encode(std::move(request), waker_));
    }
    return OkStatus();
  });
  if (status.ok()) return call;
  ToWire(status, refused->mutable_ended());
  return nullptr;
}

void Relay::Answer(const v1::Call& call) {
  const auto reply = [replies = replies_, connection = replies_->connection(),
                      id = call.id()](v1::Update update) {
    update.set_id(id);
    replies->Add(connection, std::move(update));
  };
  const auto end = [reply](const Status& status) {
    v1::Update update;
    ToWire(status, update.mutable_ended());
    reply(std::move(update));
  };
  const Status status = OrRefused([&]() -> Status {
    switch (call.work_case()) {
      case v1::Call::kTokenize:
        ports_.inference->TokenizeLater(FromWire(call.tokenize()),
                                        [reply](const Result<api::TokenizeResult>& result) {
                                          v1::Update update;
                                          if (result.ok())
                                            ToWire(*result, update.mutable_tokenized());
                                          ToWire(result.status(), update.mutable_ended());
                                          reply(std::move(update));
                                        });
        return OkStatus();
      case v1::Call::kDetokenize:
        ports_.inference->DetokenizeLater(FromWire(call.detokenize()),
                                          [reply](const Result<std::string>& text) {
                                            v1::Update update;
                                            if (text.ok()) update.set_text(*text);
                                            ToWire(text.status(), update.mutable_ended());
                                            reply(std::move(update));
                                          });
        return OkStatus();
      case v1::Call::kLoad:
      case v1::Call::kUnload:
      case v1::Call::kKeepAlive:
      case v1::Call::kRescan:
        return Control(call, end);
      default:
        break;
    }
    v1::Update update;
    if (ports_.flush != nullptr) {
      update.set_flushed(ports_.flush(
          call.work_case() == v1::Call::kFlushTenant ? &call.flush_tenant() : nullptr));
    }
    ToWire(OkStatus(), update.mutable_ended());
    reply(std::move(update));
    return OkStatus();
  });
  if (!status.ok()) end(status);
}

Status Relay::Control(const v1::Call& call, const api::ModelControl::Done& done) {
  if (ports_.control == nullptr) {
    return Status(StatusCode::kUnimplemented, "not_implemented",
                  "the worker has the models of its start");
  }
  if (call.has_load()) {
    ports_.control->Load(call.load(), done);
  } else if (call.has_unload()) {
    ports_.control->Unload(call.unload(), done);
  } else {
    if (call.has_keep_alive()) {
      ports_.control->KeepAlive(call.keep_alive().model(),
                                Duration(call.keep_alive().keep_alive()));
    } else {
      ports_.control->Rescan();
    }
    done(OkStatus());
  }
  return OkStatus();
}

// Returns the number of bytes added.
size_t Relay::Read(Call& call, v1::Update* update) {
  size_t bytes = 0;
  if (call.report != nullptr && !call.reported &&
      call.report->outcome() != api::CacheOutcome::kNone) {
    call.reported = true;
    update->mutable_cache()->set_outcome(static_cast<int>(call.report->outcome()));
    update->mutable_cache()->set_age(call.report->age().count());
    bytes += sizeof(api::CacheReport);
  }
  if (call.generation) {
    while (bytes < kMessageBytes) {
      const api::StreamEvent* event = call.generation.Next();
      if (event == nullptr) break;
      ToWire(*event, update->add_events());
      call.generation.Consumed(event->text.size());
      bytes += api::TokenStream::EventBytes(*event) + event->text.size();
      if (event->kind != api::StreamEvent::Kind::kEnd) continue;
      ToWire(call.generation.stream().status(), update->mutable_ended());
      call.ended = true;
      break;
    }
    return bytes;
  }
  if (!call.prepared && call.encoding.prepared()) {
    call.prepared = true;
    update->set_prepared(true);
    bytes += 1;
  }
  if (!call.encoding.done()) return bytes;
  call.ended = true;
  const Result<api::EncodeResult> result = call.encoding.Take();
  ToWire(result.status(), update->mutable_ended());
  if (!result.ok()) return bytes + 1;
  ToWire(*result, update->mutable_encoded());
  return bytes + result->values.size() * sizeof(float) + 1;
}

bool Relay::Next(v1::WorkerMessage* message) {
  std::vector<std::shared_ptr<Call>> over;  // destroyed without the lock
  const MutexLock lock(mutex_);
  replies_->Take(message);
  size_t bytes = 0;
  bool more = false;
  for (auto call = calls_.begin(); call != calls_.end();) {
    if (call->second->paused) {
      ++call;
      continue;
    }
    if (more = bytes >= kMessageBytes; more) break;
    v1::Update* const update = message->add_updates();
    update->set_id(call->first);
    if (const size_t added = Read(*call->second, update); added > 0) {
      bytes += added;
    } else {
      message->mutable_updates()->RemoveLast();
    }
    if (call->second->ended) {
      over.push_back(std::move(call->second));
      call = calls_.erase(call);
    } else {
      ++call;
    }
  }
  if (more) waker_->Wake();
  return message->updates_size() > 0;
}

v1::WireModelList Relay::ListModels() const {
  v1::WireModelList list;
  for (const api::ModelInfo& model : ports_.inference->Models()) ToWire(model, list.add_models());
  return list;
}

v1::Hello Relay::Announce(const v1::Hello& hello) {
  v1::Hello announced = hello;
  announced_.reset();
  if (!hello.models().empty()) return announced;
  v1::WireModelList list = ListModels();
  announced_ = KeyOf(list);
  announced.mutable_models()->Swap(list.mutable_models());
  return announced;
}

void Relay::FillBeat(v1::WorkerMessage* message) {
  v1::Beat* const beat = message->mutable_beat();
  ToWire(ports_.inference->Load(), beat);
  v1::WireModelList list = ListModels();
  for (const v1::WireModel& model : list.models()) {
    v1::WireModelState* const state = beat->add_models();
    state->set_id(model.id());
    *state->mutable_status() = model.status();
    const Result<api::ModelStatistics> statistics = ports_.inference->Statistics(model.id());
    if (!statistics.ok()) continue;
    v1::WireStatistics* one = beat->add_statistics();
    one->set_model(model.id());
    one->set_executions(statistics->executions);
    one->set_items(statistics->items);
    one->set_busy(statistics->busy.count());
  }
  beat->set_memory_budget(ports_.memory_budget);
  ToWire(ports_.health->live(), beat->mutable_live());
  if (!announced_.has_value()) return;
  std::string now = KeyOf(list);
  if (now == *announced_) return;
  announced_ = std::move(now);
  message->mutable_models()->Swap(&list);
}

void Relay::Drop() {
  std::map<uint64_t, std::shared_ptr<Call>> calls;
  {
    const MutexLock lock(mutex_);
    calls.swap(calls_);
  }
  replies_->Drop();
}

size_t Relay::calls() const {
  const MutexLock lock(mutex_);
  return calls_.size();
}

}  // namespace tutti::cluster
