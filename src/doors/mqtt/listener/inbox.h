// Inbox: work that other threads leave for the io thread. It wakes once for all that came
// meanwhile.
//
// Held by shared pointers, because whoever was given a Receipt may outlive the listener. Any
// thread.
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

  // `settle` is run on the io thread after each round of works.
  Inbox(boost::asio::io_context& context, Work settle)
      : context_(context), settle_(std::move(settle)) {}

  // Runs `work` on the io thread, in order. False, and it never runs: closed.
  bool Post(Work work);
  // On the io thread. What waits is dropped, what comes is refused.
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
