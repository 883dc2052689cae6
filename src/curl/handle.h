// Owning types over libcurl's "easy" interface: https://curl.se/libcurl/c/libcurl-easy.html.
//
// A Handle is used by one thread at a time; handles of different threads are independent.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

namespace tutti::curl {

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, FreeHandle>;

// Never null. Initialises libcurl at the first call, of any thread.
Handle NewHandle();

// Lines such as "Accept: text/plain" for CURLOPT_HTTPHEADER. "Name:" removes a line that libcurl
// would add by itself. Must outlive the request.
class HeaderLines {
 public:
  void Add(const std::string& line);
  curl_slist* get() const { return list_.get(); }

 private:
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::unique_ptr<curl_slist, FreeList> list_;
};

}  // namespace tutti::curl
