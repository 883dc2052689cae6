// What a message says in 64 bits, by which one that comes again with its id is known to be the
// same. Pure; the same in every process, for it is stored.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "services/sessions/message.h"
#include "store/migrations.h"

namespace tutti::sessions {

extern const store::Migration kFingerprintTables;  // behind kHistoryTables

// Of the roles and texts of its input and of its system prompt. Not of how it is to be answered:
// its model may be the server's choice, and one that is sent again may be given another time. Never
// 0. Not against who means harm: a sender could deceive only itself.
int64_t FingerprintOf(const Message& message);

// `known`: of the message that the id was given to; 0: of a time when none was stored. Errors:
// idempotency_key_mismatch.
Status CheckSame(int64_t known, const Message& message);

}  // namespace tutti::sessions
