#include "engine/prefix_transfer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/policy/window.h"

namespace tutti::engine {
namespace {

// Loading or saving less costs more than computing it.
constexpr int kLeastTransferred = 2 * kBlockTokens;
// Loads at a time. Each has kPiecesAhead pieces in memory.
constexpr size_t kMaxLoads = 4;
constexpr size_t kPiecesAhead = 2;
// Bytes of a file, and of a piece of a load; a single block may be larger.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Bytes that are copied between two steps: about 0.2 ms, in which no sequence waits noticeably.
constexpr size_t kBusyCopyBytes = size_t{1} << 20;
// Ended sequences whose blocks wait to be copied.
constexpr size_t kMaxSaves = 64;
constexpr size_t kMaxWriteBlocks = 64;

}  // namespace

size_t UsableBlocks(std::span<kv::StoredBlock> blocks, int first_block, bool states, bool windows,
                    int window) {
  // Blocks before position `end` that the next token sees in layers with a window.
  const auto first_seen = [&](size_t count) {
    const int end =
        (first_block + static_cast<int>(count) - 1) * kBlockTokens + blocks[count - 1].tokens;
    return std::max(FirstWindowBlock(end, window) - first_block, 0);
  };
  const auto sees_all = [&](size_t count) {
    for (auto i = static_cast<size_t>(first_seen(count)); i < count; ++i) {
      if (!blocks[i].parts.window_block) return false;
    }
    return true;
  };
  size_t count = blocks.size();
  while (count > 0 && ((states && !blocks[count - 1].parts.state) || (windows && !sees_all(count))))
    --count;
  for (size_t i = 0; i < count; ++i) {
    blocks[i].parts.state &= states && i + 1 == count;
    blocks[i].parts.window_block &= windows && static_cast<int>(i) >= first_seen(count);
  }
  return count;
}

PrefixTransfer::PrefixTransfer(kv::PrefixStore* store, ModelRunner* runner, kv::KvBlockPool* pool,
                               int window, Duration patience)
    : store_(*store),
      runner_(*runner),
      pool_(*pool),
      shape_(store->shape()),
      window_(window),
      patience_(patience) {
  CHECK(shape_ == runner->memory_shape() && shape_ != kv::PrefixShape());
}

PrefixTransfer::~PrefixTransfer() { EndLoads(); }

// --- saving ---

kv::BlockParts PrefixTransfer::PartsOf(kv::BlockId block) const {
  return {.window_block = pool_.window_blocks().Of(block) != kv::kNoSlot,
          .state = pool_.states().Of(block) != kv::kNoSlot};
}

void PrefixTransfer::Save(const Sequence& s, kv::BlockId tail) {
  if (s.root == kv::kNoRoot) return;
  // Only a state makes a partly filled block worth its bytes: other hits compute its tokens again.
  const bool with_tail = tail != kv::kNoBlock && shape_.state_bytes > 0;
  const int tokens = with_tail ? s.computed : s.indexed * kBlockTokens;
  if (tokens < kLeastTransferred) return;
  if (saves_.size() >= kMaxSaves) {
    stats_.dropped_blocks += static_cast<uint64_t>(BlocksFor(tokens) - s.found);
    return;
  }
  SaveJob& job = saves_.emplace_back();
  job.root = pool_.index().NameOf(s.root);
  job.tokens.assign(s.tokens.begin(), s.tokens.begin() + tokens);
  const auto ids = s.blocks.ids().first(static_cast<size_t>(s.indexed));
  job.blocks.assign(ids.begin(), ids.end());
  if (with_tail && tokens > s.indexed * kBlockTokens) job.blocks.push_back(tail);
  for (const kv::BlockId block : job.blocks) {
    job.generations.push_back(pool_.generation(block));
    job.parts.push_back(PartsOf(block));
  }
}

bool PrefixTransfer::CopyOutBlock(SaveJob& job, size_t i) {
  const kv::BlockId block = job.blocks[i];
  if (pool_.generation(block) != job.generations[i] || !pool_.index().indexed(block)) return false;
  const kv::BlockParts parts = PartsOf(block);
  if (write_.parts.empty()) write_.first_block = static_cast<int>(i);
  const size_t begin = write_.memory.size();
  write_.memory.resize(begin + kv::BytesOf(shape_, parts));
  std::span<std::byte> out = std::span(write_.memory).subspan(begin);
  runner_.CopyOut(MemoryKind::kBlock, block, out.first(shape_.block_bytes));
  out = out.subspan(shape_.block_bytes);
  if (parts.window_block) {
    runner_.CopyOut(MemoryKind::kWindowBlock, pool_.window_blocks().Of(block),
                    out.first(shape_.window_block_bytes));
    out = out.subspan(shape_.window_block_bytes);
  }
  if (parts.state) runner_.CopyOut(MemoryKind::kState, pool_.states().Of(block), out);
  write_.parts.push_back(parts);
  write_.names.push_back(job.of->names[i]);
  return true;
}

// Gives the store what was copied. False if it has no room for it now.
bool PrefixTransfer::SubmitSave() {
  const SaveJob& job = saves_.front();
  if (!write_refused_) {
    const size_t end =
        (static_cast<size_t>(write_.first_block) + write_.parts.size()) * kBlockTokens;
    write_.root = job.root;
    write_.tokens.assign(job.tokens.begin(), job.tokens.begin() + static_cast<ptrdiff_t>(std::min(
                                                                      end, job.tokens.size())));
  }
  const uint64_t blocks = write_.parts.size();
  write_refused_ = !store_.Write(std::move(write_));
  if (write_refused_) return false;
  stats_.saved_blocks += blocks;
  write_ = {};
  return true;
}

// The blocks of the job from `next` on are gone.
void PrefixTransfer::DropRest(SaveJob& job) {
  const auto from = job.of->missing.begin() + static_cast<ptrdiff_t>(job.next);
  stats_.dropped_blocks +=
      static_cast<uint64_t>(std::count(from, job.of->missing.end(), /*value=*/true));
  std::fill(from, job.of->missing.end(), false);
}

void PrefixTransfer::MoveSaves(size_t budget) {
  while (budget > 0 && !saves_.empty()) {
    if (write_refused_ && !SubmitSave()) return;
    SaveJob& job = saves_.front();
    if (!job.of) job.of = store_.Missing(job.root, job.tokens, job.parts);
    const bool ended = job.next == job.blocks.size();
    if (ended || !job.of->missing[job.next]) {
      // A file holds consecutive blocks.
      if (!write_.parts.empty() && !SubmitSave()) return;
      if (ended) {
        saves_.pop_front();
      } else {
        ++job.next;
      }
      continue;
    }
    if (!CopyOutBlock(job, job.next)) {
      DropRest(job);
      continue;
    }
    ++job.next;
    budget -= std::min(budget, kv::BytesOf(shape_, write_.parts.back()));
    const bool full = write_.memory.size() + shape_.block_bytes > kPieceBytes ||
                      write_.parts.size() == kMaxWriteBlocks;
    if (full && !SubmitSave()) return;
  }
}

// --- loading ---

bool PrefixTransfer::IsLoading(const Sequence& s, int first_block) const {
  const auto from = static_cast<size_t>(first_block) * kBlockTokens;
  for (const Load& load : loads_) {
    if (load.sequence->root != s.root || load.first_block > first_block) continue;
    const std::vector<TokenId>& tokens = *load.tokens;
    const size_t end = std::min(from + kBlockTokens, tokens.size());
    if (end <= from || end > s.tokens.size()) continue;
    if (std::equal(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(end), s.tokens.begin()))
      return true;
  }
  return false;
}

void PrefixTransfer::Ask(Sequence& s, std::span<const kv::BlockId> known, TimePoint now) {
  if (s.load != LoadState::kNone) return;
  if (s.load_deadline == TimePoint::max()) s.load_deadline = now + patience_;
  const auto first_block = static_cast<int>(known.size());
  const auto tokens =
      std::span<const TokenId>(s.tokens).first(static_cast<size_t>(std::max(s.reusable(), 0)));
  if (static_cast<int>(tokens.size()) - first_block * kBlockTokens < kLeastTransferred) {
    s.load = LoadState::kDone;
    return;
  }
  s.load_asked_at = ended_loads_;  // asks again when a load has ended
  if (IsLoading(s, first_block)) return;
  const kv::RootId root = s.root;
  std::string name(pool_.index().NameOf(root));
  std::vector<kv::StoredBlock> wanted = store_.Find(name, tokens, first_block);
  wanted.resize(UsableBlocks(wanted, first_block, shape_.state_bytes > 0,
                             shape_.window_block_bytes > 0, window_));
  int gain = 0;
  for (const kv::StoredBlock& block : wanted) gain += block.tokens;
  if (gain < kLeastTransferred) {
    s.load = LoadState::kDone;
    return;
  }
  if (loads_.size() >= kMaxLoads) return;
  Load& load = loads_.emplace_back();
  load.sequence = &s;
  load.root = std::move(name);
  load.tokens = std::make_shared<const std::vector<TokenId>>(tokens.begin(), tokens.end());
  load.first_block = first_block;
  load.wanted = std::move(wanted);
  load.deadline = s.load_deadline;
  pool_.Share(load.table, known);
  s.load = LoadState::kLoading;
  ++stats_.loads;
  ReadMore(load);
}

bool PrefixTransfer::Waits(Sequence& s, TimePoint now) {
  if (s.load == LoadState::kDone) return false;
  if (now < s.load_deadline) return true;
  Cancel(s);
  return false;
}

void PrefixTransfer::Cancel(Sequence& s) {
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (loads_[i].sequence == &s) return End(i);
  }
  s.load = LoadState::kDone;
}

void PrefixTransfer::End(size_t i) {
  Load& load = loads_[i];
  pool_.Release(load.table);
  load.sequence->load = LoadState::kDone;
  load.sequence->load_failed = load.entered < load.wanted.size();
  load.sequence->loaded_from = load.first_block * kBlockTokens;
  for (size_t k = 0; k < load.entered; ++k) load.sequence->loaded_tokens += load.wanted[k].tokens;
  load.sequence->refused_at.reset();
  stats_.failed_loads += load.sequence->load_failed ? 1 : 0;
  std::swap(loads_[i], loads_.back());
  loads_.pop_back();
  ++ended_loads_;
}

bool PrefixTransfer::EndLoads() {
  const bool any = !loads_.empty();
  while (!loads_.empty()) End(loads_.size() - 1);
  return any;
}

void PrefixTransfer::ReadMore(Load& load) {
  while (load.pieces.size() < kPiecesAhead && load.asked < load.wanted.size()) {
    const size_t begin = load.asked;
    size_t end = begin, bytes = 0;
    do {
      bytes += kv::BytesOf(shape_, load.wanted[end].parts);
      ++end;
    } while (end < load.wanted.size() && load.wanted[end].file == load.wanted[begin].file &&
             load.wanted[end].place == load.wanted[end - 1].place + 1 &&
             bytes + kv::BytesOf(shape_, load.wanted[end].parts) <= kPieceBytes);
    Piece& piece = load.pieces.emplace_back();
    piece.id = ++last_id_;
    piece.begin = begin;
    piece.end = end;
    load.asked = end;
    kv::PrefixRead read{.id = piece.id,
                        .root = load.root,
                        .tokens = load.tokens,
                        .first_block = load.first_block + static_cast<int>(begin),
                        .blocks = {}};
    read.blocks.assign(load.wanted.begin() + static_cast<ptrdiff_t>(begin),
                       load.wanted.begin() + static_cast<ptrdiff_t>(end));
    store_.Read(std::move(read));
    ++reading_;
  }
}

void PrefixTransfer::TakeResults() {
  if (reading_ == 0) return;
  store_.Take(results_);
  reading_ -= static_cast<int>(results_.size());
  for (kv::PrefixReadResult& result : results_) {
    for (size_t i = 0; i < loads_.size(); ++i) {
      auto& pieces = loads_[i].pieces;
      const auto piece = std::find_if(pieces.begin(), pieces.end(),
                                      [&](const Piece& p) { return p.id == result.id; });
      if (piece == pieces.end()) continue;
      if (!result.ok) {
        // What was entered stays: it is a beginning of the prefix.
        End(i);
        break;
      }
      piece->memory = std::move(result.memory);
      piece->read = true;
      break;
    }
  }
  results_.clear();
}

void PrefixTransfer::EnterSlot(kv::SlotPool& slots, MemoryKind kind, kv::BlockId block,
                               std::span<const std::byte> memory) {
  if (slots.Of(block) != kv::kNoSlot) return;
  const kv::SlotId slot = slots.Take();
  if (slot == kv::kNoSlot) return;  // all are in use: the hit ends earlier
  runner_.CopyIn(kind, slot, memory);
  slots.Attach(block, slot);
  slots.Drop(slot);
}

// Enters the next block of a load, which was read. False if the pool has no block for it.
bool PrefixTransfer::EnterBlock(Load& load) {
  Piece& piece = load.pieces.front();
  const kv::StoredBlock& stored = load.wanted[load.entered];
  Result<kv::KvReservation> reservation = pool_.Reserve(load.table, 1, load.sequence->id);
  if (!reservation.ok()) return false;
  reservation->Commit();
  const int i = load.table.size() - 1;
  std::span<const std::byte> memory = std::span(piece.memory).subspan(piece.offset);
  piece.offset += kv::BytesOf(shape_, stored.parts);
  runner_.CopyIn(MemoryKind::kBlock, load.table[i], memory.first(shape_.block_bytes));
  memory = memory.subspan(shape_.block_bytes);
  const auto tokens =
      std::span<const TokenId>(*load.tokens)
          .subspan(static_cast<size_t>(i) * kBlockTokens, static_cast<size_t>(stored.tokens));
  const kv::BlockId block = pool_.Index(load.table, i, load.sequence->root, tokens);
  if (stored.parts.window_block) {
    EnterSlot(pool_.window_blocks(), MemoryKind::kWindowBlock, block,
              memory.first(shape_.window_block_bytes));
    memory = memory.subspan(shape_.window_block_bytes);
  }
  if (stored.parts.state)
    EnterSlot(pool_.states(), MemoryKind::kState, block, memory.first(shape_.state_bytes));
  ++load.entered;
  stats_.loaded_tokens += static_cast<uint64_t>(stored.tokens);
  if (load.entered == piece.end) load.pieces.pop_front();
  return true;
}

void PrefixTransfer::MoveLoads(TimePoint now, size_t& budget) {
  TakeResults();
  for (size_t i = 0; i < loads_.size();) {
    Load& load = loads_[i];
    bool fits = true;
    while (fits && budget > 0 && !load.pieces.empty() && load.pieces.front().read) {
      budget -= std::min(budget, kv::BytesOf(shape_, load.wanted[load.entered].parts));
      fits = EnterBlock(load);
    }
    ReadMore(load);
    if (!fits || load.entered == load.wanted.size() || now >= load.deadline) {
      End(i);
    } else {
      ++i;
    }
  }
}

// --- between steps ---

TimePoint PrefixTransfer::Move(TimePoint now, bool busy) {
  size_t budget =
      busy ? kBusyCopyBytes : kPieceBytes;  // bytes that loads and saves may copy together
  MoveLoads(now, budget);
  MoveSaves(budget);
  TimePoint next = TimePoint::max();
  for (const Load& load : loads_) {
    next = std::min(next, load.deadline);
    if (!load.pieces.empty() && load.pieces.front().read) next = now;
  }
  if (!saves_.empty() && !write_refused_) next = now;
  return next;
}

void PrefixTransfer::Flush(Duration most) {
  const auto end = std::chrono::steady_clock::now() + most;
  do {
    MoveSaves(kPieceBytes);
    if (saves_.empty() && store_.Idle()) return;
    if (write_refused_ || saves_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < end);
}

void PrefixTransfer::AppendHeldBlocks(std::vector<kv::BlockId>& blocks) const {
  for (const Load& load : loads_) {
    const auto ids = load.table.ids();
    blocks.insert(blocks.end(), ids.begin(), ids.end());
  }
}

}  // namespace tutti::engine
