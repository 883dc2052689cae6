// Inbox: work that other threads post to the io thread. The io thread is woken once for all work
// that has arrived.
//
// Held by shared pointers, because the holder of a Receipt may outlive the listener. Any thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/core_wanted.h"
#include "base/mutex.h"

namespace tutti::mqtt::listener {

class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  using Work = std::function<void()>;

  // `settle` runs on the io thread after each round of work.
  Inbox(boost::asio::io_context& context, Work settle)
      : context_(context), settle_(std::move(settle)) {}

  // Runs `work` on the io thread, in order. False: the inbox is closed, and `work` never runs.
  bool Post(Work work);
  // Called on the io thread. Drops waiting work and refuses new work.
  void Close();

 private:
  void RunAll();

  boost::asio::io_context& context_;  // not touched once closed
  const Work settle_;
  Mutex mutex_;
  CoreWanted wanted_;
  std::vector<Work> waiting_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::listener
