// TlsSession: the client's end of TLS over a connected socket, for tests. Blocking; it accepts any
// certificate. The socket belongs to its creator, and outlives the session.
//
// A client that is refused because of its certificate learns it only when it reads: in TLS 1.3 the
// client's handshake ends before the server has verified the certificate.
#pragma once

#include <openssl/ssl.h>
#include <signal.h>

#include <string>
#include <string_view>

#include "base/check.h"
#include "server/access/testing/certificate.h"

namespace tutti::sockets::testing {

class TlsSession {
 public:
  // `max_version`: TLS1_1_VERSION etc.; 0 = the newest. `own`: the client's certificate, if any.
  // `resumed`: an earlier session, see session().
  explicit TlsSession(int fd, int max_version = 0,
                      const access::testing::CertificatePaths* own = nullptr,
                      SSL_SESSION* resumed = nullptr)
      : context_(SSL_CTX_new(TLS_client_method())) {
    signal(SIGPIPE, SIG_IGN);  // a refused client may still write
    if (own != nullptr) {
      CHECK_EQ(SSL_CTX_use_certificate_chain_file(context_, own->cert.c_str()), 1);
      CHECK_EQ(SSL_CTX_use_PrivateKey_file(context_, own->key.c_str(), SSL_FILETYPE_PEM), 1);
    }
    if (max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    if (resumed != nullptr) SSL_set_session(ssl_, resumed);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsSession() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // To be resumed; once something was read. A copy, the caller's: the library resumes none of its
  // own that ended without a goodbye.
  SSL_SESSION* session() const { return SSL_SESSION_dup(SSL_get_session(ssl_)); }
  bool resumes() const { return SSL_session_reused(ssl_) == 1; }
  bool connected() const { return connected_; }
  bool Send(std::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Appends received bytes, waiting for some; false at the end.
  bool Fill(std::string& to) {
    char chunk[16384];
    const int got = SSL_read(ssl_, chunk, sizeof chunk);
    if (got <= 0) return false;
    to.append(chunk, static_cast<size_t>(got));
    return true;
  }
  bool HasBytes() const { return SSL_pending(ssl_) > 0; }  // that Fill() need not wait for
  // Ends the sending side; the session can still read.
  void SayGoodbye() { SSL_shutdown(ssl_); }
  // Whether the peer sent close_notify before it closed.
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
