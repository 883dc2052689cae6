// Request bodies as JSON: refused with one of four codes, or writing and reading them again changes
// nothing.
#include <boost/json/serialize.hpp>
#include <string>

#include "base/check.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const tutti::Result<tutti::protocol::JsonDocument> parsed = tutti::protocol::ParseJson(text);
  if (!parsed.ok()) {
    const std::string reason = parsed.status().reason();
    CHECK(reason == "invalid_json" || reason == "json_depth" || reason == "duplicate_key" ||
          reason == "invalid_utf8")
        << parsed.status();
    CHECK(tutti::IsValidUtf8(parsed.status().message()));
    return 0;
  }
  CHECK(tutti::IsValidUtf8(text)) << "malformed UTF-8 was accepted";
  const std::string written = boost::json::serialize(parsed->root());
  const tutti::Result<tutti::protocol::JsonDocument> again = tutti::protocol::ParseJson(written);
  CHECK(again.ok()) << again.status();
  CHECK(again->root() == parsed->root()) << "the value changed";
  return 0;
}
