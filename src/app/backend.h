// Backend: where the models of a serving process are: in it (LocalInference), or in its workers.
// What State, Doors and whoever drains them need of it, and no more.
#pragma once

#include <atomic>

#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"

namespace tutti::app {

// Thread-safe; Drain() waits.
class Backend : public api::HealthProbe {
 public:
  // Beneath admission: what doors ask is State::inference().
  virtual api::Inference& models() = 0;
  virtual const Clock& clock() const = 0;
  // Of the process; whoever watches it writes it, and requests are admitted by it.
  virtual std::atomic<api::LoadLevel>& memory_level() = 0;

  // New requests are refused (draining), readyz drops; what runs goes on.
  virtual void BeginDrain() = 0;
  // BeginDrain, then waits for the running requests; what is left at the limit ends with a typed
  // error. True when all had finished by themselves.
  virtual bool Drain(Duration limit) = 0;
};

}  // namespace tutti::app
