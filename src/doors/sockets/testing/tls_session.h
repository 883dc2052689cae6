// TlsSession: the client's end of TLS over a connected socket, for tests. Blocking; it trusts
// everybody. The socket is its maker's, and outlives it.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <string_view>

namespace tutti::sockets::testing {

class TlsSession {
 public:
  // `max_version`: TLS1_1_VERSION and so on; 0 = the newest.
  explicit TlsSession(int fd, int max_version = 0) : context_(SSL_CTX_new(TLS_client_method())) {
    if (max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsSession() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  bool connected() const { return connected_; }
  bool Send(std::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Appends some of what has come, or waits for it; false at the end.
  bool Fill(std::string& to) {
    char chunk[16384];
    const int got = SSL_read(ssl_, chunk, sizeof chunk);
    if (got <= 0) return false;
    to.append(chunk, static_cast<size_t>(got));
    return true;
  }
  bool HasBytes() const { return SSL_pending(ssl_) > 0; }  // that Fill() need not wait for
  // The peer said goodbye before it closed.
  bool EndsCleanly() {
    char byte;
    const int got = SSL_read(ssl_, &byte, 1);
    return got == 0 && SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  SSL_CTX* const context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

}  // namespace tutti::sockets::testing
