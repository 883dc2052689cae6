#include "curl/handle.h"

#include "base/check.h"

namespace tutti::curl {

Handle NewHandle() {
  // The state that this initialises is the library's own.
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CHECK(started);
  Handle handle(curl_easy_init());
  CHECK(handle != nullptr);
  return handle;
}

void HeaderLines::Add(const std::string& line) {
  curl_slist* const longer = curl_slist_append(list_.get(), line.c_str());
  CHECK(longer != nullptr);
  (void)list_.release();  // it is the beginning of the longer one
  list_.reset(longer);
}

}  // namespace tutti::curl
