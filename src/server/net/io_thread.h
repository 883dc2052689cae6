// IoThread: an io_context and the one thread that runs it. A handler that throws is logged, and the
// loop continues. Start, Stop and Sweep must be called by one thread, the owner's.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "base/log.h"

namespace tutti::sockets {

class IoThread {
 public:
  // `name` is the thread's, `failure` the log's event for a handler that threw. Both are literals;
  // `log` may be null.
  IoThread(const char* name, Logger* log, const char* failure);
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  boost::asio::io_context& context() { return context_; }
  void Start();
  bool started() const { return thread_.joinable(); }  // and not stopped
  // Joins when the context has no more work; users of the context must end their work first.
  void Stop();
  void Sweep();  // after Stop(): runs what was posted too late, on the calling thread

 private:
  void Run();
  void NoteFailure(const char* what) noexcept;

  const char* const name_;
  Logger* const log_;
  const char* const failure_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace tutti::sockets
