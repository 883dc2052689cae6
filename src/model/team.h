// Team: how the workers of one forward pass share its phases.
//
// A pass is SPMD: every worker runs the same function and meets the others at the same sequence of
// phases. A phase is n items; each worker claims pieces of its own fixed share first (the same
// panels every step: warm caches, local pages), then helps the others. A phase is over when its
// items are done, not when every worker has arrived: a worker that the kernel preempted delays the
// others by at most the piece that it holds, and later skips the phases that it missed. So code
// between phases must not read data that phases write; only the function given to a phase may,
// because it holds a claim while it runs.
//
// Between phases a worker yields to threads with short work (base/core_wanted.h).
//
// Waiting spins, since a phase takes microseconds and a kernel wake-up tens of them; after a while
// it yields its time slice and then sleeps in short turns (SpinWait).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "base/core_wanted.h"

namespace tutti::model {

// How a worker waits for other workers that should be done within microseconds.
//
// It spins first: a kernel wake-up costs more than the difference between workers of a balanced
// phase. Then it yields its time slice, so that more workers than free cores make progress. When
// that has not helped, the other worker was preempted by another process, for milliseconds. Then
// the waiting worker sleeps in short turns: the kernel moves a preempted thread to an idle core,
// and a core with a spinning thread never looks idle. One object per wait; any thread.
class SpinWait {
 public:
  void Pause();  // call it between looks

 private:
  int turns_ = 0;
};

// State that the workers of a team share. Owner: the compute pool. Counters only grow, over the
// life of the board: no phase needs to reset anything, and a late worker detects that its phase is
// over.
class PhaseBoard {
 public:
  explicit PhaseBoard(int workers);
  int workers() const { return workers_; }

 private:
  friend class Team;
  // Pieces taken of worker w's share: phase << 16 | pieces. A word of an older phase means none.
  struct alignas(64) Claims {
    std::atomic<uint64_t> word{0};
  };
  const int workers_;
  const std::unique_ptr<Claims[]> claims_;
  alignas(64) std::atomic<uint64_t> done_{0};  // pieces finished, of all phases so far
};

// One worker's place in a pass. All workers of a board must run through the same phases with the
// same counts.
class Team {
 public:
  static constexpr int kPieces = 4;

  // Where a pass begins on the board; what position() of any worker that ran all of the last pass
  // returned.
  struct Position {
    uint64_t phase = 0;
    uint64_t done = 0;
  };
  Team(PhaseBoard& board, int worker, Position start)
      : board_(&board), worker_(worker), workers_(board.workers()), position_(start) {}

  int worker() const { return worker_; }  // 0 .. workers()-1
  int workers() const { return workers_; }
  Position position() const { return position_; }

  // One phase: calls work(begin, end) for disjoint ranges that cover [0, n) over all workers, with
  // borders on multiples of `granule`. Returns when all of them have been done. `pieces`: most
  // calls a worker's share is cut into; more let the others help sooner, and cost a call each.
  template <typename Work>
  void ForEach(int n, int granule, Work&& work, int pieces = kPieces) {
    const int units = (n + granule - 1) / granule;
    uint64_t total = 0;
    for (int w = 0; w < workers_; ++w)
      total += static_cast<uint64_t>(PiecesOf(ShareOf(units, w), pieces));
    BeginPhase(total);
    for (int turn = 0; turn < workers_; ++turn) {
      const int owner = worker_ + turn < workers_ ? worker_ + turn : worker_ + turn - workers_;
      const Range share = ShareOf(units, owner);
      const int count = PiecesOf(share, pieces);
      uint64_t finished = 0;
      for (int piece = Claim(owner, count); piece >= 0; piece = Claim(owner, count)) {
        const Range range = PieceOf(share, count, piece);
        work(range.begin * granule, std::min(range.end * granule, n));
        ++finished;
      }
      // All pieces are counted at once: a worker that is preempted in this loop holds a piece in
      // any case, and the count is the one contended cache line.
      if (finished != 0) Finish(finished);
      if (Complete()) return;
    }
    AwaitComplete();
  }

  // The same for each row of the ranges: work(row).
  template <typename Work>
  void ForEachRow(int n, Work&& work) {
    ForEach(n, 1, [&](int begin, int end) {
      for (int row = begin; row < end; ++row) work(static_cast<size_t>(row));
    });
  }

  // For items of unequal cost that are best started in order: each idle worker takes the next item;
  // work(item).
  template <typename Work>
  void ForEachInOrder(int n, Work&& work) {
    BeginPhase(static_cast<uint64_t>(n));
    uint64_t finished = 0;
    for (int item = Claim(0, n); item >= 0; item = Claim(0, n)) {
      work(item);
      ++finished;
    }
    if (finished != 0) Finish(finished);
    AwaitComplete();
  }

  struct Range {
    int begin;
    int end;
  };
  // Worker's contiguous share of n items in ForEach(n, 1): for warming and prefetching, not for
  // work.
  Range Share(int n) const { return ShareOf(n, worker_); }

 private:
  static constexpr int kPieceBits = 16;

  Range ShareOf(int n, int worker) const {
    const int64_t count = n;
    return {static_cast<int>(count * worker / workers_),
            static_cast<int>(count * (worker + 1) / workers_)};
  }
  static int PiecesOf(Range share, int pieces) { return std::min(share.end - share.begin, pieces); }
  static Range PieceOf(Range share, int pieces, int piece) {
    const int64_t count = share.end - share.begin;
    return {share.begin + static_cast<int>(count * piece / pieces),
            share.begin + static_cast<int>(count * (piece + 1) / pieces)};
  }

  void BeginPhase(uint64_t pieces) {
    GiveWay();
    ++position_.phase;
    position_.done += pieces;
  }
  // The next piece of worker `owner`'s share in the current phase, or -1 when none is left or the
  // phase is over.
  int Claim(int owner, int pieces);
  void Finish(uint64_t pieces) { board_->done_.fetch_add(pieces, std::memory_order_acq_rel); }
  bool Complete() const { return board_->done_.load(std::memory_order_acquire) >= position_.done; }
  void AwaitComplete() const;

  PhaseBoard* board_;
  int worker_;
  int workers_;
  Position position_;  // of the current phase: its number, and board's count when it is over
};

}  // namespace tutti::model
