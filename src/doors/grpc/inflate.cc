#include "doors/grpc/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace tutti::rpc {
namespace {

struct Stream {
  z_stream z{};
  bool open = false;
  ~Stream() {
    if (open) inflateEnd(&z);
  }
};

}  // namespace

Result<std::string> Inflate(Coding coding, std::string_view compressed, size_t most_bytes) {
  constexpr int kWindowBits = 15, kGzipHeader = 16;
  const auto malformed = [] {
    return InvalidArgument("invalid_value", "the compressed message is malformed");
  };
  Stream stream;
  if (inflateInit2(&stream.z, coding == Coding::kGzip ? kWindowBits + kGzipHeader : kWindowBits) !=
      Z_OK) {
    return OutOfMemory();
  }
  stream.open = true;
  stream.z.next_in =
      const_cast<Bytef*>(reinterpret_cast<const Bytef*>(compressed.data()));  // zlib reads it only
  stream.z.avail_in = static_cast<uInt>(compressed.size());
  std::string out;
  while (true) {
    // One byte more than is allowed tells a message that is as long as that from a longer one.
    const size_t room =
        std::min(std::max<size_t>(compressed.size() * 4, 4096), most_bytes + 1 - out.size());
    const size_t before = out.size();
    out.resize(before + room);
    stream.z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.z.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream.z, Z_NO_FLUSH);
    out.resize(before + room - stream.z.avail_out);
    if (out.size() > most_bytes) {
      return ResourceExhausted(
          "request_too_large",
          "the message has more than " + std::to_string(most_bytes) + " bytes when it is inflated");
    }
    if (status == Z_STREAM_END) break;
    if (status != Z_OK || (stream.z.avail_out > 0 && stream.z.avail_in == 0)) return malformed();
  }
  if (stream.z.avail_in != 0) return malformed();
  return out;
}

}  // namespace tutti::rpc
