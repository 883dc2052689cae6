// Part of class Batches: ends a batch: writes its result files, stores its final state, and deletes
// its lines.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "services/batches/batches.h"
#include "services/responses/responses.h"

namespace tutti::batches {
namespace {

using store::Database;

constexpr Duration kFilesRetry = std::chrono::seconds(5);  // then they are written again
// Result files are exempt from the owner's file quota, so that finished work is never lost.
constexpr FileLimits kNoLimits = {INT64_MAX, INT64_MAX, INT64_MAX};

}  // namespace

void Batches::EndEarly(Active& active, BatchState ending) {
  active.early = true;
  active.row.ending = ending;
  for (auto& [key, running] : running_) {
    if (key.first == active.row.number && running.call != nullptr) running.call->Cancel();
  }
  EndIfDone(active);
}

// Ends the batch if all of its lines have ended, or, after a cancel or its expiry, if no line runs.
void Batches::EndIfDone(Active& active) {
  const BatchState from = active.row.view.state;
  const bool all = from == BatchState::kInProgress && active.waiting == 0 && !active.late;
  if (stopped_ || active.ending || active.check != nullptr || active.held > 0 ||
      !(all || active.early))
    return;
  active.ending = true;
  auto row = std::make_shared<BatchRow>(active.row);
  if (from == BatchState::kCancelling) {
    row->ending = BatchState::kCancelled;
  } else {
    row->view.state = BatchState::kFinalizing;
    row->view.finalizing_ms = unix_ms_();
  }
  WriteUntilStored([row, from](Database& rows) { return MoveBatch(rows, *row, from); },
                   [this, row](bool moved) {
                     Active* const known = Find(row->number);
                     if (known == nullptr || stopped_) return;
                     if (moved) {
                       known->row = *row;
                       return Finish(row->number);
                     }
                     // The batch was cancelled meanwhile: that event comes next, or has come.
                     known->ending = false;
                     if (known->early) EndIfDone(*known);
                   });
}

void Batches::Finish(int64_t batch) {
  const Active* const active = Find(batch);
  if (active == nullptr || stopped_) return;
  OutputWriter::Write(
      active->row, store_, files_, unix_ms_() / 1000,
      [this, strand = strand_, batch](Result<OutputFiles> files) {
        strand->Post([this, batch, files = std::move(files)] { OnFiles(batch, files); });
      });
}

void Batches::OnFiles(int64_t batch, Result<OutputFiles> files) {
  Active* const active = Find(batch);
  if (active == nullptr || stopped_) return;
  if (!files.ok())
    return strand_->PostAt(clock_.Now() + kFilesRetry, [this, batch] { Finish(batch); });
  auto row = std::make_shared<BatchRow>(active->row);
  auto made = std::make_shared<OutputFiles>(*std::move(files));
  protocol::BatchView& view = row->view;
  if (made->output.has_value()) view.output_file = made->output->view.id;
  if (made->errors.has_value()) view.error_file = made->errors->view.id;
  view.state = row->ending;
  int64_t& ended_ms = view.state == BatchState::kCompleted ? view.completed_ms
                      : view.state == BatchState::kExpired ? view.expired_ms
                                                           : view.cancelled_ms;
  ended_ms = unix_ms_();
  ask_.Write(
      [row, made](Database& rows) -> Status {
        for (const std::optional<FileRow>& file : {made->output, made->errors}) {
          if (file.has_value()) RETURN_IF_ERROR(InsertFile(rows, *file, kNoLimits));
        }
        return SaveBatch(rows, *row);
      },
      [this, row](const Status& status) {
        if (status.ok()) return CloseBatch(*row);
        files_.strand()->Post([output = files_.PathOf(row->view.output_file),
                               errors = files_.PathOf(row->view.error_file)] {
          unlink(output.c_str());
          unlink(errors.c_str());
        });
        if (!stopped_) {
          strand_->PostAt(clock_.Now() + kFilesRetry,
                          [this, batch = row->number] { Finish(batch); });
        }
      });
}

void Batches::CloseBatch(const BatchRow& row) {
  files_.strand()->Post(
      [path = files_.PathOf(Files::InputName(row.view.id))] { unlink(path.c_str()); });
  active_.erase(row.number);
  stats_.Update([&](BatchStats& stats) {
    stats.open = std::ssize(active_);
    stats.running = std::ssize(running_);
    ++(row.view.state == BatchState::kCompleted ? stats.completed
       : row.view.state == BatchState::kFailed  ? stats.failed
       : row.view.state == BatchState::kExpired ? stats.expired
                                                : stats.cancelled);
  });
  DropNext();
}

// Deletes a few lines in each transaction, so that other writes do not wait for fifty thousand.
void Batches::DropNext() {
  if (dropping_ || stopped_) return;
  dropping_ = true;
  ask_.Write(
      [](Database& rows) -> Result<bool> {  // whether there may be more
        ASSIGN_OR_RETURN(const int64_t batch, EndedWithLines(rows));
        if (batch == 0) return false;
        RETURN_IF_ERROR(DropLines(rows, batch, kDroppedAtOnce).status());
        return true;
      },
      [this](const Result<bool>& more) {
        dropping_ = false;
        if (more.ok() && *more) DropNext();
      });
}

void Batches::Tick() {
  const int64_t now_ms = unix_ms_();
  for (auto& [number, active] : active_) {
    if (!active.early && !active.ending && now_ms >= active.row.view.expires_ms)
      EndEarly(active, BatchState::kExpired);
  }
  if (TakeSweep()) {
    store_.Write([before_ms = now_ms - WholeMillis(options_.keep)](
                     Database& rows) { return DropBatches(rows, before_ms, kDroppedAtOnce); },
                 [](const Status&) {});
    DropNext();
  }
  Turn();
  TickIn(active_.empty() ? kSweepInterval : options_.tick);
}

}  // namespace tutti::batches
