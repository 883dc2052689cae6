#include "engine/request.h"

#include <utility>

#include "engine/admission_state.h"
#include "engine/mailbox.h"

namespace tutti::engine {

// --- RequestControl ---

RequestControl::RequestControl(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
RequestControl::~RequestControl() = default;

void RequestControl::Cancel() noexcept {
  if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
  Notify();
}

void RequestControl::Grant(int64_t tokens) noexcept {
  if (tokens <= 0) return;
  granted_.fetch_add(tokens, std::memory_order_acq_rel);
  Notify();
}

void RequestControl::Notify() noexcept { mailbox_->Touch(this); }

// --- AdmissionPermit ---

AdmissionPermit::AdmissionPermit(AdmissionPermit&& other) noexcept { *this = std::move(other); }

AdmissionPermit& AdmissionPermit::operator=(AdmissionPermit&& other) noexcept {
  if (this != &other) {
    Release();
    admission_ = std::move(other.admission_);
    control_ = std::move(other.control_);
    accepted_at_ = other.accepted_at_;
    n_ = other.n_;
    bytes_ = other.bytes_;
    tokens_ = other.tokens_;
    result_bytes_ = other.result_bytes_;
    items_ = other.items_;
    small_ = other.small_;
    submitted_ = other.submitted_;
    aside_ = other.aside_;
  }
  return *this;
}

AdmissionPermit::~AdmissionPermit() { Release(); }

void AdmissionPermit::HoldTokens(int64_t tokens, bool small) {
  tokens_ = tokens;
  small_ = small;
  if (small_) admission_->small_tokens.fetch_add(tokens, std::memory_order_relaxed);
}

void AdmissionPermit::LeaveQueue() {
  admission_->queued_bytes.fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
  Served(tokens_);
}

void AdmissionPermit::StepAside(int limit) {
  if (!aside_) aside_ = admission_->TryStepAside(n_, limit);
}

void AdmissionPermit::StepBack() {
  if (std::exchange(aside_, false)) admission_->StepBack(n_);
}

void AdmissionPermit::Served(int64_t tokens) {
  tokens_ -= tokens;
  admission_->queued_tokens.fetch_sub(tokens, std::memory_order_relaxed);
  if (small_) admission_->small_tokens.fetch_sub(tokens, std::memory_order_relaxed);
}

void AdmissionPermit::Release() {
  if (admission_ == nullptr) return;
  LeaveQueue();
  admission_->items.fetch_sub(std::exchange(items_, 0), std::memory_order_relaxed);
  admission_->result_bytes.fetch_sub(std::exchange(result_bytes_, 0), std::memory_order_relaxed);
  if (!submitted_) admission_->preparing.fetch_sub(n_, std::memory_order_relaxed);
  const std::shared_ptr<AdmissionState> admission = std::move(admission_);
  admission_ = nullptr;
  admission->Leave(n_, std::exchange(aside_, false));
}

}  // namespace tutti::engine
