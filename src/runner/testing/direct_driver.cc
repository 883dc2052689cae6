#include "runner/testing/direct_driver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/random.h"
#include "engine/policy/window.h"

namespace tutti::runner {

api::SamplingParams GreedyParams() {
  api::SamplingParams params;
  params.temperature = 0;
  return params;
}

DirectDriver::DirectDriver(engine::ModelRunner& runner, uint64_t block_seed) : runner_(runner) {
  const int blocks = runner.limits().kv_blocks;
  CHECK(runner.limits().window_blocks == 0 || runner.limits().window_blocks >= blocks);
  for (int id = blocks - 1; id >= 0; --id) free_.push_back(id);
  if (block_seed == 0) return;
  Random random(block_seed);
  for (size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random.Below(i)]);
}

int DirectDriver::NewSequence(api::SamplingParams params, uint64_t seed) {
  auto sequence = std::make_unique<Sequence>();
  sequence->params = std::move(params);
  sequence->sampler.params = &sequence->params;
  sequence->sampler.seed = seed;
  const auto count = static_cast<kv::SlotId>(sequences_.size());
  if (runner_.limits().state_slots > 0) {
    CHECK_LT(count, runner_.limits().state_slots) << "each sequence has a slot";
    sequence->state = count;
  }
  sequences_.push_back(std::move(sequence));
  return static_cast<int>(sequences_.size()) - 1;
}

int DirectDriver::Fork(int other, int tokens) {
  CHECK(tokens >= 0 && tokens <= Of(other).length) << tokens;
  const int id = NewSequence(Of(other).params, Of(other).sampler.seed);
  const Sequence& from = Of(other);
  Sequence& to = Of(id);
  const auto full = static_cast<size_t>(tokens / kBlockTokens);
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + static_cast<std::ptrdiff_t>(full));
  to.owned.assign(full, false);
  to.prompt.assign(from.prompt.begin(),
                   from.prompt.begin() + std::min<std::ptrdiff_t>(tokens, std::ssize(from.prompt)));
  if (tokens % kBlockTokens != 0) {
    CHECK(Cover(to, tokens).ok());
    copies_.push_back({from.blocks[full], to.blocks[full]});
  }
  to.length = tokens;
  to.adapter = from.adapter;
  CHECK(from.state == kv::kNoSlot || tokens == 0 || tokens == from.length);
  if (tokens > 0) to.state_from = from.state;
  return id;
}

void DirectDriver::Evict(int sequence) {
  Sequence& s = Of(sequence);
  for (size_t i = 0; i < s.blocks.size(); ++i) {
    if (s.owned[i]) free_.push_back(s.blocks[i]);
  }
  s.blocks.clear();
  s.owned.clear();
  s.length = 0;
  s.state_from = kv::kNoSlot;
}

Status DirectDriver::Cover(Sequence& sequence, int tokens) {
  while (static_cast<int>(sequence.blocks.size()) * kBlockTokens < tokens) {
    if (free_.empty()) {
      return ResourceExhausted("kv_exhausted", "all " + std::to_string(runner_.limits().kv_blocks) +
                                                   " KV blocks are in use; raise --kv-cache-bytes");
    }
    sequence.blocks.push_back(free_.back());
    sequence.owned.push_back(true);
    free_.pop_back();
  }
  return OkStatus();
}

Result<engine::StepResult> DirectDriver::Step(std::span<const Part> parts) {
  plan_.step = ++step_;
  plan_.copies = std::move(copies_);
  copies_.clear();
  if (runner_.limits().window_blocks > 0) plan_.window_copies = plan_.copies;
  plan_.slices.clear();
  plan_.tokens = 0;
  for (const Part& part : parts) {
    Sequence& s = Of(part.sequence);
    const auto rows = static_cast<int>(part.tokens.size());
    RETURN_IF_ERROR(Cover(s, s.length + rows));
    if (s.output.empty()) {
      s.prompt.resize(static_cast<size_t>(s.length));  // tokens of an evicted prompt come again
      s.prompt.insert(s.prompt.end(), part.tokens.begin(), part.tokens.end());
    }
    s.sampler.prompt = s.prompt;
    s.output.insert(s.output.end(), part.tokens.end() - part.drafts, part.tokens.end());
    s.sampler.output = s.output;
    engine::SequenceSlice slice;
    slice.sequence = static_cast<uint32_t>(part.sequence);
    slice.tokens = part.tokens;
    slice.start = s.length;
    slice.blocks = s.blocks;
    if (runner_.limits().window_blocks > 0) {
      s.windows = s.blocks;
      const int seen = engine::FirstWindowBlock(s.length, runner_.limits().window);
      std::fill_n(s.windows.begin(), seen, kv::kNoSlot);
      slice.window_blocks = s.windows;
    }
    slice.sample = part.sample;
    slice.adapter = s.adapter;
    slice.state = s.state;
    slice.state_from = std::exchange(s.state_from, kv::kNoSlot);
    slice.drafts = part.drafts;
    slice.sampler = &s.sampler;
    slice.prompt_logprobs = part.prompt_logprobs;
    slice.next_token = part.next_token;
    plan_.slices.push_back(slice);
    plan_.tokens += rows;
  }
  runner_.Launch(plan_);
  engine::StepResult result = runner_.Collect();
  for (const Part& part : parts) {
    Sequence& s = Of(part.sequence);
    s.output.resize(s.output.size() - static_cast<size_t>(part.drafts));
  }
  if (!result.status.ok()) return result.status;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    Sequence& s = Of(part.sequence);
    const size_t first = part.tokens.size() - static_cast<size_t>(part.drafts);
    s.length += static_cast<int>(first);
    TokenId drawn = result.slices[i].token;
    for (size_t d = 0; drawn != kNoToken; ++d) {
      s.output.push_back(drawn);
      if (d == static_cast<size_t>(part.drafts) || part.tokens[first + d] != drawn) break;
      ++s.length;
      drawn = result.slices[i].more_tokens[d];
    }
  }
  return result;
}

Result<TokenId> DirectDriver::Prefill(int sequence, std::span<const TokenId> tokens, int chunk) {
  TokenId drawn = kNoToken;
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t count = std::min(tokens.size() - begin, static_cast<size_t>(chunk));
    const auto part_tokens = tokens.subspan(begin, count);
    begin += count;
    const Part part{sequence, {part_tokens.begin(), part_tokens.end()}, begin == tokens.size()};
    ASSIGN_OR_RETURN(const engine::StepResult result, Step({&part, 1}));
    RETURN_IF_ERROR(result.slices[0].status);
    drawn = result.slices[0].token;
  }
  return drawn;
}

Status DirectDriver::Decode(std::span<const int> sequences, std::vector<TokenId>& feed) {
  std::vector<Part> parts;
  for (size_t i = 0; i < sequences.size(); ++i) parts.push_back({sequences[i], {feed[i]}});
  ASSIGN_OR_RETURN(const engine::StepResult result, Step(parts));
  for (size_t i = 0; i < sequences.size(); ++i) {
    RETURN_IF_ERROR(result.slices[i].status);
    feed[i] = result.slices[i].token;
  }
  return OkStatus();
}

}  // namespace tutti::runner
