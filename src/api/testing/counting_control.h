// A Cancellable that counts how often it was cancelled. One thread.
#pragma once

#include "api/token_stream.h"

namespace tutti::api {

class CountingControl : public Cancellable {
 public:
  void Cancel() noexcept override { ++cancels; }
  int cancels = 0;
};

}  // namespace tutti::api
