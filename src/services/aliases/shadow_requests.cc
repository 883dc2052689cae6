#include "services/aliases/shadow_requests.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/threads.h"

namespace tutti::aliases {

ShadowRequests::~ShadowRequests() {
  std::thread reader;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    reader.swap(thread_);
  }
  waker_->wakes.Raise();
  if (reader.joinable()) reader.join();
}

bool ShadowRequests::TakePlace(const std::string& alias) {
  const MutexLock lock(mutex_);
  if (places_ >= kMaxShadows) {
    ++counts_[alias].dropped;
    return false;
  }
  ++places_;
  return true;
}

void ShadowRequests::Refused(const std::string& alias) {
  const MutexLock lock(mutex_);
  --places_;
  ++counts_[alias].failed;
}

void ShadowRequests::Add(Shadow shadow) {
  {
    const MutexLock lock(mutex_);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { Main(); });
      } catch (const std::system_error&) {  // nobody would read it: the handle cancels the copy
        --places_;
        ++counts_[shadow.alias].failed;
        return;
      }
    }
    arrived_.push_back(std::move(shadow));
  }
  waker_->wakes.Raise();
}

bool ShadowRequests::Read(Shadow& shadow) {
  Status status;
  uint64_t tokens = 0;
  if (shadow.generation) {
    bool ended = false;
    while (const api::StreamEvent* event = shadow.generation.Next()) {
      shadow.generation.Consumed(event->text.size());
      if (event->kind != api::StreamEvent::Kind::kEnd) continue;
      ended = true;
      tokens = static_cast<uint64_t>(event->usage.completion_tokens);
    }
    if (!ended) return false;
    status = shadow.generation.stream().status();
  } else {
    if (!shadow.encoding.done()) return false;
    status = shadow.encoding.Take().status();
  }
  const MutexLock lock(mutex_);
  --places_;
  Counts& counts = counts_[shadow.alias];
  if (!status.ok()) {
    ++counts.failed;
    return true;
  }
  ++counts.completed;
  counts.output_tokens += tokens;
  counts.time += clock_.Now() - shadow.begun;
  return true;
}

void ShadowRequests::Main() {
  NameThread("tutti-shadow");
  std::vector<Shadow> running;
  while (true) {
    const uint64_t seen = waker_->wakes.count();
    {
      const MutexLock lock(mutex_);
      if (stop_) return;  // the handles cancel what runs
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(running));
      arrived_.clear();
    }
    std::erase_if(running, [this](Shadow& shadow) { return Read(shadow); });
    waker_->wakes.Wait(seen);
  }
}

std::map<std::string, ShadowRequests::Counts> ShadowRequests::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

size_t ShadowRequests::running() const {
  const MutexLock lock(mutex_);
  return places_;
}

}  // namespace tutti::aliases
