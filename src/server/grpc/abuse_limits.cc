#include "server/grpc/abuse_limits.h"

#include <algorithm>

namespace tutti::rpc {
namespace {

// Without the zone of a link-local address ("ipv6:%5Bfe80::1%25eth0%5D:5000"), which libraries
// write in different ways.
std::string WithoutZone(const std::string& peer) {
  const size_t zone = peer.find("%25");
  const size_t end = peer.find("%5D");
  if (zone == std::string::npos || end == std::string::npos || end < zone) return peer;
  return peer.substr(0, zone) + peer.substr(end);
}

}  // namespace

void ConnectionAccount::Reset(Duration lived, TimePoint now) {
  if (lived >= limits_.quickly) return;  // the limit of concurrent calls bounds these
  {
    const MutexLock lock(mutex_);
    resets_left_ = std::min<double>(
        limits_.resets, resets_left_ + ToSeconds(now - refilled_) * limits_.resets_per_s);
    refilled_ = now;
    resets_left_ -= 1;
    if (resets_left_ >= 0 || too_many_resets_.exchange(true)) return;
  }
  if (judge_soon_) judge_soon_();
}

ConnectionAccount::Verdict ConnectionAccount::Judge(int64_t taken_bytes, TimePoint now) {
  // Read before the other counters, because a call explains its message before it ends.
  const int64_t reading = reading_.load();
  if (const int64_t lost = lost_.exchange(0); lost > 0) {
    lost_bytes_ = std::min(lost_bytes_ + std::min(lost, kMaxLost) * message_bytes_,
                           kMaxLost * message_bytes_);
    lost_until_ = now + kLate;
  }
  if (now > lost_until_) lost_bytes_ = 0;
  Explain(
      static_cast<int64_t>(ToSeconds(now - judged_) * static_cast<double>(limits_.bytes_per_s)));
  judged_ = now;
  int64_t debt = taken_bytes - explained_.load();
  // Each complete message reduces the debt a little, but never below zero: it gives no credit.
  const int64_t forgiven = std::clamp(debt, int64_t{0}, came_.exchange(0) * kWindow);
  const int64_t paid = std::clamp(debt - forgiven, int64_t{0}, lost_bytes_);
  lost_bytes_ -= paid;
  const int64_t forfeited = std::min(debt + kMaxCredit, int64_t{0});
  Explain(forgiven + paid + forfeited);
  debt = std::max<int64_t>(debt - forgiven - paid, 0);
  const int64_t on_their_way = reading * message_bytes_;
  const bool suspect = debt > limits_.unexplained_bytes + on_their_way;
  if (!suspect) suspect_looks_ = 0;
  if (suspect && ++suspect_looks_ == 1) suspect_since_ = now;
  const bool lasting = suspect_looks_ >= kPatientLooks && now - suspect_since_ >= limits_.patience;
  Verdict verdict{.debt = debt, .suspect = suspect};
  if (too_many_resets_.load()) {
    verdict.why = "resets";
  } else if (calls_.load() > limits_.calls) {
    verdict.why = "calls";
  } else if (lasting || debt > limits_.max_unexplained_bytes + on_their_way) {
    verdict.why = "bytes";
  }
  verdict.abuse = !verdict.why.empty();
  return verdict;
}

void ConnectionAccounts::Add(const std::string& peer, std::shared_ptr<ConnectionAccount> account) {
  const MutexLock lock(mutex_);
  accounts_.insert_or_assign(WithoutZone(peer), std::move(account));
}

void ConnectionAccounts::Remove(const std::string& peer,
                                const std::shared_ptr<ConnectionAccount>& account) {
  const MutexLock lock(mutex_);
  const auto found = accounts_.find(WithoutZone(peer));
  if (found != accounts_.end() && found->second == account) accounts_.erase(found);
}

std::shared_ptr<ConnectionAccount> ConnectionAccounts::Find(const std::string& peer) {
  const MutexLock lock(mutex_);
  const auto found = accounts_.find(WithoutZone(peer));
  return found == accounts_.end() ? nullptr : found->second;
}

void AddressPenalties::Add(const std::string& address, TimePoint now) {
  const auto found = penalties_.find(address);
  if (found != penalties_.end() && now - found->second.noted < limits_.forgotten) {
    found->second = {std::min(2 * found->second.pause, limits_.most), now};
    return;
  }
  if (found == penalties_.end()) MakeRoom(now);
  penalties_.insert_or_assign(address, Penalty{limits_.first, now});
}

void AddressPenalties::MakeRoom(TimePoint now) {
  if (penalties_.size() < limits_.addresses) return;
  std::erase_if(penalties_,
                [&](const auto& each) { return now - each.second.noted >= limits_.forgotten; });
  if (penalties_.size() < limits_.addresses) return;
  penalties_.erase(std::min_element(
      penalties_.begin(), penalties_.end(),
      [](const auto& a, const auto& b) { return a.second.noted < b.second.noted; }));
}

TimePoint AddressPenalties::ServedAt(const std::string& address, TimePoint now) const {
  const auto found = penalties_.find(address);
  if (found == penalties_.end()) return now;
  return std::max(now, found->second.noted + found->second.pause);
}

}  // namespace tutti::rpc
