// MemoryBudget: limit of the bytes that all connections of a server may hold together in large
// bodies that are being read or wait to be sent. BudgetShare: one holder's part of it, returned by
// the destructor.
//
// Thread: the budget is for any; a share is used by one thread at a time and may move.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tutti::http {

class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t limit) : limit_(limit) {}
  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class BudgetShare;
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

class BudgetShare {
 public:
  BudgetShare() = default;
  explicit BudgetShare(MemoryBudget* budget) : budget_(budget) {}
  BudgetShare(BudgetShare&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetShare& operator=(BudgetShare&& other) noexcept {
    if (this == &other) return *this;
    Release();
    budget_ = other.budget_;
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~BudgetShare() { Release(); }

  // Grows the share to at least `bytes`. False, without a change: the budget is exhausted.
  bool GrowTo(int64_t bytes) {
    const int64_t more = bytes - bytes_;
    if (more <= 0) return true;
    if (budget_->used_.fetch_add(more) + more > budget_->limit_) {
      budget_->used_.fetch_sub(more);
      return false;
    }
    bytes_ = bytes;
    return true;
  }
  void ShrinkTo(int64_t bytes) {
    if (bytes < bytes_) budget_->used_.fetch_sub(std::exchange(bytes_, bytes) - bytes);
  }
  void Release() {
    if (bytes_ > 0) budget_->used_.fetch_sub(std::exchange(bytes_, 0));
  }

 private:
  MemoryBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tutti::http
