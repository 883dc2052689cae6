// Loads the model that a ModelOptions describes; Model and Encoder share it.
#pragma once

#include <signal.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "library/state.h"
#include "tutti/error.h"
#include "tutti/model.h"

namespace tutti {

struct ModelOptions::Impl {
  std::string model;
  std::map<std::string, std::string> values;  // option name -> text
  std::function<void(size_t, size_t)> progress;
};

namespace library {

// Threads started in this scope block all signals, which belong to the host program's own threads.
class NoSignalsHere {
 public:
  NoSignalsHere() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignalsHere() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignalsHere(const NoSignalsHere&) = delete;
  NoSignalsHere& operator=(const NoSignalsHere&) = delete;

 private:
  sigset_t before_;
};

// Reads, packs and serves the model; takes seconds. `defaults`: options by their keys, for those
// that the caller has not set. Errors: as Model::Load.
Expected<std::shared_ptr<Model::State>> LoadModel(
    const ModelOptions& options, const std::map<std::string, std::string>& defaults);

}  // namespace library
}  // namespace tutti
