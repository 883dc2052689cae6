// HubName: the name of a model on a hub, ORG/NAME[:QUANT][@REVISION], as users type it.
//
// A value. The functions are pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::models {

inline constexpr std::string_view kMainRevision = "main";

struct HubName {
  std::string repository;  // "ORG/NAME", as typed: the folder of the cache is named after it
  std::string quant;     // which GGUF file: "Q4_K_M", or another end of its name; empty: not given
  std::string revision;  // branch, tag or commit; empty: main

  std::string_view revision_or_main() const {
    return revision.empty() ? kMainRevision : std::string_view(revision);
  }
  std::string ToString() const;  // as it is typed
  // The name that clients use for the served model: without the revision.
  std::string ServedName() const;
  friend bool operator==(const HubName&, const HubName&) = default;
};

// Reads the name; "hf.co/", "huggingface.co/" and "https://" before either are left out. The
// address of a GGUF on that host is read too: its name is then the quant. Errors: invalid_value,
// with the part that is wrong.
Result<HubName> ParseHubName(std::string_view text);

// Whether `text` is a path that can be created below a folder of the cache and stays there:
// relative, of plain components, without control characters and backslashes, at most 1,024 bytes.
bool IsSafeRelativePath(std::string_view text);

// "m-00002-of-00003", the name of a part of a split file without its ending: "m" and 3.
struct SplitStem {
  std::string_view stem;  // of the text that was read
  uint32_t count;
};
std::optional<SplitStem> ReadSplitStem(std::string_view stem);
std::optional<SplitStem> ReadSplitStem(std::string&& stem) = delete;  // the result would outlive it

// Whether `text` is the hash of a commit: 40 hexadecimal digits in lower case.
bool IsCommitHash(std::string_view text);

}  // namespace tutti::models
