#include "safetensors/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::safetensors {
namespace {

namespace bj = boost::json;
using bj::error_code;
using bj::string_view;

// Converts the parser's events, in which strings arrive in parts, to events with whole strings.
class Adapter {
 public:
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);

  explicit Adapter(JsonEvents* events) : events_(*events) {}
  Status& fault() { return fault_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code& ec) { return Pass(events_.OnObjectBegin(), ec); }
  bool on_object_end(size_t, error_code& ec) { return Pass(events_.OnObjectEnd(), ec); }
  bool on_array_begin(error_code& ec) { return Pass(events_.OnArrayBegin(), ec); }
  bool on_array_end(size_t, error_code& ec) { return Pass(events_.OnArrayEnd(), ec); }

  bool on_key_part(string_view part, size_t, error_code&) { return Collect(part); }
  bool on_key(string_view part, size_t, error_code& ec) {
    return Pass(events_.OnKey(Finish(part)), ec);
  }
  bool on_string_part(string_view part, size_t, error_code&) { return Collect(part); }
  bool on_string(string_view part, size_t, error_code& ec) {
    return Pass(events_.OnString(Finish(part)), ec);
  }

  bool on_number_part(string_view part, error_code&) {
    if (!part.empty() && !in_number_) first_ = part.front();
    in_number_ = in_number_ || !part.empty();
    return true;
  }
  bool on_int64(int64_t value, string_view part, error_code& ec) {
    on_number_part(part, ec);
    in_number_ = false;
    // "-0" is a whole number to the parser.
    if (first_ == '-') return Pass(events_.OnOther(), ec);
    return Pass(events_.OnUint(static_cast<uint64_t>(value)), ec);
  }
  bool on_uint64(uint64_t value, string_view, error_code& ec) {
    in_number_ = false;
    return Pass(events_.OnUint(value), ec);
  }
  bool on_double(double, string_view, error_code& ec) {
    in_number_ = false;
    return Pass(events_.OnOther(), ec);
  }
  bool on_bool(bool, error_code& ec) { return Pass(events_.OnOther(), ec); }
  bool on_null(error_code& ec) { return Pass(events_.OnOther(), ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool Collect(string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  std::string Finish(string_view part) {
    Collect(part);
    return std::exchange(text_, std::string());
  }
  bool Pass(Status status, error_code& ec) {
    if (status.ok()) return true;
    fault_ = std::move(status);
    ec = bj::error::input_error;
    return false;
  }

  JsonEvents& events_;
  std::string text_;        // of the string or key in hand
  bool in_number_ = false;  // a part of a number was seen
  char first_ = 0;          // its first character
  Status fault_;
};

Status Fault(const error_code& ec, uint64_t position) {
  std::string what;
  if (ec == bj::error::too_deep) {
    what = fmt::format("it nests deeper than {} levels", kMaxJsonDepth);
  } else if (ec == bj::error::incomplete) {
    what = "it ends inside a value";
  } else if (ec == bj::error::extra_data) {
    what = "something follows the value";
  } else {
    what = ec.message();
  }
  return InvalidArgument("st_json", fmt::format("not JSON at byte {}: {}", position, what));
}

}  // namespace

Status StreamJson(const files::Source& source, uint64_t offset, uint64_t length, JsonEvents* events,
                  size_t chunk) {
  bj::parse_options options;
  options.max_depth = kMaxJsonDepth;
  bj::basic_parser<Adapter> parser(options, events);
  std::vector<char> buffer(static_cast<size_t>(std::min<uint64_t>(length, chunk)));
  uint64_t done = 0;
  do {
    const auto size = static_cast<size_t>(std::min<uint64_t>(buffer.size(), length - done));
    RETURN_IF_ERROR(
        source.ReadAt(offset + done, std::as_writable_bytes(std::span(buffer.data(), size))));
    error_code ec;
    const size_t used = parser.write_some(done + size < length, buffer.data(), size, ec);
    if (!parser.handler().fault().ok()) return std::move(parser.handler().fault());
    if (!ec && used < size) ec = bj::error::extra_data;
    if (ec) return Fault(ec, offset + done + used);
    done += size;
  } while (done < length);
  return OkStatus();
}

}  // namespace tutti::safetensors
