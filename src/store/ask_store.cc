#include "store/ask_store.h"

#include <string>

namespace tutti::store {

Status ClientStatus(const Status& status) {
  if (status.ok() || status.code() == StatusCode::kInvalidArgument) return status;
  const std::string& reason = status.reason();
  if (reason == "store_full") return Unavailable("storage_full", "the disk of the store is full");
  if (reason == "store_failed" || reason == "store_corrupt" || reason == "record_corrupt" ||
      reason == "store_locked" || reason == "store_conflict") {
    return Unavailable("storage_error", "the store cannot keep this now");
  }
  return status;  // an error of the work itself
}

}  // namespace tutti::store
