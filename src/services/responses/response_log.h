// ResponseLog: the append-only event log of one response; all servers read it.
//
// Entries are typed events, which each server renders for its clients. They are numbered from 0
// without gaps; exactly one is terminal, the last. One writer; any
// number of readers, each with its own cursor (the number of the last entry it has seen). Readers
// may come and go, and replay and live tail are the same operation. The log is bounded in bytes:
// the oldest entries are dropped first, and reading a dropped entry fails with `expired`. The
// terminal entry, which repeats the whole text, is never dropped.
//
// Thread-safe; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "api/token_stream.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/responses/events.h"

namespace tutti::responses {

struct LogEntry {
  int64_t sequence = 0;
  protocol::ResponseEvent event;

  bool terminal() const { return protocol::IsTerminal(event); }
};

class ResponseLog {
 public:
  explicit ResponseLog(size_t max_bytes) : max_bytes_(max_bytes) {}
  ResponseLog(const ResponseLog&) = delete;
  ResponseLog& operator=(const ResponseLog&) = delete;

  // --- the writer ---
  int64_t next() const;  // number of the next entry
  void Append(protocol::ResponseEvent event);
  // Wakes each watcher once for all entries appended since the last call.
  void Announce();
  // Called when the process ends and the next one will continue this response: nothing more is
  // appended here, and no terminal entry follows. Wakes the watchers.
  void Interrupt();

  // --- readers ---
  using Entry = std::shared_ptr<const LogEntry>;
  // At most `most` entries after `starting_after` (-1: from the first). Empty: there are none yet,
  // or the log has ended. Errors: expired (they were dropped).
  Result<std::vector<Entry>> Read(int64_t starting_after, size_t most) const;
  bool ended() const;  // the terminal entry is there
  // True after Interrupt(): no entry follows. A server whose connection ends with the process
  // notifies its client; a server whose client gets the end from the next process need not check.
  bool interrupted() const;
  int64_t first() const;  // the oldest entry that is still here
  size_t bytes() const;

  // Registers a waker for each Announce(); one waker may watch for several readers. Read once after
  // this call, to get entries from before it. False if too many different wakers watch.
  bool Watch(const std::shared_ptr<Waker>& waker);
  void Unwatch(const std::shared_ptr<Waker>& waker);

 private:
  const size_t max_bytes_;
  mutable Mutex mutex_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  int64_t next_ GUARDED_BY(mutex_) = 0;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool interrupted_ GUARDED_BY(mutex_) = false;
  std::map<std::shared_ptr<Waker>, int> watchers_ GUARDED_BY(mutex_);
};

}  // namespace tutti::responses
