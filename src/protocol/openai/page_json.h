// One page of a list in OpenAI's form: {"object":"list","data":[...],"first_id","last_id",
// "has_more"}. Pure.
#pragma once

#include <span>
#include <string>

#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// `write` writes one element; an element has an `id`. `more`: elements follow behind this page.
template <typename View>
std::string PageJson(std::span<const View> page, bool more,
                     void (*write)(const View&, JsonWriter*)) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (const View& view : page) write(view, &json);
  json.EndArray();
  json.Member("first_id", page.empty() ? std::string() : page.front().id);
  json.Member("last_id", page.empty() ? std::string() : page.back().id);
  json.Member("has_more", more).EndObject();
  return out;
}

}  // namespace tutti::protocol
