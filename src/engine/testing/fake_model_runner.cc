#include "engine/testing/fake_model_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace tutti::engine::testing {
namespace {

constexpr uint64_t kEmptyHistory = 0x9E3779B97F4A7C15ULL;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 29);
}

// The chain of a sequence begins with what its adapter changes.
uint64_t EmptyHistory(const Adapter* adapter) {
  return adapter == nullptr ? kEmptyHistory
                            : Mix(kEmptyHistory, std::hash<std::string>()(adapter->digest()));
}

uint64_t Extend(uint64_t hash, TokenId token) { return Mix(hash, static_cast<uint64_t>(token)); }

// The recurrence of the states: of another kind than the chain of hashes in the blocks.
uint64_t Recur(uint64_t state, TokenId token) {
  return state * 0xD6E8FEB86659FD93ULL + static_cast<uint64_t>(token) + 1;
}

}  // namespace

FakeModelRunner::FakeModelRunner(const FakeModelOptions& options)
    : options_(options),
      slots_(static_cast<size_t>(options.limits.kv_blocks) * kBlockTokens),
      uses_(static_cast<size_t>(options.limits.kv_blocks)),
      window_slots_(static_cast<size_t>(options.limits.window_blocks) * kBlockTokens),
      window_uses_(static_cast<size_t>(options.limits.window_blocks)),
      states_(static_cast<size_t>(options.limits.state_slots)),
      row_(static_cast<size_t>(options.limits.vocab_size)) {}

void FakeModelRunner::Violate(std::string text) {
  if (violations_.size() < 20)
    violations_.push_back("step " + std::to_string(steps_) + ": " + std::move(text));
}

kv::PrefixShape FakeModelRunner::memory_shape() const {
  const RunnerLimits& limits = options_.limits;
  return {.block_bytes = kBlockTokens * sizeof(Slot),
          .window_block_bytes = limits.window_blocks > 0 ? kBlockTokens * sizeof(Slot) : 0,
          .state_bytes = limits.state_slots > 0 ? sizeof(State) : 0};
}

std::span<std::byte> FakeModelRunner::MemoryOf(MemoryKind kind, int32_t id) {
  const RunnerLimits& limits = options_.limits;
  const int count = kind == MemoryKind::kBlock         ? limits.kv_blocks
                    : kind == MemoryKind::kWindowBlock ? limits.window_blocks
                                                       : limits.state_slots;
  if (in_flight_ || id < 0 || id >= count) {
    Violate("a copy of memory that may not be copied now");
    return {};
  }
  const auto at = static_cast<size_t>(id);
  if (kind == MemoryKind::kState) return std::as_writable_bytes(std::span(states_).subspan(at, 1));
  std::vector<Slot>& slots = kind == MemoryKind::kBlock ? slots_ : window_slots_;
  return std::as_writable_bytes(std::span(slots).subspan(at * kBlockTokens, kBlockTokens));
}

void FakeModelRunner::CopyOut(MemoryKind kind, int32_t id, std::span<std::byte> out) {
  const std::span<std::byte> memory = MemoryOf(kind, id);
  if (memory.size() != out.size()) return Violate("a copy of the wrong size");
  std::copy(memory.begin(), memory.end(), out.begin());
}

void FakeModelRunner::CopyIn(MemoryKind kind, int32_t id, std::span<const std::byte> in) {
  const std::span<std::byte> memory = MemoryOf(kind, id);
  if (memory.size() != in.size()) return Violate("a copy of the wrong size");
  std::copy(in.begin(), in.end(), memory.begin());
}

FakeModelRunner::Slot& FakeModelRunner::At(const SequenceSlice& slice, int position) {
  const kv::BlockId block = slice.blocks[static_cast<size_t>(position / kBlockTokens)];
  return slots_[static_cast<size_t>(block) * kBlockTokens +
                static_cast<size_t>(position % kBlockTokens)];
}

void FakeModelRunner::CheckPlan(const StepPlan& plan) {
  const RunnerLimits& limits = options_.limits;
  int tokens = 0;
  if (static_cast<int>(plan.slices.size()) > limits.max_step_slices) Violate("too many slices");
  bool prefill_seen = false;
  for (const SequenceSlice& slice : plan.slices) {
    const auto n = static_cast<int>(slice.tokens.size());
    tokens += n;
    if (n < 1) Violate("an empty slice");
    if (slice.drafts < 0 || slice.drafts > kMaxDrafts || n < 1 + slice.drafts)
      Violate("more proposals than a slice may have");
    if (slice.drafts > 0 && (!slice.sample || n != 1 + slice.drafts))
      Violate("proposals without a decode row");
    if (n > 1 + slice.drafts) prefill_seen = true;
    if (n == 1 + slice.drafts && prefill_seen && slice.sampler != nullptr &&
        !slice.sampler->output.empty()) {
      Violate("a decode row after a prefill chunk");
    }
    const int blocks = BlocksFor(slice.start + n);
    if (static_cast<int>(slice.blocks.size()) < blocks) Violate("the block table is too short");
    if (slice.start + n > limits.context) Violate("longer than the context");
    for (const kv::BlockId b : slice.blocks) {
      if (b < 0 || b >= limits.kv_blocks) Violate("block id out of range");
    }
    if (slice.sample != (slice.sampler != nullptr)) Violate("sampler without draw, or the reverse");
  }
  if (tokens != plan.tokens) Violate("the plan miscounts its tokens");
  if (tokens > limits.max_step_tokens) Violate("more tokens than the scratch holds");
  largest_step_tokens_ = std::max(largest_step_tokens_, tokens);
  // A block that one sequence writes in this step may be in no other table.
  for (const SequenceSlice& slice : plan.slices) {
    CheckUses(slice, slice.blocks, uses_);
    if (slice.window_blocks.size() != (limits.window_blocks > 0 ? slice.blocks.size() : 0))
      Violate("the table of the window is not as long as the other");
    CheckUses(slice, slice.window_blocks, window_uses_);
  }
}

void FakeModelRunner::CheckUses(const SequenceSlice& slice, std::span<const kv::BlockId> blocks,
                                std::vector<BlockUse>& uses) {
  const size_t first_written = static_cast<size_t>(slice.start / kBlockTokens);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == kv::kNoSlot) continue;  // behind the window
    BlockUse& use = uses[static_cast<size_t>(blocks[i])];
    const bool writes = i >= first_written;
    const bool used_before = use.step == steps_;
    if (used_before && use.sequence != slice.sequence && (writes || use.written)) {
      Violate("block " + std::to_string(blocks[i]) + " of sequence " +
              std::to_string(slice.sequence) + " is written while sequence " +
              std::to_string(use.sequence) + " holds it");
    }
    if (used_before && use.sequence == slice.sequence) Violate("a block twice in one table");
    use = {steps_, slice.sequence, writes || (used_before && use.written)};
  }
}

FakeModelRunner::Slot& FakeModelRunner::WindowAt(const SequenceSlice& slice, int position) {
  const kv::SlotId block = slice.window_blocks[static_cast<size_t>(position / kBlockTokens)];
  return window_slots_[static_cast<size_t>(block) * kBlockTokens +
                       static_cast<size_t>(position % kBlockTokens)];
}

// After ReadHistory: what the rows of the slice see in layers with a window is what the other
// layers hold.
void FakeModelRunner::ReadWindow(const SequenceSlice& slice) {
  const int window = options_.limits.window;
  const int end = slice.start + static_cast<int>(slice.tokens.size());
  const auto missing = [&](int position) {
    const auto block = static_cast<size_t>(position / kBlockTokens);
    return block >= slice.window_blocks.size() || slice.window_blocks[block] == kv::kNoSlot;
  };
  for (int p = std::max(0, slice.start - window + 1); p < end; ++p) {
    if (missing(p)) {
      window_missing_ = true;
      return Violate("sequence " + std::to_string(slice.sequence) +
                     " has no block in its window at position " + std::to_string(p));
    }
    if (p >= slice.start) continue;
    const Slot& seen = WindowAt(slice, p);
    const Slot& slot = At(slice, p);
    if (seen.position != p || seen.hash != slot.hash || seen.token != slot.token) {
      return Violate("sequence " + std::to_string(slice.sequence) +
                     " reads foreign KV in its window at position " + std::to_string(p));
    }
  }
}

void FakeModelRunner::CheckStates(const StepPlan& plan) {
  const auto valid = [&](kv::SlotId id) {
    return id >= 0 && static_cast<size_t>(id) < states_.size();
  };
  std::vector<int> writers(states_.size(), 0);
  for (const SequenceSlice& slice : plan.slices) {
    if (states_.empty()) {
      if (slice.state != kv::kNoSlot || slice.state_from != kv::kNoSlot ||
          slice.state_save != kv::kNoSlot)
        Violate("a state of a model without states");
      continue;
    }
    if (slice.drafts > 0) Violate("proposals for a model with states");
    if (!valid(slice.state)) {
      Violate("a slice without a state");
      continue;
    }
    ++writers[static_cast<size_t>(slice.state)];
    if (slice.state_save == kv::kNoSlot) continue;
    if (!valid(slice.state_save)) Violate("state out of range");
    ++writers[static_cast<size_t>(slice.state_save)];
  }
  if (plan.abortable && !states_.empty()) Violate("a step that changes states may be aborted");
  if (std::any_of(writers.begin(), writers.end(), [](int n) { return n > 1; }))
    Violate("a state is written twice in a step");
  for (const SequenceSlice& slice : plan.slices) {
    if (slice.state_from == kv::kNoSlot) continue;
    if (!valid(slice.state_from) || writers[static_cast<size_t>(slice.state_from)] > 0)
      Violate("a checkpoint is read and written in one step");
    if (slice.start == 0) Violate("a sequence begins with a checkpoint");
  }
}

FakeModelRunner::State FakeModelRunner::LoadState(const SequenceSlice& slice) {
  if (states_.empty()) return {};
  if (slice.start == 0) return {.tokens = 0, .value = kEmptyHistory};
  const kv::SlotId from = slice.state_from != kv::kNoSlot ? slice.state_from : slice.state;
  const State state = states_[static_cast<size_t>(from)];
  if (state.tokens != slice.start) {
    Violate("sequence " + std::to_string(slice.sequence) + " continues at " +
            std::to_string(slice.start) + " with the state after " + std::to_string(state.tokens) +
            " tokens");
  }
  return state;
}

uint64_t FakeModelRunner::ReadHistory(const SequenceSlice& slice) {
  uint64_t hash = EmptyHistory(slice.adapter);
  for (int p = 0; p < slice.start; ++p) {
    const Slot& slot = At(slice, p);
    hash = Extend(hash, slot.token);
    if (slot.position != p || slot.hash != hash) {
      Violate("sequence " + std::to_string(slice.sequence) + " reads foreign KV at position " +
              std::to_string(p));
      return hash;
    }
  }
  return hash;
}

void FakeModelRunner::FillRow(uint64_t hash) {
  for (size_t i = 0; i < row_.size(); ++i) {
    const uint64_t bits = Mix(hash, i);
    row_[i] = static_cast<float>(bits >> 40) * (8.0F / 16777216.0F) - 4.0F;
  }
}

uint64_t FakeModelRunner::KeyOf(uint64_t hash, TokenId last) const {
  const bool circles = options_.repeats_itself && Mix(hash, 3) % 8 != 0;
  const uint64_t key = circles ? Extend(kEmptyHistory, last) : hash;
  const bool salted =
      options_.salt != 0 && static_cast<int>(Mix(hash, 5) % 8) < options_.salted_parts;
  return salted ? Mix(key, options_.salt) : key;
}

TokenId FakeModelRunner::Next(uint64_t hash, const sampling::RowState& state, Status* status,
                              std::optional<sampling::RowLogprobs>* logprobs) {
  const auto vocab = static_cast<uint64_t>(options_.limits.vocab_size);
  if (!options_.sample_rows) {
    if (state.greedy()) return static_cast<TokenId>(Mix(hash, 1) % vocab);
    const double u = UniformAt(state.seed, state.stream, state.output.size());
    if (options_.repeats_itself && u < 0.8) return static_cast<TokenId>(Mix(hash, 1) % vocab);
    return static_cast<TokenId>(Mix(hash, static_cast<uint64_t>(u * 9007199254740992.0)) % vocab);
  }
  FillRow(hash);
  const std::vector<float> raw = state.params->logprobs >= 0 ? row_ : std::vector<float>();
  sampling::Draw draw = sampling::SampleRow(row_, state, scratch_);
  *status = std::move(draw.status);
  if (logprobs != nullptr && status->ok() && state.params->logprobs >= 0) {
    *logprobs = sampling::RowLogprobsOf(raw, draw.token, state.params->logprobs, scratch_);
  }
  return draw.token;
}

void FakeModelRunner::RunSlice(const SequenceSlice& slice, SliceResult& result) {
  uint64_t hash = ReadHistory(slice);
  State state = LoadState(slice);
  if (!window_slots_.empty()) ReadWindow(slice);
  const bool writes_window = !window_slots_.empty() && !window_missing_;
  const auto n = static_cast<int>(slice.tokens.size());
  for (int i = 0; i < n; ++i) {
    const TokenId token = slice.tokens[static_cast<size_t>(i)];
    hash = Extend(hash, token);
    At(slice, slice.start + i) = {token, slice.start + i, hash};
    if (writes_window) WindowAt(slice, slice.start + i) = At(slice, slice.start + i);
    if (!states_.empty()) state = {state.tokens + 1, Recur(state.value, token)};
    const uint64_t row = states_.empty() ? hash : Mix(hash, state.value);
    if (const int draw = i - (n - 1 - slice.drafts); slice.sample && draw >= 0) {
      Status status;
      std::optional<sampling::RowLogprobs> logprobs;
      const TokenId drawn = Next(KeyOf(row, token), HistoryOf(slice, draw), &status, &logprobs);
      if (draw == 0) {
        result.token = drawn;
        result.status = std::move(status);
        result.logprobs = std::move(logprobs);
      } else {
        result.more_tokens[static_cast<size_t>(draw) - 1] = status.ok() ? drawn : kNoToken;
        if (slice.sampler->params->logprobs >= 0)
          result.more_logprobs.push_back(std::move(logprobs).value_or(sampling::RowLogprobs()));
      }
    }
    if (slice.prompt_logprobs >= 0 && i >= slice.unscored) {
      const TokenId next = i + 1 < n ? slice.tokens[static_cast<size_t>(i) + 1] : slice.next_token;
      if (next != kNoToken) {
        FillRow(KeyOf(row, token));
        result.prompt_logprobs.push_back(sampling::RowLogprobsOf(
            row_, next, slice.prompt_logprobs, scratch_,
            i == slice.unscored ? slice.alternatives : std::span<const TokenId>()));
      }
    }
  }
  if (!states_.empty()) {
    states_[static_cast<size_t>(slice.state)] = state;
    if (slice.state_save != kv::kNoSlot) states_[static_cast<size_t>(slice.state_save)] = state;
  }
  tokens_computed_ += static_cast<uint64_t>(n);
}

void FakeModelRunner::Launch(const StepPlan& plan) {
  ++steps_;
  if (in_flight_) Violate("a step was launched while another was in flight");
  in_flight_ = true;
  CheckPlan(plan);
  CheckStates(plan);
  if (!violations_.empty() && !states_.empty()) {  // its slots may be out of range
    result_ = {};
    result_.status = Internal(violations_.front());
    return;
  }
  result_ = std::move(spare_);
  result_.status = OkStatus();
  result_.forward = Duration(0);
  result_.slices.resize(plan.slices.size());
  for (SliceResult& slice : result_.slices) {
    slice.status = OkStatus();
    slice.token = kNoToken;
    slice.logprobs.reset();
    slice.more_tokens = SliceResult::NoTokens();
    slice.more_logprobs.clear();
    slice.prompt_logprobs.clear();
  }
  const Status whole = fault ? fault(plan, nullptr) : OkStatus();
  for (const BlockCopy& copy : plan.copies) {
    std::copy_n(slots_.begin() + copy.from * kBlockTokens, kBlockTokens,
                slots_.begin() + copy.to * kBlockTokens);
  }
  for (const BlockCopy& copy : plan.window_copies) {
    std::copy_n(window_slots_.begin() + copy.from * kBlockTokens, kBlockTokens,
                window_slots_.begin() + copy.to * kBlockTokens);
  }
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    RunSlice(plan.slices[i], result_.slices[i]);
    if (fault) {
      if (Status failed = fault(plan, &plan.slices[i]); !failed.ok()) {
        result_.slices[i].status = std::move(failed);
        SpoilStates(plan.slices[i]);
      }
    }
  }
  if (!whole.ok()) {
    Spoil(plan);
    result_.status = whole;
  }
  if (step_time) result_.forward = step_time(plan);
  result_.aborted = whole.ok() && plan.abortable && urgent_ != nullptr && urgent_->load();
  if (!result_.aborted) return;
  Spoil(plan);
  ++aborted_steps_;
}

// Spoils what a discarded step has left behind, so that any use of it shows.
void FakeModelRunner::Spoil(const StepPlan& plan) {
  for (const BlockCopy& copy : plan.copies) {
    for (int i = 0; i < kBlockTokens; ++i)
      slots_[static_cast<size_t>(copy.to * kBlockTokens + i)] = {};
  }
  for (const BlockCopy& copy : plan.window_copies) {
    for (int i = 0; i < kBlockTokens; ++i)
      window_slots_[static_cast<size_t>(copy.to * kBlockTokens + i)] = {};
  }
  for (const SequenceSlice& slice : plan.slices) {
    for (int i = 0; i < static_cast<int>(slice.tokens.size()); ++i) {
      At(slice, slice.start + i) = {};
      if (!window_slots_.empty() && !window_missing_) WindowAt(slice, slice.start + i) = {};
    }
    SpoilStates(slice);
  }
}

void FakeModelRunner::SpoilStates(const SequenceSlice& slice) {
  for (const kv::SlotId id : {slice.state, slice.state_save}) {
    if (id != kv::kNoSlot) states_[static_cast<size_t>(id)] = {};
  }
}

StepResult FakeModelRunner::Collect() {
  if (!in_flight_) Violate("collected without a launch");
  in_flight_ = false;
  return std::move(result_);
}

void FakeModelRunner::Recycle(StepResult used) { spare_ = std::move(used); }

std::vector<TokenId> FakeModelRunner::Solo(const std::vector<TokenId>& prompt,
                                           const sampling::RowState& given, int max_tokens,
                                           const std::vector<TokenId>& end_tokens,
                                           const Adapter* adapter) {
  uint64_t hash = EmptyHistory(adapter);
  uint64_t recurrent = kEmptyHistory;
  const auto extend = [&](TokenId token) {
    hash = Extend(hash, token);
    recurrent = Recur(recurrent, token);
  };
  for (const TokenId token : prompt) extend(token);
  std::vector<TokenId> output;
  output.reserve(static_cast<size_t>(max_tokens));
  sampling::RowState state = given;
  state.prompt = prompt;
  while (static_cast<int>(output.size()) < max_tokens) {
    state.output = output;
    Status status;
    const TokenId last = output.empty() ? prompt.back() : output.back();
    const uint64_t row = states_.empty() ? hash : Mix(hash, recurrent);
    const TokenId token = Next(KeyOf(row, last), state, &status, nullptr);
    if (!status.ok()) break;
    output.push_back(token);
    if (std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end()) break;
    extend(token);
  }
  return output;
}

Duration TimingModel::TimeOf(const StepPlan& plan) const {
  Duration took = base;
  for (const SequenceSlice& slice : plan.slices) {
    const bool decodes = slice.sampler != nullptr && !slice.sampler->output.empty() &&
                         slice.tokens.size() == 1 + static_cast<size_t>(slice.drafts);
    took +=
        (decodes ? per_decode_row : per_prefill_token) * static_cast<int64_t>(slice.tokens.size());
  }
  return took;
}

void FakeTokenText::AppendBytes(TokenId id, bool /*first*/, bool skip_special,
                                std::string& bytes) const {
  if (IsSpecial(id)) {
    if (!skip_special) bytes += "<s>";
    return;
  }
  if (split_ && id % 5 == 3) {
    bytes += "\xE2\x82";  // the first two bytes of the euro sign
    return;
  }
  if (split_ && id % 5 == 4) {
    bytes += "\xAC";  // its last one
    return;
  }
  bytes += static_cast<char>('a' + id % 26);
  bytes += static_cast<char>('a' + id / 26 % 26);
  bytes += ' ';
}

}  // namespace tutti::engine::testing
