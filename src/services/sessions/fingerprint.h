// 64-bit hash of a message's content. A message with a known id must have the hash of the first
// one. Pure; stored, so the value must not depend on the process or version.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "services/sessions/message.h"
#include "store/migrations.h"

namespace tutti::sessions {

extern const store::Migration kFingerprintTables;  // behind kHistoryTables

// Hash of the roles and texts of the input and of the system prompt. Model and deadline are not
// part of it: the server may choose the model, and a repeated message may have another deadline.
// Never 0. Not collision-resistant: a sender could only deceive itself.
int64_t FingerprintOf(const Message& message);

// `known`: fingerprint of the first message with that id; 0: not stored (older version), always OK.
// Errors: idempotency_key_mismatch.
Status CheckSame(int64_t known, const Message& message);

}  // namespace tutti::sessions
