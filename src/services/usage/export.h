// Rows of the ledger as text for other programs: JSON, a line each, or CSV. Pure.
//
// Both hold the same fields in the same order under the same names, and every number as stored, so
// that sums over either are those of the ledger.
#pragma once

#include <string>

#include "services/usage/ledger_rows.h"

namespace tutti::usage {

// {"time":"2026-01-31T12:00:00.123Z","tenant":...}, and a line feed.
void AppendJsonLine(const Row& row, std::string* out);

// The first line of a CSV file; like all its lines it ends with CR LF.
void AppendCsvHeader(std::string* out);
// Texts with a comma, a quote or a line break are quoted (RFC 4180, section 2).
void AppendCsvLine(const Row& row, std::string* out);

}  // namespace tutti::usage
