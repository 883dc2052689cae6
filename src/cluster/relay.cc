#include "cluster/relay.h"

#include <new>
#include <utility>
#include <vector>

#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

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

Relay::Relay(Ports ports, std::shared_ptr<Waker> waker)
    : ports_(std::move(ports)), waker_(std::move(waker)) {}

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
  v1::Update refused;
  refused.set_id(call.id());
  std::shared_ptr<Call> started;
  if (call.has_generate() || call.has_encode()) {
    started = StartRequest(call, &refused);
  } else {
    AnswerAtOnce(call, &refused);
  }
  const MutexLock lock(mutex_);
  if (started != nullptr) {
    calls_[call.id()] = std::move(started);
  } else {
    *done_.add_updates() = std::move(refused);
  }
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

void Relay::AnswerAtOnce(const v1::Call& call, v1::Update* update) {
  const Status status = OrRefused([&]() -> Status {
    if (call.has_tokenize()) {
      ASSIGN_OR_RETURN(const api::TokenizeResult result,
                       ports_.inference->Tokenize(FromWire(call.tokenize())));
      ToWire(result, update->mutable_tokenized());
    } else if (call.has_detokenize()) {
      ASSIGN_OR_RETURN(const std::string text,
                       ports_.inference->Detokenize(FromWire(call.detokenize())));
      update->set_text(text);
    } else if (ports_.flush != nullptr) {
      update->set_flushed(ports_.flush(
          call.work_case() == v1::Call::kFlushTenant ? &call.flush_tenant() : nullptr));
    }
    return OkStatus();
  });
  ToWire(status, update->mutable_ended());
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
  message->mutable_updates()->Swap(done_.mutable_updates());
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

void Relay::FillBeat(v1::Beat* beat) const {
  ToWire(ports_.inference->Load(), beat);
  for (const api::ModelInfo& model : ports_.inference->Models()) {
    const Result<api::ModelStatistics> statistics = ports_.inference->Statistics(model.id);
    if (!statistics.ok()) continue;
    v1::WireStatistics* one = beat->add_statistics();
    one->set_model(model.id);
    one->set_executions(statistics->executions);
    one->set_items(statistics->items);
    one->set_busy(statistics->busy.count());
  }
  ToWire(ports_.health->live(), beat->mutable_live());
}

void Relay::Drop() {
  std::map<uint64_t, std::shared_ptr<Call>> calls;
  {
    const MutexLock lock(mutex_);
    calls.swap(calls_);
    done_.Clear();
  }
}

size_t Relay::calls() const {
  const MutexLock lock(mutex_);
  return calls_.size();
}

}  // namespace tutti::cluster
