// The answers of the store that are given to who sends a request again. The one place with SQL of
// theirs.
//
// All functions run on the store's thread, inside a work of it; their errors are the database's.
// Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::idempotency {

extern const store::Migration kRepeatTables;

// Limits on the stored answers of each tenant.
struct KeyLimits {
  int64_t rows = 10'000;                     // of a tenant; the oldest go first
  int64_t bytes = int64_t{64} << 20;         // of a tenant's heads and bodies; the oldest go first
  int64_t answer_bytes = int64_t{4} << 20;   // of one; a longer one is not kept
  int64_t ttl_ms = int64_t{24} * 3'600'000;  // from when it was given
};

// An answer as it was given.
struct KeptAnswer {
  int status = 200;
  std::string head;  // its fields, "name: value\n" each
  std::string body;

  int64_t bytes() const { return static_cast<int64_t>(head.size() + body.size()); }
};

struct KeyRow {
  std::string id;      // of tenant, method, path and key: 32 bytes
  std::string tenant;  // whose share of the limits it takes
  std::string print;   // of the body: 32 bytes
  KeptAnswer answer;
};

// Nothing: there is none, or it is too old.
Result<std::optional<KeyRow>> LoadRepeat(store::Database& database, const std::string& id,
                                         int64_t now_ms, const KeyLimits& limits);
// In place of one that there is. The tenant's oldest make room.
Status SaveRepeat(store::Database& database, const KeyRow& row, int64_t now_ms,
                  const KeyLimits& limits);
// Those that are too old, at most `most`; how many went.
Result<int64_t> ExpireRepeats(store::Database& database, int64_t now_ms, int64_t most,
                              const KeyLimits& limits);

}  // namespace tutti::idempotency
