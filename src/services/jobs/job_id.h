// Ids of jobs: row number and 64 random bits, encrypted with a key that each store has.
//
// Ids must be unguessable and must not reveal the number or the time of jobs. Random ids would need
// an index, which would be the greatest cost of accepting a job: each new id falls on another page,
// and each page is written to the log and to the file. An encrypted row number needs no index: the
// server decrypts it and compares the whole id with the one stored in the row. Cipher: AES-128
// (FIPS 197), one block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/database.h"

namespace tutti::jobs {

// "job_" and 32 hex digits; another one each time, also for the same number.
std::string SealedId(store::Blob key, int64_t number);
// Row number in an id; nullopt if the id is malformed. An id under another key gives an arbitrary
// number or nullopt.
std::optional<int64_t> NumberIn(store::Blob key, std::string_view id);

}  // namespace tutti::jobs
