// Ids of jobs: the row's number and 64 random bits, enciphered under a key of the store's own.
//
// An id must not be guessed, and must tell nothing of how many jobs there are or when they came;
// yet an index over random texts is what an accepted job would cost most: each falls on a page of
// its own, and each page is written to the log and to the file. An id that says its row to whoever
// has the key needs no index. The row keeps its id, and is the one asked for only if that is equal.
// Cipher: AES-128 (FIPS 197), one block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/database.h"

namespace tutti::jobs {

// "job_" and 32 hex digits; another one each time, also for the same number.
std::string SealedId(store::Blob key, int64_t number);
// The number in it. Nothing: no id of that form. Of an id under another key some number or none.
std::optional<int64_t> NumberIn(store::Blob key, std::string_view id);

}  // namespace tutti::jobs
