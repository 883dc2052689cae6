#include "engine/policy/prefill_chunk.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace tutti::engine {
namespace {

void Average(double& average, double sample) {
  // Quick at first, then over about the last eight. A single slow step (a busy host) must not
  // shrink chunks for long, so a sample counts at most as twice the average.
  average += average == 0 ? sample : (std::min(sample, 2 * average) - average) / 8;
}

}  // namespace

int StepCost::BucketOf(int rows) {
  int bucket = 0;
  for (int r = rows - 1; r > 0 && bucket < kBuckets - 1; r /= 2) ++bucket;
  return bucket;
}

void StepCost::Observe(int decode_rows, int prefill_tokens, Duration took) {
  const auto ns = static_cast<double>(took.count());
  if (ns <= 0) return;
  if (prefill_tokens == 0) {
    if (decode_rows > 0) Average(decode_ns_[static_cast<size_t>(BucketOf(decode_rows))], ns);
    return;
  }
  const double decode_ns =
      decode_rows == 0 ? 0.0 : static_cast<double>(Decode(decode_rows).count());
  if (decode_rows > 0 && decode_ns == 0) return;
  // Short chunks alone are a bad sample of a token's cost: reading the weights dominates them.
  if (decode_rows == 0 && prefill_tokens < kFirstChunk) return;
  const double sample = std::max(ns - decode_ns, 0.0) / prefill_tokens;
  if (sample > 0) Average(prefill_token_ns_, sample);
}

Duration StepCost::Decode(int rows) const {
  if (rows <= 0) return Duration(0);
  const auto own = decode_ns_.begin() + BucketOf(rows);
  const auto known = [](double ns) { return ns > 0; };
  // The nearest known number of rows; larger ones first, which errs towards smaller chunks.
  if (const auto found = std::find_if(own, decode_ns_.end(), known); found != decode_ns_.end())
    return Duration(static_cast<int64_t>(*found));
  const auto found = std::find_if(std::reverse_iterator(own), decode_ns_.rend(), known);
  return Duration(found == decode_ns_.rend() ? 0 : static_cast<int64_t>(*found));
}

void ShareChunk(int budget, std::span<int> wanted, int waiting) {
  if (wanted.empty()) return;
  int64_t demand = waiting;  // tokens that all prompts but the oldest need
  for (const int tokens : wanted.subspan(1)) demand += tokens;
  const auto most =
      static_cast<int>(std::clamp<int64_t>(budget - demand, (budget + 1) / 2, budget));
  wanted[0] = std::min(wanted[0], most);
  int left = budget - wanted[0];
  // The shortest of those without a share, in rounds: there are as many as sequences run. A share
  // is marked by its complement until all have one.
  const std::span<int> others = wanted.subspan(1);
  while (true) {
    int* shortest = nullptr;
    for (int& tokens : others) {
      if (tokens >= 0 && (shortest == nullptr || tokens < *shortest)) shortest = &tokens;
    }
    if (shortest == nullptr) break;
    if (*shortest > waiting) left -= std::min(left, std::exchange(waiting, 0));
    const int share = std::min(left, *shortest);
    left -= share;
    *shortest = ~share;
  }
  for (int& tokens : others) tokens = ~tokens;
}

int PrefillChunk(const ChunkInputs& in) {
  const bool limited = in.step_limit > Duration(0);
  if ((in.decode_rows == 0 && !limited) || in.longest_chunk <= kSmallestChunk)
    return in.longest_chunk;
  if (in.per_token.count() <= 0) return std::min(in.longest_chunk, kFirstChunk);
  // Where decoding alone takes longer than half the target, half as much again is allowed: gaps
  // then stay well below twice their length without the prompt, and the prompt still finishes.
  const Duration target = limited ? std::min(in.itl_target, in.step_limit) : in.itl_target;
  const Duration limit = std::max(target * 9 / 10, in.decode_time * 3 / 2);
  const auto tokens = (limit - in.decode_time).count() / in.per_token.count();
  const auto whole = std::clamp<int64_t>(tokens, kSmallestChunk, in.longest_chunk);
  return static_cast<int>(whole - whole % kSmallestChunk);  // whole tiles of rows
}

}  // namespace tutti::engine
