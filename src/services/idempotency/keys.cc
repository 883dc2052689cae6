#include "services/idempotency/keys.h"

#include <openssl/sha.h>

#include <chrono>
#include <span>
#include <utility>

#include "protocol/json/json.h"

namespace tutti::idempotency {
namespace {

using store::Blob;
using store::Database;
using store::Statement;

Blob BlobOf(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

std::string TextOf(Blob bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<bool> HasTooMuch(Database& database, const std::string& tenant, const KeyLimits& limits) {
  ASSIGN_OR_RETURN(Statement total,
                   database.Prepare("SELECT answers, bytes FROM repeat_total WHERE tenant=?1"));
  ASSIGN_OR_RETURN(const bool found, total.Bind(tenant).Step());
  return found && (total.Int(0) > limits.rows || total.Int(1) > limits.bytes);
}

constexpr int64_t kExpiredAtOnce = 256;

// Each part with its length in front, so that no two scopes read alike.
std::string IdOf(const RequestIdentity& asked) {
  std::string scope;
  for (const std::string& part : {asked.tenant, asked.method, asked.path, asked.key})
    scope += std::to_string(part.size()) + ":" + part;
  std::string id(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(scope.data()), scope.size(),
         reinterpret_cast<unsigned char*>(id.data()));
  return id;
}

Status InProgress() {
  return Status(StatusCode::kAborted, "idempotency_in_progress",
                "the request of this Idempotency-Key is being answered")
      .WithRetryAfter(std::chrono::seconds(1));
}

}  // namespace

// Totals are kept by triggers, as those of jobs.
const store::Migration kKeyTables = {
    R"(CREATE TABLE repeat(
         number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, tenant TEXT NOT NULL,
         print BLOB NOT NULL, created_ms INTEGER NOT NULL, status INTEGER NOT NULL,
         head TEXT NOT NULL, body BLOB NOT NULL);
       CREATE INDEX repeat_tenant ON repeat(tenant, number);
       CREATE INDEX repeat_created ON repeat(created_ms);
       CREATE TABLE repeat_total(tenant TEXT PRIMARY KEY, answers INTEGER NOT NULL,
         bytes INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TRIGGER repeat_added AFTER INSERT ON repeat BEGIN
         INSERT INTO repeat_total VALUES(new.tenant, 1,
             length(CAST(new.head AS BLOB))+length(new.body))
           ON CONFLICT(tenant) DO UPDATE SET answers=answers+1, bytes=bytes+excluded.bytes;
       END;
       CREATE TRIGGER repeat_dropped AFTER DELETE ON repeat BEGIN
         UPDATE repeat_total SET answers=answers-1,
           bytes=bytes-length(CAST(old.head AS BLOB))-length(old.body) WHERE tenant=old.tenant;
         DELETE FROM repeat_total WHERE tenant=old.tenant AND answers=0;
       END)",
    "DROP TABLE repeat; DROP TABLE repeat_total"};

Result<std::optional<KeyRow>> LoadAnswer(Database& database, const std::string& id, int64_t now_ms,
                                         const KeyLimits& limits) {
  ASSIGN_OR_RETURN(Statement found,
                   database.Prepare("SELECT tenant, print, status, head, body FROM repeat "
                                    "WHERE id=?1 AND created_ms>?2"));
  ASSIGN_OR_RETURN(const bool any, found.Bind(BlobOf(id), now_ms - limits.ttl_ms).Step());
  if (!any) return std::optional<KeyRow>();
  KeyRow row;
  row.id = id;
  row.tenant = found.Text(0);
  row.body_hash = TextOf(found.Bytes(1));
  row.answer = {static_cast<int>(found.Int(2)), std::string(found.Text(3)), TextOf(found.Bytes(4))};
  return std::optional(std::move(row));
}

Status SaveAnswer(Database& database, const KeyRow& row, int64_t now_ms, const KeyLimits& limits) {
  // Not REPLACE, because its deletions fire no triggers.
  RETURN_IF_ERROR(Run(database, "DELETE FROM repeat WHERE id=?1", BlobOf(row.id)));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO repeat(id, tenant, print, created_ms, status, head, body) "
                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                      BlobOf(row.id), row.tenant, BlobOf(row.body_hash), now_ms,
                      int64_t{row.answer.status}, row.answer.head, BlobOf(row.answer.body)));
  while (true) {
    ASSIGN_OR_RETURN(const bool too_much, HasTooMuch(database, row.tenant, limits));
    if (!too_much) return OkStatus();
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM repeat WHERE number=(SELECT number FROM repeat "
                        "WHERE tenant=?1 ORDER BY number LIMIT 1)",
                        row.tenant));
  }
}

Result<int64_t> ExpireAnswers(Database& database, int64_t now_ms, int64_t most,
                              const KeyLimits& limits) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM repeat WHERE number IN (SELECT number FROM repeat "
                      "WHERE created_ms<=?1 ORDER BY created_ms LIMIT ?2)",
                      now_ms - limits.ttl_ms, most));
  return database.changes();
}

std::string CanonicalBodyHash(std::string_view body) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(body);
  const std::string text =
      document.ok() ? protocol::PrintJson(document->root()) : std::string(body);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

Status CheckSameBody(std::string_view first_hash, std::string_view hash) {
  if (first_hash == hash) return OkStatus();
  return InvalidArgument("idempotency_key_mismatch",
                         "this Idempotency-Key was given to a request with another body");
}

IdempotencyKeys::IdempotencyKeys(const Options& options, store::Store& store,
                                 std::function<int64_t()> unix_ms)
    : options_(options), store_(store), unix_ms_(std::move(unix_ms)) {}

// Work that the store has not run yet refers to this.
IdempotencyKeys::~IdempotencyKeys() {
  static_cast<void>(store_.ReadNow([](store::Database&) { return OkStatus(); }));
}

void IdempotencyKeys::Ask(RequestIdentity asked, Done done) {
  std::string id = IdOf(asked);
  std::optional<Result<Found>> known;
  {
    const MutexLock lock(mutex_);
    const auto [at, added] = running_.try_emplace(id);
    Running& running = at->second;
    if (added) {
      running.body_hash = asked.body_hash;
    } else if (const Status same = CheckSameBody(running.body_hash, asked.body_hash); !same.ok()) {
      known = same;
    } else if (running.answer != nullptr) {
      known = Found{nullptr, running.answer};
    } else if (running.streams || running.waiting.size() >= options_.waiting) {
      known = InProgress();
    } else {
      running.waiting.push_back({std::move(asked), std::move(done)});
      return;
    }
  }
  if (known.has_value()) return done(*std::move(known));
  Look(std::move(id), std::move(asked), std::move(done));
}

// Looks in the store, for the first request with a key.
void IdempotencyKeys::Look(std::string id, RequestIdentity asked, Done done) {
  auto row = std::make_shared<std::optional<KeyRow>>();
  store_.Read(
      [this, id, row](store::Database& rows) -> Status {
        ASSIGN_OR_RETURN(*row, LoadAnswer(rows, id, unix_ms_(), options_.limits));
        return OkStatus();
      },
      [this, id, asked, done = std::move(done), row](const Status& status) {
        if (!status.ok() || !row->has_value())
          return done(Found{std::shared_ptr<Turn>(new Turn(*this, id, asked)), nullptr});
        if (const Status same = CheckSameBody((*row)->body_hash, asked.body_hash); !same.ok())
          return Notify(id, done, same);
        Notify(id, done,
               Found{nullptr, std::make_shared<const StoredAnswer>(std::move((*row)->answer))});
      });
}

// All waiting requests get the outcome of the first one, since their bodies are the same.
void IdempotencyKeys::Notify(const std::string& id, const Done& done, const Result<Found>& found) {
  const std::vector<Waiting> waiting = TakeWaiting(id, /*ends=*/true);
  done(found);
  for (const Waiting& each : waiting) each.done(found);
}

std::vector<IdempotencyKeys::Waiting> IdempotencyKeys::TakeWaiting(const std::string& id,
                                                                   bool ends) {
  const MutexLock lock(mutex_);
  const auto at = running_.find(id);
  std::vector<Waiting> waiting = std::exchange(at->second.waiting, {});
  if (ends) running_.erase(at);
  return waiting;
}

IdempotencyKeys::Turn::~Turn() {
  if (!over_) keys_.PassOn(id_);
}

void IdempotencyKeys::Turn::Decline() {
  over_ = true;
  keys_.PassOn(id_);
}

void IdempotencyKeys::Turn::Answer(StoredAnswer answer) {
  over_ = true;
  keys_.Save(id_, asked_, std::make_shared<const StoredAnswer>(std::move(answer)));
}

void IdempotencyKeys::Turn::Streams() {
  std::vector<Waiting> waiting;
  {
    const MutexLock lock(keys_.mutex_);
    Running& running = keys_.running_.at(id_);
    running.streams = true;
    waiting = std::exchange(running.waiting, {});
  }
  for (const Waiting& each : waiting) each.done(InProgress());
}

void IdempotencyKeys::PassOn(const std::string& id) {
  std::optional<Waiting> next;
  {
    const MutexLock lock(mutex_);
    const auto at = running_.find(id);
    std::vector<Waiting>& waiting = at->second.waiting;
    if (waiting.empty()) {
      running_.erase(at);
      return;
    }
    next = std::move(waiting.front());
    waiting.erase(waiting.begin());
  }
  next->done(Found{std::shared_ptr<Turn>(new Turn(*this, id, std::move(next->asked))), nullptr});
}

// Repeats get the answer from memory until it is written, so that none is computed in between.
void IdempotencyKeys::Save(const std::string& id, const RequestIdentity& asked,
                           const std::shared_ptr<const StoredAnswer>& answer) {
  std::vector<Waiting> waiting;
  bool keeps =
      answer->bytes() <= options_.limits.answer_bytes && answer->bytes() <= options_.limits.bytes;
  {
    const MutexLock lock(mutex_);
    keeps = keeps && unwritten_bytes_ + answer->bytes() <= options_.unwritten_bytes;
    const auto at = running_.find(id);
    waiting = std::exchange(at->second.waiting, {});
    if (keeps) {
      at->second.answer = answer;
      unwritten_bytes_ += answer->bytes();
    } else {
      running_.erase(at);
      ++counts_.unkept;
    }
  }
  for (const Waiting& each : waiting) each.done(Found{nullptr, answer});
  if (!keeps) return;
  store_.Write(
      [this, id, asked, answer](store::Database& rows) {
        return SaveAnswer(rows, {id, asked.tenant, asked.body_hash, *answer}, unix_ms_(),
                          options_.limits);
      },
      [this, id, answer](const Status& status) {
        const MutexLock lock(mutex_);
        running_.erase(id);
        unwritten_bytes_ -= answer->bytes();
        ++(status.ok() ? counts_.kept : counts_.unkept);
      });
}

void IdempotencyKeys::Expire() {
  store_.Write(
      [this](store::Database& rows) {
        return ExpireAnswers(rows, unix_ms_(), kExpiredAtOnce, options_.limits).status();
      },
      [](const Status&) {});  // the next call tries again
}

IdempotencyKeys::Counts IdempotencyKeys::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace tutti::idempotency
