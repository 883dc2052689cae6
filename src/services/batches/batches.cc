#include "services/batches/batches.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <set>
#include <utility>

#include "base/random.h"
#include "protocol/anthropic/message_batch.h"
#include "protocol/error.h"
#include "protocol/json/json_writer.h"
#include "services/background/queue_runner.h"
#include "services/responses/request_json.h"
#include "services/responses/responses.h"

namespace tutti::batches {
namespace {

using calls::BufferedRequest;
using protocol::BatchView;
using store::Database;

constexpr std::string_view kResponses = "responses";

Status NoSuchBatch() { return NotFound("not_found", "there is no such batch"); }

std::optional<calls::CallKind> KindOf(const std::string& endpoint) {
  if (endpoint == "/v1/chat/completions") return calls::CallKind::kChat;
  if (endpoint == "/v1/completions") return calls::CallKind::kText;
  if (endpoint == protocol::kMessagesEndpoint) return calls::CallKind::kMessages;
  if (endpoint == "/v1/decisions") return calls::CallKind::kDecisions;
  if (endpoint == "/v1/systemone") return calls::CallKind::kSystemOne;
  if (endpoint == "/v1/embeddings") return calls::CallKind::kEmbeddings;
  return std::nullopt;
}

// Stored name of the kind of lines; nullopt: batches do not have this endpoint.
std::optional<std::string> KindNameOf(const std::string& endpoint) {
  if (endpoint == protocol::kResponsesEndpoint) return std::string(kResponses);
  const std::optional<calls::CallKind> kind = KindOf(endpoint);
  if (!kind.has_value()) return std::nullopt;
  return std::string(calls::NameOf(*kind));
}

std::string MetadataText(const protocol::Metadata& metadata) {
  if (metadata.empty()) return "";
  std::string text;
  protocol::JsonWriter json(&text);
  protocol::WriteMetadata(metadata, &json);
  return text;
}

}  // namespace

Batches::Batches(const Options& options, api::Inference& inference, store::Store& store,
                 Files& files, const Clock& clock, std::function<int64_t()> unix_ms,
                 CallerNow caller)
    : QueueRunner(store, clock, std::move(unix_ms), "tutti-batches"),
      options_(options),
      inference_(inference),
      files_(files),
      caller_(std::move(caller)),
      retry_({}, 0) {
  std::set<std::string> open;
  const Status status = store_.ReadNow([&](Database& rows) -> Status {
    ASSIGN_OR_RETURN(const std::vector<BatchRow> batches, OpenBatches(rows));
    for (const BatchRow& row : batches) open.insert(row.view.id);
    return OkStatus();
  });
  if (status.ok()) files_.KeepInputs(open);
}

// Tasks of the files' strand refer to this, too, and work of the store may add one of them.
Batches::~Batches() {
  Close();
  for (int i = 0; i < 2; ++i) {
    std::promise<void> passed;
    files_.strand()->Post([&passed] { passed.set_value(); });
    passed.get_future().wait();
    Close();
  }
}

// --- what clients ask ---

void Batches::Create(NewBatch batch, Callback done) {
  auto row = std::make_shared<BatchRow>();
  const protocol::BatchCreate& create = batch.create;
  const std::optional<std::string> kind = KindNameOf(create.endpoint);
  if (!kind.has_value()) {
    return strand_->Post([done = std::move(done)] {
      done(BadValue("endpoint", "endpoint is none that a batch may have"));
    });
  }
  const bool messages = create.endpoint == protocol::kMessagesEndpoint;
  row->view.id = NewId(messages ? "msgbatch_" : "batch_");
  row->view.endpoint = create.endpoint;
  row->view.input_file = create.input_file_id;
  row->view.metadata = MetadataText(create.metadata);
  row->view.created_ms = unix_ms_();
  row->view.expires_ms = row->view.created_ms + WholeMillis(options_.window);
  row->owner = std::move(batch.owner);
  row->caller = responses::CallerText(batch.caller);
  row->kind = *kind;
  row->output_expires_s = create.output_expires_s;

  const auto insert = [this, row, done](const Status& linked) {
    if (!linked.ok()) return done(linked);
    ask_.Write(
        [this, row](Database& rows) { return InsertBatch(rows, row.get(), options_.limits); },
        [this, row, done](const Status& status) {
          if (!status.ok()) {
            files_.strand()->Post(
                [path = files_.PathOf(Files::InputName(row->view.id))] { unlink(path.c_str()); });
            return done(status);
          }
          stats_.Update([](BatchStats& stats) { ++stats.created; });
          done(row->view);
          if (started_ && !stopped_) Open(*row);
        });
  };
  const auto link_input = [this, row, insert](const Status& found) {
    files_.strand()->Post([this, row, insert, found] {
      Status status = found;
      const std::string name = files_.PathOf(Files::InputName(row->view.id));
      if (status.ok() && link(files_.PathOf(row->view.input_file).c_str(), name.c_str()) != 0)
        status = DiskError(errno);
      if (status.ok()) status = FlushFolder(files_.folder());
      strand_->Post([insert, status] { insert(status); });
    });
  };
  ask_.Read(
      [this, row](Database& rows) -> Status {
        ASSIGN_OR_RETURN(const std::optional<FileRow> file,
                         LoadFile(rows, row->owner, row->view.input_file, unix_ms_() / 1000));
        if (!file.has_value())
          return NotFound("not_found", "there is no such file").WithParam("input_file_id");
        if (file->view.purpose != protocol::kBatchPurpose)
          return BadValue("input_file_id", "the file's purpose is not batch");
        row->lines = row->view.input_lines = file->lines;
        row->bytes = file->view.bytes;
        return OkStatus();
      },
      [link_input, done](const Status& status) {
        status.ok() ? link_input(status) : done(status);
      });
}

void Batches::Get(const std::string& owner, const std::string& id, Callback done) {
  ask_.Read(
      [owner, id](Database& rows) -> Result<BatchView> {
        ASSIGN_OR_RETURN(const std::optional<BatchRow> row, LoadBatch(rows, owner, id));
        if (!row.has_value()) return NoSuchBatch();
        return row->view;
      },
      std::move(done));
}

void Batches::List(const std::string& owner, const std::string& endpoint, const std::string& after,
                   int64_t most, std::function<void(Result<std::vector<BatchView>>)> done) {
  ask_.Read(
      [query = BatchQuery{owner, endpoint, after, most + 1}](
          Database& rows) -> Result<std::vector<BatchView>> {
        ASSIGN_OR_RETURN(std::vector<BatchRow> found, ListBatches(rows, query));
        std::vector<BatchView> views;
        for (BatchRow& row : found) views.push_back(std::move(row.view));
        return views;
      },
      std::move(done));
}

void Batches::Cancel(const std::string& owner, const std::string& id, Callback done) {
  ask_.Write(
      [this, owner, id](Database& rows) -> Result<BatchRow> {
        ASSIGN_OR_RETURN(std::optional<BatchRow> row, LoadBatch(rows, owner, id));
        if (!row.has_value()) return NoSuchBatch();
        BatchView& view = row->view;
        if (view.state == BatchState::kCancelling || view.state == BatchState::kCancelled)
          return *std::move(row);
        if (view.state != BatchState::kValidating && view.state != BatchState::kInProgress) {
          return Status(StatusCode::kAborted, "already_finished",
                        "the batch is " + std::string(protocol::BatchStateName(view.state)));
        }
        const BatchState from = std::exchange(view.state, BatchState::kCancelling);
        view.cancelling_ms = unix_ms_();
        row->ending = BatchState::kCancelled;
        RETURN_IF_ERROR(MoveBatch(rows, *row, from).status());
        return *std::move(row);
      },
      [this, done = std::move(done)](const Result<BatchRow>& row) {
        if (!row.ok()) return done(row.status());
        done(row->view);
        Active* const active = Find(row->number);
        if (active == nullptr || active->early || row->view.state != BatchState::kCancelling)
          return;
        active->row.view.state = BatchState::kCancelling;
        active->row.view.cancelling_ms = row->view.cancelling_ms;
        EndEarly(*active, BatchState::kCancelled);
      });
}

// Deletes a slice of the lines in each transaction, so that other work is not delayed for long.
void Batches::Delete(const std::string& owner, const std::string& id,
                     std::function<void(const Status&)> done) {
  ask_.Write(
      [owner, id](Database& rows) -> Result<bool> {  // whether there are more lines
        ASSIGN_OR_RETURN(const std::optional<BatchRow> found, LoadBatch(rows, owner, id));
        if (!found.has_value()) return NoSuchBatch();
        if (!protocol::Ended(found->view.state))
          return InvalidArgument("invalid_value", "the batch has not ended; cancel it first");
        ASSIGN_OR_RETURN(const bool more, DropLines(rows, found->number, kDroppedAtOnce));
        if (!more) RETURN_IF_ERROR(DeleteBatch(rows, found->number));
        return more;
      },
      [this, owner, id, done = std::move(done)](const Result<bool>& more) {
        if (more.ok() && *more && !stopped_) return Delete(owner, id, done);
        done(more.status());
      });
}

BatchStats Batches::stats() const { return stats_.Copy(); }

// --- running lines ---

void Batches::Start() {
  WriteUntilStored(
      [this](Database& rows) -> Result<std::vector<BatchRow>> {
        const protocol::ErrorView dead = protocol::ViewError(background::AttemptsExhausted());
        RETURN_IF_ERROR(RecoverLines(rows, options_.max_attempts, protocol::ErrorBody(dead)));
        return OpenBatches(rows);
      },
      [this](const std::vector<BatchRow>& open) {
        if (stopped_) return;
        started_ = true;
        for (const BatchRow& row : open) Open(row);
        DropNext();
        TickIn(options_.tick);
      });
}

Batches::Active* Batches::Find(int64_t batch) {
  const auto found = active_.find(batch);
  return found == active_.end() ? nullptr : &found->second;
}

// Distributes the free slots: owners take turns line by line, and each owner's oldest batch is
// served first. Returns (batch number, lines to claim).
std::vector<std::pair<int64_t, int64_t>> Batches::Shares() {
  std::vector<std::pair<int64_t, int64_t>> shares;
  const int64_t room = options_.slots - std::ssize(running_);
  if (stopped_ || room <= 0) return shares;
  const TimePoint now = clock_.Now();
  using Waiting = std::pair<int64_t, int64_t>;  // batch, lines
  std::map<std::string, std::vector<Waiting>> owners;
  for (const auto& [number, active] : active_) {
    if (active.waiting == 0 || active.early || active.ending || active.check != nullptr ||
        active.row.view.state != BatchState::kInProgress || active.not_before > now)
      continue;
    owners[active.row.owner].emplace_back(number, active.waiting);
  }
  std::vector<std::string> names;  // in the order of their turns
  const auto first = owners.upper_bound(owner_last_);
  for (auto it = first; it != owners.end(); ++it) names.push_back(it->first);
  for (auto it = owners.begin(); it != first; ++it) names.push_back(it->first);
  std::vector<int64_t> waiting(names.size()), claimed(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    for (const auto& [batch, lines] : owners[names[i]]) waiting[i] += lines;
  }
  for (const size_t at : background::FairOrder(waiting, room)) {
    ++claimed[at];
    owner_last_ = names[at];
  }
  for (size_t i = 0; i < names.size(); ++i) {
    for (const auto& [batch, lines] : owners[names[i]]) {
      const int64_t share = std::min(lines, claimed[i]);
      claimed[i] -= share;
      if (share > 0) shares.emplace_back(batch, share);
    }
  }
  return shares;
}

// Ends of lines and new claims share a write; further ends gather while it runs.
void Batches::Turn() {
  if (turning_) {
    turn_again_ = true;
    return;
  }
  const auto shares = Shares();
  if (ended_.empty() && shares.empty()) return;
  turning_ = true;
  turn_again_ = false;
  auto ends = std::make_shared<std::vector<LineEnd>>(std::exchange(ended_, {}));
  ask_.Write(
      [shares, ends](Database& rows) -> Result<std::vector<ClaimedLine>> {
        std::vector<ClaimedLine> claimed;
        for (const LineEnd& end : *ends) RETURN_IF_ERROR(EndLine(rows, end).status());
        for (const auto& [batch, most] : shares) {
          ASSIGN_OR_RETURN(const std::vector<ClaimedLine> lines, ClaimLines(rows, batch, most));
          claimed.insert(claimed.end(), lines.begin(), lines.end());
        }
        return claimed;
      },
      [this, ends](Result<std::vector<ClaimedLine>> claimed) {
        OnTurned(std::move(*ends), std::move(claimed));
      });
}

void Batches::OnTurned(std::vector<LineEnd> ends, Result<std::vector<ClaimedLine>> claimed) {
  turning_ = false;
  if (!claimed.ok()) {  // answers are kept until the store takes writes again
    ended_.insert(ended_.end(), std::make_move_iterator(ends.begin()),
                  std::make_move_iterator(ends.end()));
    return strand_->PostAt(clock_.Now() + background::StoreRetryDelay(claimed.status()),
                           [this] { Turn(); });
  }
  for (const LineEnd& end : ends) {
    stats_.Update([&](BatchStats& stats) {
      ++(!end.again    ? end.status_code == 200 ? stats.lines_completed : stats.lines_failed
         : end.counted ? stats.lines_retried
                       : stats.lines_put_off);
    });
    Active* const active = Find(end.batch);
    if (active == nullptr) continue;
    --active->held;
    if (end.again) ++active->waiting;
    EndIfDone(*active);
  }
  for (const ClaimedLine& line : *claimed) {
    Active* const active = Find(line.batch);
    if (active == nullptr) continue;
    --active->waiting;
    ++active->held;
    running_[{line.batch, line.line}].line = line;
  }
  stats_.Update([&](BatchStats& stats) { stats.running = std::ssize(running_); });
  if (!claimed->empty()) ReadLines(*std::move(claimed));
  if (turn_again_ || !ends.empty()) Turn();
}

void Batches::ReadLines(std::vector<ClaimedLine> claimed) {
  struct Wanted {
    ClaimedLine line;
    std::shared_ptr<const DiskReader> reader;  // null: not opened yet
    std::string path;
    Result<std::string> text = std::string();
  };
  auto wanted = std::make_shared<std::vector<Wanted>>();
  for (ClaimedLine& line : claimed) {
    const Active* const active = Find(line.batch);
    if (active == nullptr) continue;
    wanted->push_back({line, active->input, files_.PathOf(Files::InputName(active->row.view.id))});
  }
  files_.strand()->Post([this, strand = strand_, wanted] {
    for (Wanted& each : *wanted) {
      if (each.reader == nullptr) {
        Result<std::shared_ptr<const DiskReader>> reader = files_.OpenReader(each.path);
        if (!reader.ok()) {
          each.text = reader.status();
          continue;
        }
        each.reader = *std::move(reader);
      }
      each.text = each.reader->Read(each.line.offset, each.line.bytes);
    }
    strand->Post([this, wanted] {
      for (Wanted& each : *wanted) {
        if (Active* const active = Find(each.line.batch); active != nullptr)
          active->input = each.text.ok() ? each.reader : nullptr;
        Begin(each.line, each.text);
      }
      Turn();
      strand_->Wake();  // to read events that have arrived already
    });
  });
}

void Batches::Begin(const ClaimedLine& line, const Result<std::string>& text) {
  const auto found = running_.find({line.batch, line.line});
  if (stopped_ || found == running_.end()) return;
  Active* const active = Find(line.batch);
  if (active == nullptr || active->early) return Forget(line);
  Running& running = found->second;
  const Status parsed = text.ok() ? ParseLine(*active, &running, *text) : text.status();
  if (parsed.ok() && running.response != nullptr && !running.response->previous().empty())
    return ReadChain(running);
  BeginNow(line, parsed);
}

void Batches::BeginNow(const ClaimedLine& line, const Status& ready) {
  const auto found = running_.find({line.batch, line.line});
  if (stopped_ || found == running_.end()) return;
  const Active* const active = Find(line.batch);
  if (active == nullptr || active->early) return Forget(line);
  const Status begun = ready.ok() ? found->second.call->Begin(strand_) : ready;
  if (!begun.ok()) EndOf(line, {.status = begun});
}

void Batches::ReadChain(const Running& running) {
  ask_.Read(
      [owner = Find(running.line.batch)->row.owner, id = running.response->previous(),
       now_s = unix_ms_() / 1000](Database& rows) {
        return responses::LoadChain(rows, owner, id, now_s, responses::kMaxLinks);
      },
      [this, line = running.line](const Result<std::vector<api::ChatMessage>>& said) {
        const auto found = running_.find({line.batch, line.line});
        if (found == running_.end()) return;
        if (said.ok()) found->second.response->GoOnFrom(*said);
        BeginNow(line, said.status());
        Turn();
        strand_->Wake();  // to read events that have arrived already
      });
}

Status Batches::ParseLine(Active& active, Running* running, const std::string& text) {
  const ClaimedLine& line = running->line;
  ASSIGN_OR_RETURN(const protocol::BatchLine read,
                   protocol::ReadBatchLine(text, active.row.view.endpoint));
  ASSIGN_OR_RETURN(const api::CallerRef accepted, responses::CallerOfText(active.row.caller));
  ASSIGN_OR_RETURN(api::CallerRef caller, caller_(accepted));
  const TimePoint now = clock_.Now();
  const int64_t now_ms = unix_ms_();
  const int64_t left_ms = std::max<int64_t>(active.row.view.expires_ms - now_ms, 0);
  calls::CallContext context{.caller = std::move(caller),
                             .request_id = LineRequestId(active.row.view.id, line.line),
                             .parse = {.now = now},
                             .deadline = now + std::chrono::milliseconds(left_ms),
                             .unix_s = now_ms / 1000};
  if (active.row.kind == kResponses) {
    ASSIGN_OR_RETURN(std::unique_ptr<ResponseLine> response,
                     ResponseLine::Parse(read.body, active.row.owner, std::move(context),
                                         inference_, [this] { return unix_ms_() / 1000; }));
    running->response = response.get();
    running->call = std::move(response);
    return OkStatus();
  }
  const std::optional<calls::CallKind> kind = calls::KindNamed(active.row.kind);
  if (!kind.has_value()) return Internal("a batch of an unknown kind");
  ASSIGN_OR_RETURN(running->call,
                   BufferedRequest::Parse(*kind, read.body, std::move(context), inference_));
  return OkStatus();
}

void Batches::Pump() {
  std::vector<std::pair<ClaimedLine, BufferedRequest::Answer>> ended;
  for (auto& [key, running] : running_) {
    if (running.call == nullptr) continue;
    if (auto answer = running.call->Poll()) ended.emplace_back(running.line, *std::move(answer));
  }
  for (auto& [line, answer] : ended) EndOf(line, std::move(answer));
  if (!ended.empty()) Turn();
}

void Batches::EndOf(const ClaimedLine& line, BufferedRequest::Answer answer) {
  Active* const active = Find(line.batch);
  const Status& status = answer.status;
  const bool late = active != nullptr && unix_ms_() >= active->row.view.expires_ms;
  // The batch ends without this line.
  if (active == nullptr || (status.reason() == "cancelled" && active->early) ||
      (status.reason() == "deadline_exceeded" && (active->early || late)))
    return Forget(line);
  LineEnd end;
  end.batch = line.batch;
  end.line = line.line;
  if (status.ok()) {
    end.status_code = 200;
    end.body = std::move(answer.body);
    end.input_tokens = answer.input_tokens;
    end.cached_tokens = answer.cached_tokens;
    end.output_tokens = answer.output_tokens;
    Keep(line, &end);
  } else {
    const background::RetryDecision decision = retry_.Decide(
        calls::FailureOf(status), line.attempt, options_.max_attempts, status.retry_after());
    if (decision.action == background::RetryDecision::Action::kRelease) stopped_ = true;
    end.again = decision.again();
    end.counted = decision.counted();
    if (decision.wait > Duration(0)) {
      active->not_before = clock_.Now() + decision.wait;
      strand_->PostAt(active->not_before, [this] { Turn(); });
    }
    const protocol::ErrorView error = protocol::ViewError(status);
    end.status_code = error.http;
    end.body = protocol::ErrorBody(error);
  }
  running_.erase({line.batch, line.line});
  ended_.push_back(std::move(end));
}

// Adds the response that is stored in the transaction that ends the line.
void Batches::Keep(const ClaimedLine& line, LineEnd* end) {
  const auto found = running_.find({line.batch, line.line});
  if (found == running_.end() || found->second.response == nullptr) return;
  end->kept = found->second.response->TakeRecord();
  end->kept_until_s = unix_ms_() / 1000 + responses::kStoredSeconds;
}

void Batches::Forget(const ClaimedLine& line) {
  running_.erase({line.batch, line.line});
  Active* const active = Find(line.batch);
  if (active == nullptr) return;
  --active->held;
  if (!active->early) active->late = true;  // the next tick expires the batch
  EndIfDone(*active);
}

store::Store::Work Batches::Release() {
  running_.clear();  // cancels them
  return [ends = std::exchange(ended_, {})](Database& rows) -> Status {
    for (const LineEnd& end : ends) RETURN_IF_ERROR(EndLine(rows, end).status());
    return ReleaseLines(rows);
  };
}

}  // namespace tutti::batches
