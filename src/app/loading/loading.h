// Loading: loads the models of a process one after the other on its own thread, in the background.
//
// Made after the models have been opened; its arguments must outlive it. For use by one thread; any
// thread may call failed().
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "app/local_inference.h"
#include "base/status.h"

namespace tutti::app {

// Checks that all model names are distinct. Errors: invalid_value.
Status CheckModelNames(const std::vector<ModelRef>& models);

// Opens all models: reads their headers and checks them against the options. Prints notices to
// standard error. Errors: those of LocalInference::Open, with the name of the model.
Result<std::vector<OpenedModel>> OpenAll(const LocalInference& inference,
                                         const std::vector<ModelRef>& models);

// Like OpenAll, for the one model of a terminal command. `fuse`: as LoadContext's.
Result<OpenedModel> OpenOne(const LocalInference& inference, const ModelRef& ref, bool fuse = true);

class Loading {
 public:
  struct Events {                                   // on the thread that loads
    std::function<Status(const ModelRef&)> served;  // its errors end it as those of a model do
    std::function<Status()> all_served;             // the same
  };

  Loading(LocalInference& inference, const std::vector<ModelRef>& models,
          std::vector<OpenedModel> opened, Events events);
  ~Loading();

  // True when a model could not be loaded; Wait() returns the error.
  const std::atomic<bool>& failed() const { return failed_; }
  // Aborts the current load soon and begins no further one.
  void Abandon() { abandoned_.store(true, std::memory_order_release); }
  // Blocks until the thread has ended. OK if all models are served or loading was abandoned.
  Status Wait();

 private:
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  void Main();
  Status LoadOne(OpenedModel model);
  void Fail(Status why);

  LocalInference& inference_;
  const std::vector<ModelRef>& models_;
  std::vector<OpenedModel> opened_;  // of the thread
  const Events events_;
  Status status_;  // of the thread until it has ended
  std::atomic<bool> failed_{false}, abandoned_{false};
  std::thread thread_;
};

}  // namespace tutti::app
