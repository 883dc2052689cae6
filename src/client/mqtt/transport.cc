#include "client/mqtt/transport.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "client/socket.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSendPatience{30'000};
constexpr milliseconds kGreetingPatience{10'000};

Status Gone(const mqtt::Address& address, const std::string& why) {
  return Unavailable("unreachable", mqtt::UrlOf(address) + ": " + why);
}

// Whether the other side was ready before `wait` was over.
bool AwaitReady(int fd, short events, milliseconds wait) {
  const SteadyClock clock;
  const TimePoint until = clock.Now() + wait;
  while (true) {
    pollfd waiting{fd, events, 0};
    const auto left = std::chrono::ceil<milliseconds>(until - clock.Now());
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Waits for readable bytes. Unlike AwaitReady(), a signal ends the wait, because the signal may be
// the reason to stop.
bool AwaitBytes(int fd, milliseconds wait) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(wait.count())) > 0;
}

Result<Socket> Dial(const mqtt::Address& address) {
  Result<Socket> socket =
      Connect({address.host, std::to_string(address.port), "", address.tls ? "mqtts" : "mqtt"});
  if (!socket.ok()) return socket;
  const int flags = fcntl(socket->fd(), F_GETFL);
  if (flags < 0 || fcntl(socket->fd(), F_SETFL, flags | O_NONBLOCK) < 0)
    return Gone(address, std::strerror(errno));
  return socket;
}

class TcpTransport final : public MqttTransport {
 public:
  TcpTransport(mqtt::Address address, Socket socket)
      : address_(std::move(address)), socket_(std::move(socket)) {}

  Status Send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        if (!AwaitReady(socket_.fd(), POLLOUT, kSendPatience))
          return Gone(address_, "takes nothing");
      } else if (errno != EINTR) {
        return Gone(address_, std::strerror(errno));
      }
    }
    return OkStatus();
  }

  Result<std::string> Receive(milliseconds wait) override {
    if (!AwaitBytes(socket_.fd(), wait)) return std::string();
    const ssize_t got = recv(socket_.fd(), buffer_.data(), buffer_.size(), 0);
    if (got > 0) return std::string(buffer_.data(), static_cast<size_t>(got));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::string();
    return Gone(address_, got == 0 ? "the connection was closed" : std::strerror(errno));
  }

 private:
  const mqtt::Address address_;
  const Socket socket_;
  std::array<char, 64 << 10> buffer_;
};

// While it lives, a connection that is gone does not end the process: OpenSSL writes without
// MSG_NOSIGNAL, and a command keeps the default of SIGPIPE for its standard output.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

struct FreeSsl {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::string OpensslWord() {
  const unsigned long code = ERR_get_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "the connection was closed" : reason;
}

class TlsTransport final : public MqttTransport {
 public:
  TlsTransport(mqtt::Address address, Socket socket)
      : address_(std::move(address)), socket_(std::move(socket)) {}

  Status Greet(const std::string& ca_file) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr) return Internal("no TLS context");
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    const int trusted =
        ca_file.empty() ? SSL_CTX_set_default_verify_paths(context_.get())
                        : SSL_CTX_load_verify_locations(context_.get(), ca_file.c_str(), nullptr);
    if (trusted != 1) {
      return InvalidArgument("invalid_value", "cannot use the authorities in " +
                                                  (ca_file.empty() ? "the system" : ca_file) +
                                                  ": " + OpensslWord());
    }
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_.fd()) != 1)
      return Internal("no TLS connection");
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ExpectName();
    const WithoutPipeSignal scope;
    const SteadyClock clock;
    const TimePoint until = clock.Now() + kGreetingPatience;
    while (true) {
      const int done = SSL_connect(ssl_.get());
      if (done == 1) return OkStatus();
      if (clock.Now() < until && AwaitWanted(done, milliseconds(1000)) != Wanted::kFailed) continue;
      const long verdict = SSL_get_verify_result(ssl_.get());
      return Unavailable(
          "tls_failed",
          mqtt::UrlOf(address_) + ": TLS: " +
              (verdict == X509_V_OK ? OpensslWord() : X509_verify_cert_error_string(verdict)));
    }
  }

  Status Send(std::string_view bytes) override {
    const WithoutPipeSignal scope;
    while (!bytes.empty()) {
      const int sent = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (AwaitWanted(sent, kSendPatience) != Wanted::kCame) {
        return Gone(address_, "TLS: " + OpensslWord());
      }
    }
    return OkStatus();
  }

  Result<std::string> Receive(milliseconds wait) override {
    if (SSL_pending(ssl_.get()) == 0 && !AwaitBytes(socket_.fd(), wait)) return std::string();
    const WithoutPipeSignal scope;
    const int got = SSL_read(ssl_.get(), buffer_.data(), static_cast<int>(buffer_.size()));
    if (got > 0) return std::string(buffer_.data(), static_cast<size_t>(got));
    if (AwaitWanted(got, milliseconds(0)) != Wanted::kFailed) return std::string();
    return Gone(address_, "TLS: " + OpensslWord());
  }

 private:
  enum class Wanted { kCame, kNotYet, kFailed };

  // The certificate must be the host's; and the server is told which one it is (RFC 6066: names).
  void ExpectName() {
    X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl_.get());
    const std::string& host = address_.host;
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size());
    SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
  }

  Wanted AwaitWanted(int result, milliseconds wait) {
    const int error = SSL_get_error(ssl_.get(), result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return Wanted::kFailed;
    const short events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return AwaitReady(socket_.fd(), events, wait) ? Wanted::kCame : Wanted::kNotYet;
  }

  const mqtt::Address address_;
  const Socket socket_;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  std::array<char, 64 << 10> buffer_;
};

}  // namespace

Result<std::unique_ptr<MqttTransport>> OpenMqttTransport(const mqtt::Address& address,
                                                         const std::string& ca_file) {
  ASSIGN_OR_RETURN(Socket socket, Dial(address));
  if (!address.tls) {
    return std::unique_ptr<MqttTransport>(
        std::make_unique<TcpTransport>(address, std::move(socket)));
  }
  auto transport = std::make_unique<TlsTransport>(address, std::move(socket));
  RETURN_IF_ERROR(transport->Greet(ca_file));
  return std::unique_ptr<MqttTransport>(std::move(transport));
}

}  // namespace tutti::client
