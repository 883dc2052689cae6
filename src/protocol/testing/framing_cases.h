// Requests that two HTTP readers could read differently, with what this server answers. Used
// against the framing alone and through a socket.
#pragma once

#include <string>
#include <vector>

namespace tutti::protocol {

struct SmugglingCase {
  const char* name;
  std::string bytes;  // followed on the wire by the start of another request
  int status;
};

inline std::vector<SmugglingCase> SmugglingCases() {
  using std::string_literals::operator""s;
  const std::string start = "POST /v1/completions HTTP/1.1\r\n";
  const std::string host = "Host: localhost\r\n";
  const std::string both = start + host;
  std::vector<SmugglingCase> cases = {
      // --- Content-Length ---
      {"negative length", both + "Content-Length: -5\r\n\r\nhello", 400},
      {"signed length", both + "Content-Length: +5\r\n\r\nhello", 400},
      {"list of equal lengths", both + "Content-Length: 5,5\r\n\r\nhello", 400},
      {"list of equal lengths with a blank", both + "Content-Length: 5, 5\r\n\r\nhello", 400},
      {"two different lengths", both + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400},
      {"two equal lengths", both + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
      {"length of 2^64", both + "Content-Length: 18446744073709551616\r\n\r\nhello", 400},
      {"length of 2^64 + 5", both + "Content-Length: 18446744073709551621\r\n\r\nhello", 400},
      {"empty length", both + "Content-Length: \r\n\r\nhello", 400},
      {"hexadecimal length", both + "Content-Length: 0x5\r\n\r\nhello", 400},
      {"length with a unit", both + "Content-Length: 5b\r\n\r\nhello", 400},
      {"fractional length", both + "Content-Length: 5.0\r\n\r\nhello", 400},
      {"length with an inner blank", both + "Content-Length: 1 5\r\n\r\nhello", 400},
      {"length with a vertical tab", both + "Content-Length: \v5\r\n\r\nhello", 400},
      {"length in exponent form", both + "Content-Length: 1e1\r\n\r\nhello", 400},
      {"quoted length", both + "Content-Length: \"5\"\r\n\r\nhello", 400},
      {"non-ASCII digits in the length", both + "Content-Length: \xef\xbc\x95\r\n\r\nhello", 400},
      // --- Transfer-Encoding ---
      {"length and chunked",
       both + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked and length",
       both + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
      {"chunked, identity", both + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
      {"identity, chunked", both + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 400},
      {"gzip, chunked", both + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"identity", both + "Transfer-Encoding: identity\r\n\r\nhello", 400},
      {"xchunked", both + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked twice in two fields",
       both + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked and another field",
       both + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400},
      {"chunked, chunked", both + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400},
      {"quoted chunked", both + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400},
      {"chunked with a parameter", both + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400},
      {"chunked behind a comma", both + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked behind a vertical tab", both + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
       400},
      {"chunked with a NUL", both + "Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n"s, 400},
      {"empty transfer encoding", both + "Transfer-Encoding:\r\n\r\nhello", 400},
      {"chunked in HTTP/1.0",
       "POST /v1/completions HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      // --- lines and names ---
      {"folded line", both + "X-A: b\r\n c\r\n\r\n", 400},
      {"folded framing field", both + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
      {"line that starts with a tab", both + "\tX-A: b\r\n\r\n", 400},
      {"blank line start before the first field", start + " " + host + "\r\n", 400},
      {"bare LF after the request line", "GET /livez HTTP/1.1\n" + host + "\r\n", 400},
      {"bare LF after a field", "GET /livez HTTP/1.1\r\nHost: localhost\nX-A: b\r\n\r\n", 400},
      {"bare LF at the end of the head", "GET /livez HTTP/1.1\r\n" + host + "\n", 400},
      {"bare CR in a value", both + "X-A: b\rTransfer-Encoding: chunked\r\n\r\n", 400},
      {"CR CR LF", both + "X-A: b\r\r\n\r\n", 400},
      {"blank before the colon", both + "Content-Length : 5\r\n\r\nhello", 400},
      {"tab before the colon", both + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400},
      {"NUL in a value", both + "X-A: b\0c\r\n\r\n"s, 400},
      {"NUL in a name", both + "X-\0A: b\r\n\r\n"s, 400},
      {"escape character in a value", both + "X-A: \x1b[2J\r\n\r\n", 400},
      {"DEL in a value", both + "X-A: \x7f\r\n\r\n", 400},
      {"field without a colon", both + "Content-Length 5\r\n\r\nhello", 400},
      {"field without a name", both + ": 5\r\n\r\n", 400},
      {"name with brackets", both + "Content(Length): 5\r\n\r\nhello", 400},
      {"name beyond ASCII", both + "Content-L\xc3\xa9ngth: 5\r\n\r\nhello", 400},
      // --- the request line ---
      {"HTTP/0.9", "GET /livez\r\n", 400},
      {"lower case protocol", "GET /livez http/1.1\r\n" + host + "\r\n", 400},
      {"two blanks", "GET  /livez HTTP/1.1\r\n" + host + "\r\n", 400},
      {"tab for a blank", "GET\t/livez HTTP/1.1\r\n" + host + "\r\n", 400},
      {"blank in the target", "GET /live z HTTP/1.1\r\n" + host + "\r\n", 400},
      {"NUL in the target", "GET /live\0z HTTP/1.1\r\n"s + host + "\r\n", 400},
      {"non-ASCII in the target", "GET /live\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"version with three digits", "GET /livez HTTP/1.10\r\n" + host + "\r\n", 400},
      {"version without a point", "GET /livez HTTP/11\r\n" + host + "\r\n", 400},
      {"blank after the version", "GET /livez HTTP/1.1 \r\n" + host + "\r\n", 400},
      {"a request of TLS", "\x16\x03\x01\x02", 400},
      {"two empty lines first", "\r\n\r\nGET /livez HTTP/1.1\r\n" + host + "\r\n", 400},
      {"HTTP/3.7", "GET /livez HTTP/3.7\r\n" + host + "\r\n", 505},
      {"HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"HTTP/1.2", "GET /livez HTTP/1.2\r\n" + host + "\r\n", 505},
      // --- Host ---
      {"no host", "GET /livez HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET /livez HTTP/1.1\r\n" + host + host + "\r\n", 400},
      // --- chunks ---
      {"chunk size with 0x", both + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
       400},
      {"chunk size of 17 digits",
       both + "Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n", 400},
      {"signed chunk size", both + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
       400},
      {"negative chunk size", both + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
       400},
      {"blank before a chunk size",
       both + "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", 400},
      {"blank after a chunk size",
       both + "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", 400},
      {"empty chunk size", both + "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", 400},
      {"chunk size with letters",
       both + "Transfer-Encoding: chunked\r\n\r\n5g\r\nhello\r\n0\r\n\r\n", 400},
      {"bare LF after a chunk size",
       both + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400},
      {"bare CR after a chunk size",
       both + "Transfer-Encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n", 400},
      {"chunk longer than its size",
       both + "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n", 400},
      {"chunk shorter than its size",
       both + "Transfer-Encoding: chunked\r\n\r\n6\r\nhello\r\n0\r\n\r\n", 400},
      {"chunk data that ends with LF",
       both + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n", 400},
      {"control character in a chunk extension",
       both + "Transfer-Encoding: chunked\r\n\r\n5;a\x01\r\nhello\r\n0\r\n\r\n", 400},
      {"LF in a chunk extension",
       both + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", 400},
      {"1 MiB of chunk extension",
       both + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(1 << 20, 'x') +
           "\r\nhello\r\n0\r\n\r\n",
       400},
      {"forbidden trailer",
       both + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n", 400},
      {"trailer that authorises",
       both + "Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer x\r\n\r\n", 400},
      {"bare LF as the last line", both + "Transfer-Encoding: chunked\r\n\r\n0\r\n\n", 400},
      {"chunk size of 2^64 - 1",
       both + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n", 413},
      // --- sizes ---
      {"request line of 9 KiB",
       "GET /" + std::string(9 << 10, 'a') + " HTTP/1.1\r\n" + host + "\r\n", 414},
      {"method of 10 KiB", std::string(10 << 10, 'A') + " / HTTP/1.1\r\n" + host + "\r\n", 501},
      {"header of 33 KiB", both + "X-A: " + std::string(33 << 10, 'a') + "\r\n\r\n", 431},
      {"announced body above the limit", both + "Content-Length: 8388609\r\n\r\n", 413},
  };
  std::string many = both;
  for (int i = 0; i < 100; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  cases.push_back({"101 fields", many + "\r\n", 431});
  return cases;
}

}  // namespace tutti::protocol
