// WorkerPool::Work: what becomes of its stream or its result by what a worker says.
// WorkerPool::Worker: what it has been given.
#include "cluster/work.h"

#include <openssl/sha.h>

#include <utility>

#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

// The status that the worker sent, except `draining`: the worker drains, not this process, and a
// job runner would stop.
Status EndOf(const v1::Update& update) {
  Status status = FromWire(update.ended());
  return status.reason() == "draining" ? WorkerLost() : status;
}

// Whether the result is one of that request: nothing that a reader may index by is missing.
bool Fits(const v1::WireEncode& asked, const v1::WireEncodeResult& result) {
  const auto inputs = asked.inputs_size();
  if (result.width() < 0 || result.tokens_size() != inputs) return false;
  int64_t rows = inputs;
  if (asked.output() == static_cast<int>(api::EncodeOutput::kTokens)) {
    if (result.rows_size() != inputs) return false;
    rows = 0;
    for (const int32_t count : result.rows()) {
      if (count < 0) return false;
      rows += count;
    }
  }
  return result.values_size() == rows * result.width();
}

// FNV-1a over what must be the same when an event is made again.
uint64_t Hashed(uint64_t hash, const v1::WireEvent& event) {
  const auto add = [&hash](uint64_t value) { hash = (hash ^ value) * 0x100000001B3u; };
  add(static_cast<uint64_t>(event.kind()));
  add(static_cast<uint64_t>(event.token()));
  for (const char c : event.text()) add(static_cast<uint8_t>(c));
  return hash;
}

}  // namespace

void WorkerPool::Work::Take(const v1::Update& update) {
  if (update.has_cache() && report != nullptr && delivered == 0)
    report->Set(static_cast<api::CacheOutcome>(std::clamp(update.cache().outcome(), 0, 4)),
                Duration(update.cache().age()));
  if (encoding != nullptr) {
    if (update.prepared()) encoding->Prepared();
    if (!update.has_ended()) return;
    const Status status = EndOf(update);
    if (!status.ok()) return Finish(status);
    if (!Fits(call->encode(), update.encoded())) return Finish(MismatchedReply());
    return encoding->Finish(FromWire(update.encoded()));
  }
  for (const v1::WireEvent& wire : update.events()) {
    if (diverged) return;
    if (wire.kind() == static_cast<int>(api::StreamEvent::Kind::kEnd)) {
      const api::StreamEvent end = FromWire(wire);
      usage = end.usage;
      timings = end.timings;
      continue;
    }
    if (wire.choice() < 0 || wire.choice() >= call->generate().n()) {
      diverged = true;
      return;
    }
    ++seen;
    seen_hash = Hashed(seen_hash, wire);
    if (seen > skip) {
      stream->Append(FromWire(wire));
      ++delivered;
      written_hash = seen_hash;
    } else if (seen == skip) {
      diverged = seen_hash != written_hash;
    }
  }
  if (!update.has_ended()) return;
  // An answer that ended before its reader's place was another one.
  diverged = diverged || seen < skip;
  Finish(diverged ? WorkerLost() : EndOf(update));
}

void WorkerPool::Work::Finish(Status status) {
  if (stream != nullptr) return stream->Finish(std::move(status), usage, timings);
  if (status.ok()) status = Internal("an encoding without a result");
  encoding->Finish(std::move(status));
}

void WorkerPool::Work::BeginAnew() {
  skip = delivered;
  seen = 0;
  seen_hash = 0;
}

void WorkerPool::Work::ComputeFingerprint() {
  if (fingerprint) return;
  std::string asked = model;
  if (call->has_generate()) {
    asked += call->generate().prompt().SerializeAsString();
    asked += call->generate().sampling().SerializeAsString();
  } else {
    for (const v1::WireEncodeInput& input : call->encode().inputs())
      asked += input.SerializeAsString();
  }
  fingerprint.emplace();
  SHA256(reinterpret_cast<const uint8_t*>(asked.data()), asked.size(), fingerprint->data());
}

void WorkerPool::Worker::Add(const WorkRef& work) {
  works[work->id] = work;
  ++requested_[work->model];
}

void WorkerPool::Worker::Add(const QuestionRef& question) {
  questions[question->id] = question;
  if (!question->model.empty()) ++requested_[question->model];
}

void WorkerPool::Worker::Remove(const Work& work) {
  if (works.erase(work.id) > 0) Release(work.model);
}

void WorkerPool::Worker::Remove(const Question& question) {
  if (questions.erase(question.id) > 0 && !question.model.empty()) Release(question.model);
}

void WorkerPool::Worker::Release(const std::string& model) {
  const auto found = requested_.find(model);
  if (found != requested_.end() && --found->second == 0) requested_.erase(found);
}

WorkerMemory WorkerPool::Worker::Memory(const std::string& except) const {
  using enum api::ModelState;
  WorkerMemory memory{.budget = memory_budget};
  for (const api::ModelInfo& model : models) {
    if (!model.parent.empty()) continue;  // an adapter is part of its model
    const bool there = model.status.state != kUnloaded && model.status.state != kFailed;
    if (!there && (model.id == except || !Requested(model.id))) continue;
    memory.used = SumOf(memory.used, model.status.memory_bytes);
    if (model.status.pinned && model.status.state == kLoaded)
      memory.pinned = SumOf(memory.pinned, model.status.memory_bytes);
  }
  return memory;
}

Readiness WorkerPool::Worker::ReadinessFor(const api::ModelInfo& model) const {
  if (model.status.state == api::ModelState::kLoaded) return Readiness::kLoaded;
  return ReadinessOf(model.status, Requested(model.id), Memory(model.id));
}

}  // namespace tutti::cluster
