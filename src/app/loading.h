// Loading: the models of a process, loaded one after the other on a thread of their own while the
// rest of it goes on.
//
// One thread, but for failed(). Made when the models are opened; what it is given outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "app/local_inference.h"
#include "base/status.h"

namespace tutti::app {

// No two of one name. Errors: invalid_value.
Status CheckModelNames(const std::vector<ModelRef>& models);

// The headers of all models, checked against the options; notices go to standard error. Errors:
// those of LocalInference::Open, naming the model.
Result<std::vector<OpenedModel>> OpenAll(const LocalInference& inference,
                                         const std::vector<ModelRef>& models);

// One model of a command in the terminal, likewise. `fuse`: as LoadContext's.
Result<OpenedModel> OpenOne(const LocalInference& inference, const ModelRef& ref, bool fuse = true);

class Loading {
 public:
  struct Events {                                   // on the thread that loads
    std::function<Status(const ModelRef&)> served;  // its errors end it as those of a model do
    std::function<void()> all_served;
  };

  Loading(LocalInference& inference, const std::vector<ModelRef>& models,
          std::vector<OpenedModel> opened, Events events);
  ~Loading();

  // Set when a model could not be loaded: Wait() tells why.
  const std::atomic<bool>& failed() const { return failed_; }
  // What is being loaded ends soon, and nothing after it begins.
  void Abandon() { abandoned_.store(true, std::memory_order_release); }
  // Until the thread has ended. An error unless all are served or it was abandoned.
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
