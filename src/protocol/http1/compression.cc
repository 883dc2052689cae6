#include "protocol/http1/compression.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"

namespace tutti::protocol {
namespace {

constexpr int kWindowBits = 15, kGzipHeader = 16;

int WindowBits(Coding coding) {
  return coding == Coding::kGzip ? kWindowBits + kGzipHeader : kWindowBits;
}

struct Stream {
  z_stream z{};
  int (*end)(z_stream*) = nullptr;  // set after successful initialisation
  ~Stream() {
    if (end != nullptr) end(&z);
  }
};

Bytef* Readable(std::string_view bytes) {  // zlib does not write to its input
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
}

}  // namespace

Result<std::string> Inflate(Coding coding, std::string_view compressed, size_t max_bytes) {
  const auto malformed = [] {
    return InvalidArgument("invalid_value", "the compressed message is malformed");
  };
  Stream stream;
  if (inflateInit2(&stream.z, WindowBits(coding)) != Z_OK) return OutOfMemory();
  stream.end = &inflateEnd;
  stream.z.next_in = Readable(compressed);
  stream.z.avail_in = static_cast<uInt>(compressed.size());
  std::string out;
  size_t filled = 0;  // of `out`: many small members share one piece of room
  while (true) {
    if (filled == out.size()) {
      // One byte more than the limit, to detect a message that exceeds it.
      out.resize(filled +
                 std::min(std::max<size_t>(compressed.size() * 4, 4096), max_bytes + 1 - filled));
    }
    stream.z.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.z.avail_out = static_cast<uInt>(out.size() - filled);
    const int status = inflate(&stream.z, Z_NO_FLUSH);
    filled = out.size() - stream.z.avail_out;
    if (filled > max_bytes) {
      return ResourceExhausted(
          "request_too_large",
          "the message has more than " + std::to_string(max_bytes) + " bytes when it is inflated");
    }
    if (status == Z_STREAM_END) {
      if (coding != Coding::kGzip || stream.z.avail_in == 0) break;
      // Another member (RFC 1952, section 2.2), as produced by `cat a.gz b.gz`.
      if (inflateReset(&stream.z) != Z_OK) return malformed();
    } else if (status != Z_OK || (stream.z.avail_out > 0 && stream.z.avail_in == 0)) {
      return malformed();
    }
  }
  if (stream.z.avail_in != 0) return malformed();
  out.resize(filled);
  return out;
}

Result<std::string> Deflate(Coding coding, std::string_view plain) {
  constexpr int kMemoryLevel = 8;  // zlib's own default
  Stream stream;
  if (deflateInit2(&stream.z, Z_BEST_SPEED, Z_DEFLATED, WindowBits(coding), kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return OutOfMemory();
  }
  stream.end = &deflateEnd;
  std::string out(deflateBound(&stream.z, plain.size()), '\0');
  stream.z.next_in = Readable(plain);
  stream.z.avail_in = static_cast<uInt>(plain.size());
  stream.z.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.z.avail_out = static_cast<uInt>(out.size());
  CHECK(deflate(&stream.z, Z_FINISH) == Z_STREAM_END) << "deflateBound() gives room for all of it";
  out.resize(out.size() - stream.z.avail_out);
  return out;
}

}  // namespace tutti::protocol
