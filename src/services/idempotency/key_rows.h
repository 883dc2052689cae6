// Database rows of stored answers, which repeated requests get. All SQL about them is here.
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's.
// Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::idempotency {

extern const store::Migration kKeyTables;

// Limits on the stored answers of each tenant.
struct KeyLimits {
  int64_t rows = 10'000;                     // of a tenant; the oldest go first
  int64_t bytes = int64_t{64} << 20;         // of a tenant's heads and bodies; the oldest go first
  int64_t answer_bytes = int64_t{4} << 20;   // of one; a longer one is not stored
  int64_t ttl_ms = int64_t{24} * 3'600'000;  // after it was stored
};

struct StoredAnswer {
  int status = 200;
  std::string head;  // header fields, "name: value\n" each
  std::string body;

  int64_t bytes() const { return static_cast<int64_t>(head.size() + body.size()); }
};

struct KeyRow {
  std::string id;         // hash of tenant, method, path and key: 32 bytes
  std::string tenant;     // whose limits it counts against
  std::string body_hash;  // CanonicalBodyHash() of the request
  StoredAnswer answer;
};

// Returns nullopt if there is no answer, or it is too old.
Result<std::optional<KeyRow>> LoadAnswer(store::Database& database, const std::string& id,
                                         int64_t now_ms, const KeyLimits& limits);
// Inserts or replaces an answer, and deletes the tenant's oldest ones beyond the limits.
Status SaveAnswer(store::Database& database, const KeyRow& row, int64_t now_ms,
                  const KeyLimits& limits);
// Deletes at most `most` answers that are too old; returns their number.
Result<int64_t> ExpireAnswers(store::Database& database, int64_t now_ms, int64_t most,
                              const KeyLimits& limits);

}  // namespace tutti::idempotency
