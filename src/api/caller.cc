#include "api/caller.h"

namespace tutti::api {

const CallerRef& Ourselves() {
  static const CallerRef ourselves = std::make_shared<const Caller>(
      Caller{.tenant = {}, .credential = "tutti", .models = {}, .limits = {}});
  return ourselves;
}

}  // namespace tutti::api
