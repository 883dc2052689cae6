// ResponseLog: the append-only event log of one response, from which every door reads.
//
// Entries are numbered from 0 without gaps; the last is terminal, and there is exactly one. One
// writer; any number of readers, each with its own cursor (the number of the last entry it has
// seen), which may come and go: replay and live tail are the same reading. Bounded in bytes: the
// oldest entries go first, and a reader that wants one of them is told so (`expired`) instead of
// being given less; the terminal entry, which repeats the whole text, never goes.
//
// Thread-safe; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/token_stream.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::responses {

struct LogEntry {
  int64_t sequence = 0;
  std::string_view type;  // "response.output_text.delta"; lives as long as the program
  std::string json;       // the event, as every door carries it
  bool terminal = false;
};

class ResponseLog {
 public:
  explicit ResponseLog(size_t most_bytes) : most_bytes_(most_bytes) {}
  ResponseLog(const ResponseLog&) = delete;
  ResponseLog& operator=(const ResponseLog&) = delete;

  // --- the writer ---
  int64_t next() const;  // number of the next entry
  void Append(std::string_view type, std::string json, bool terminal = false);
  // Tells those who watch, each waker once, of all that was appended since.
  void Announce();
  // The process ends, and the next one goes on with this response: nothing is appended here any
  // more, and there is no terminal entry. Tells those who watch.
  void Interrupt();

  // --- readers ---
  using Entry = std::shared_ptr<const LogEntry>;
  // Entries behind `starting_after` (-1: from the first), at most `most` of them; none: not yet
  // there, or the log has ended before. Errors: expired (they were dropped).
  Result<std::vector<Entry>> Read(int64_t starting_after, size_t most) const;
  bool ended() const;  // the terminal entry is there
  // Nothing follows what Read() gives after this. A door whose connection ends with the process
  // says so; one whose client is told the end by the next process need not look.
  bool interrupted() const;
  int64_t first() const;  // the oldest entry that is still here
  size_t bytes() const;

  // To be told of each Announce(); the same waker may watch for several readers. Read after this
  // once, so as not to miss what came before. False when too many different ones watch.
  bool Watch(const std::shared_ptr<api::StreamWaker>& waker);
  void Unwatch(const std::shared_ptr<api::StreamWaker>& waker);

 private:
  const size_t most_bytes_;
  mutable Mutex mutex_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  int64_t next_ GUARDED_BY(mutex_) = 0;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool interrupted_ GUARDED_BY(mutex_) = false;
  std::map<std::shared_ptr<api::StreamWaker>, int> watchers_ GUARDED_BY(mutex_);
};

}  // namespace tutti::responses
