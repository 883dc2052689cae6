// Part of class Batches: registers a batch, checks its input file piece by piece, and stores its
// lines.
#include <algorithm>
#include <utility>

#include "services/batches/batches.h"
#include "services/responses/request_json.h"
#include "services/responses/responses.h"

namespace tutti::batches {
namespace {

using store::Database;

constexpr int64_t kPiece = 256 << 10;
constexpr Duration kFirstReadRetry = std::chrono::milliseconds(250);
constexpr int kMaxDoublings = 5;  // 8 s

// Sorts errors by line number: duplicate custom_ids are found later than faults of a single line.
std::vector<protocol::BatchError> InOrder(std::vector<protocol::BatchError> errors) {
  std::stable_sort(errors.begin(), errors.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return errors;
}

}  // namespace

// Registers a new batch, or an unfinished one of the previous process.
void Batches::Open(BatchRow row) {
  const int64_t number = row.number;
  if (active_.contains(number)) return;
  Active& active = active_[number];
  active.row = std::move(row);
  stats_.Update([&](BatchStats& stats) { stats.open = std::ssize(active_); });
  TickIn(options_.tick);
  const protocol::BatchView& view = active.row.view;
  switch (view.state) {
    case BatchState::kValidating:
      return BeginCheck(number);
    case BatchState::kInProgress:
      active.waiting = view.total - view.completed - view.failed;
      EndIfDone(active);
      return Turn();
    case BatchState::kFinalizing:
      active.ending = true;
      return Finish(number);
    default:
      active.early = true;
      // The batch was cancelled during the check of its input, so not all lines are stored yet.
      if (view.in_progress_ms == 0) return BeginCheck(number);
      return EndIfDone(active);
  }
}

// Begins the check at the start of the input and first deletes lines that an earlier process has
// stored. A batch does not end while its check runs.
void Batches::BeginCheck(int64_t batch) {
  Active& begun = *Find(batch);
  const auto accepted = responses::CallerOfText(begun.row.caller);
  const api::CallerRef caller = accepted.ok() ? *accepted : nullptr;
  const bool generates = begun.row.view.endpoint != "/v1/embeddings";
  begun.check = std::make_unique<InputCheck>(
      begun.row.view.endpoint, [this, caller, generates](const std::string& model) {
        return calls::CheckModel(model, generates, caller, inference_);
      });
  WriteUntilStored([batch](Database& rows) { return DropLines(rows, batch, kDroppedAtOnce); },
                   [this, batch](bool more) {
                     if (Find(batch) == nullptr || stopped_) return;
                     more ? BeginCheck(batch) : CheckNext(batch);
                   });
}

void Batches::CheckNext(int64_t batch) {
  const Active* const active = Find(batch);
  if (active == nullptr || stopped_) return;
  files_.strand()->Post([this, strand = strand_, batch, reader = active->input,
                         path = files_.PathOf(Files::InputName(active->row.view.id)),
                         at = active->checked_bytes]() mutable {
    auto piece = std::make_shared<Result<std::string>>(std::string());
    if (reader == nullptr) {
      if (Result<std::shared_ptr<const DiskReader>> opened = files_.OpenReader(path); opened.ok()) {
        reader = *std::move(opened);
      } else {
        *piece = opened.status();
      }
    }
    if (piece->ok()) *piece = reader->Read(at, kPiece);
    strand->Post([this, batch, reader, piece] {
      Active* const checked = Find(batch);
      if (checked == nullptr || stopped_) return;
      checked->input = piece->ok() ? reader : nullptr;  // after a failure it is opened again
      OnPiece(batch, *piece);
    });
  });
}

void Batches::OnPiece(int64_t batch, const Result<std::string>& piece) {
  Active& active = *Find(batch);
  if (!piece.ok()) return OnUnreadable(active, piece.status());
  active.failed_reads = 0;
  active.checked_bytes += std::ssize(*piece);
  std::vector<NewLine> lines = piece->empty() ? active.check->End() : active.check->Feed(*piece);
  StoreLines(batch, std::move(lines), piece->empty() || active.check->hopeless());
}

// The batch is not to blame for a process without a free descriptor, or a disk that fails once.
void Batches::OnUnreadable(Active& active, const Status& why) {
  const TimePoint now = clock_.Now();
  if (active.failed_reads++ == 0) active.unreadable_since = now;
  if (now - active.unreadable_since < options_.input_patience) {
    const Duration wait = kFirstReadRetry * (1 << std::min(active.failed_reads - 1, kMaxDoublings));
    return strand_->PostAt(now + wait, [this, batch = active.row.number] { CheckNext(batch); });
  }
  const int64_t tried_s =
      std::chrono::duration_cast<std::chrono::seconds>(options_.input_patience).count();
  const std::vector<protocol::BatchError> errors = {
      {why.reason(),
       "the input could not be read for " + std::to_string(tried_s) + " s: " + why.message(), "",
       0}};
  Fail(active, protocol::BatchErrorsJson(errors));
}

void Batches::StoreLines(int64_t batch, std::vector<NewLine> lines, bool last) {
  const auto stored = std::make_shared<const std::vector<NewLine>>(std::move(lines));
  WriteUntilStored([batch, stored](Database& rows) { return InsertLines(rows, batch, *stored); },
                   [this, batch, last](const std::vector<int64_t>& duplicates) {
                     Active* const active = Find(batch);
                     if (active == nullptr || stopped_) return;
                     active->check->AddDuplicates(duplicates);
                     last ? EndCheck(*active) : CheckNext(batch);
                   });
}

void Batches::EndCheck(Active& active) {
  const std::unique_ptr<InputCheck>& check = active.check;
  if (!active.early && !check->errors().empty())
    return Fail(active, protocol::BatchErrorsJson(InOrder(check->errors())));
  auto row = std::make_shared<BatchRow>(active.row);
  row->view.total = check->lines();
  row->view.model = check->first_model();
  if (active.early) {  // its lines are written to the files as not run
    active.row = *row;
    active.check = nullptr;
    return EndIfDone(active);
  }
  row->view.state = BatchState::kInProgress;
  row->view.in_progress_ms = unix_ms_();
  WriteUntilStored([row](Database& rows) { return MoveBatch(rows, *row, BatchState::kValidating); },
                   [this, row](bool moved) {
                     Active* const known = Find(row->number);
                     if (known == nullptr || stopped_) return;
                     known->check = nullptr;
                     if (moved && !known->early) {
                       known->row = *row;
                       known->waiting = row->view.total;
                       return Turn();
                     }
                     // The batch was cancelled or has expired meanwhile.
                     known->row.view.total = row->view.total;
                     known->row.view.model = row->view.model;
                     if (moved) known->row.view.state = BatchState::kInProgress;
                     EndIfDone(*known);
                   });
}

void Batches::Fail(Active& active, std::string errors) {
  auto row = std::make_shared<BatchRow>(active.row);
  row->view.state = BatchState::kFailed;
  row->view.errors = std::move(errors);
  row->view.failed_ms = unix_ms_();
  WriteUntilStored([row](Database& rows) { return SaveBatch(rows, *row); },
                   [this, row] {
                     if (!stopped_) CloseBatch(*row);
                   });
}

}  // namespace tutti::batches
