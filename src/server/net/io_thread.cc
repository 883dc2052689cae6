#include "server/net/io_thread.h"

#include <exception>

#include "base/memory_reserve.h"
#include "base/threads.h"

namespace tutti::sockets {

IoThread::IoThread(const char* name, Logger* log, const char* failure)
    : name_(name), log_(log), failure_(failure), work_(context_.get_executor()) {}

void IoThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void IoThread::Run() {
  NameThread(name_);
  KeepMemoryReserve();
  while (true) {
    try {
      context_.run();
      return;
    } catch (const std::exception& error) {  // a library threw through a handler
      NoteFailure(error.what());             // the others go on
    }
  }
}

void IoThread::NoteFailure(const char* what) noexcept {
  OpenMemoryReserve();
  try {
    if (log_ != nullptr) log_->Error(failure_, {{"what", what}});
  } catch (const std::exception&) {  // not even for a line of the log
  }
  KeepMemoryReserve();
}

void IoThread::Stop() {
  work_.reset();
  if (thread_.joinable()) thread_.join();
}

void IoThread::Sweep() {
  context_.restart();
  context_.poll();
}

}  // namespace tutti::sockets
