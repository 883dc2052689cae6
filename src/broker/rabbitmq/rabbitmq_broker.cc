#if __has_include(<rabbitmq-c/amqp.h>)  // from Debian 13 on
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "broker/broker.h"
#include "broker/thread_broker.h"

namespace tutti::broker {
namespace {

constexpr amqp_channel_t kChannel = 1;
constexpr int kFrameBytes = 131072;  // RabbitMQ's own default
constexpr int kHeartbeatS = 5;       // a broker that is silent for two of them is gone
constexpr timeval kPatienceTime{
    std::chrono::duration_cast<std::chrono::seconds>(Broker::kPatience).count(), 0};
// The library has no option for the system's authorities.
constexpr const char* kSystemAuthorities = "/etc/ssl/certs/ca-certificates.crt";
// Packets in the shared mailbox at most; the oldest go.
constexpr int kMaxShared = 1000;

amqp_bytes_t Bytes(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};  // read only by the library
}

Status Failed(const std::string& what, int status) {
  return Unavailable("broker_lost", what + ": " + amqp_error_string2(status));
}

std::string TextOf(const amqp_bytes_t& bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// Converts the broker's reply to `what` into a status.
Status Check(const std::string& what, const amqp_rpc_reply_t& reply) {
  switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
      return OkStatus();
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
      return Failed(what, reply.library_error);
    case AMQP_RESPONSE_SERVER_EXCEPTION: {
      std::string why = "refused";
      if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        why = TextOf(static_cast<const amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
      } else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        why = TextOf(static_cast<const amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
      }
      return Unavailable("broker_lost", what + ": " + why);
    }
    case AMQP_RESPONSE_NONE:
      break;
  }
  return Unavailable("broker_lost", what + ": the connection ended");
}

amqp_table_entry_t Argument(const char* name, int64_t value) {
  amqp_table_entry_t entry{};
  entry.key = amqp_cstring_bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_I64;
  entry.value.value.i64 = value;
  return entry;
}

class RabbitMqBroker final : public ThreadBroker {
 public:
  explicit RabbitMqBroker(Access access) : access_(std::move(access)) {}
  ~RabbitMqBroker() override { Stop(); }

 private:
  Status Connect(const Mailboxes& mailboxes) override {
    connection_.reset(amqp_new_connection());
    if (connection_ == nullptr) return Unavailable("broker_lost", "no memory for a connection");
    RETURN_IF_ERROR(Open());
    amqp_connection_state_t connection = connection_.get();
    const std::string user = access_.url.user.empty() ? "guest" : access_.url.user;
    const std::string password =
        access_.url.user.empty() && access_.password.empty() ? "guest" : access_.password;
    RETURN_IF_ERROR(Check(
        "login", amqp_login(connection, access_.url.space.c_str(), 0, kFrameBytes, kHeartbeatS,
                            AMQP_SASL_METHOD_PLAIN, user.c_str(), password.c_str())));
    amqp_channel_open(connection, kChannel);
    RETURN_IF_ERROR(Check("channel", amqp_get_rpc_reply(connection)));
    RETURN_IF_ERROR(OpenMailbox(mailboxes.own, /*shared=*/false));
    if (!mailboxes.shared.empty()) return OpenMailbox(mailboxes.shared, /*shared=*/true);
    return OkStatus();
  }

  Status Open() {
    amqp_connection_state_t connection = connection_.get();
    const timeval patience = kPatienceTime;
    amqp_set_handshake_timeout(connection, &patience);
    amqp_set_rpc_timeout(connection, &patience);
    amqp_socket_t* socket = nullptr;
    if (access_.url.tls) {
      socket = amqp_ssl_socket_new(connection);
      if (socket != nullptr) {
        amqp_ssl_socket_set_verify_peer(socket, 1);
        amqp_ssl_socket_set_verify_hostname(socket, 1);
        amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
        const int trusted = amqp_ssl_socket_set_cacert(
            socket, access_.ca_file.empty() ? kSystemAuthorities : access_.ca_file.c_str());
        if (trusted != AMQP_STATUS_OK) return Failed("authorities", trusted);
      }
    } else {
      socket = amqp_tcp_socket_new(connection);
    }
    if (socket == nullptr) return Unavailable("broker_lost", "no memory for a socket");
    const int opened =
        amqp_socket_open_noblock(socket, access_.url.host.c_str(), access_.url.port, &patience);
    if (opened != AMQP_STATUS_OK) return Failed("connecting", opened);
    const MutexLock lock(mutex_);
    socket_ = amqp_get_sockfd(connection);
    // A broker whose memory or disk is short reads nothing, and beats: the library would wait with
    // it for ever.
    const auto patience_ms = static_cast<unsigned>(
        std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count());
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
    return OkStatus();
  }

  // Opens a queue in the broker's memory that ends with its reader. Nothing is acknowledged: the
  // sender repeats a lost packet.
  Status OpenMailbox(const std::string& name, bool shared) {
    const auto life =
        std::chrono::duration_cast<std::chrono::milliseconds>(shared ? kSharedLife : kPacketLife);
    std::array<amqp_table_entry_t, 2> entries = {Argument("x-message-ttl", life.count()),
                                                 Argument("x-max-length", kMaxShared)};
    const amqp_table_t arguments{shared ? 2 : 1, entries.data()};
    amqp_connection_state_t connection = connection_.get();
    amqp_queue_declare(connection, kChannel, Bytes(name), /*passive=*/0, /*durable=*/0,
                       /*exclusive=*/shared ? 0 : 1, /*auto_delete=*/1, arguments);
    RETURN_IF_ERROR(Check("mailbox", amqp_get_rpc_reply(connection)));
    amqp_basic_consume(connection, kChannel, Bytes(name), amqp_empty_bytes, /*no_local=*/0,
                       /*no_ack=*/1, /*exclusive=*/0, amqp_empty_table);
    return Check("reading a mailbox", amqp_get_rpc_reply(connection));
  }

  void Disconnect() override {
    {
      const MutexLock lock(mutex_);
      socket_ = -1;
    }
    connection_.reset();
  }
  void Interrupt() override {
    const MutexLock lock(mutex_);
    if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
  }

  Status Write(std::span<const Outgoing> packets) override {
    for (const Outgoing& each : packets) {
      const int sent =
          amqp_basic_publish(connection_.get(), kChannel, amqp_empty_bytes, Bytes(each.mailbox),
                             /*mandatory=*/0, /*immediate=*/0, nullptr, Bytes(each.packet));
      if (sent != AMQP_STATUS_OK) return Failed("sending", sent);
    }
    return OkStatus();
  }

  Status Read() override {
    constexpr timeval kNoWait{0, 0};
    while (true) {
      amqp_maybe_release_buffers(connection_.get());
      amqp_envelope_t envelope;
      const amqp_rpc_reply_t reply =
          amqp_consume_message(connection_.get(), &envelope, &kNoWait, 0);
      if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
        std::string packet = TextOf(envelope.message.body);
        amqp_destroy_envelope(&envelope);
        Deliver(std::move(packet));
        continue;
      }
      if (reply.reply_type != AMQP_RESPONSE_LIBRARY_EXCEPTION) return Check("reading", reply);
      if (reply.library_error == AMQP_STATUS_TIMEOUT) return OkStatus();
      if (reply.library_error != AMQP_STATUS_UNEXPECTED_STATE) return Check("reading", reply);
      RETURN_IF_ERROR(ReadOther());
    }
  }

  // Reads a frame that is no packet: an event of the connection or of the mailboxes.
  Status ReadOther() {
    amqp_frame_t frame;
    const timeval patience = kPatienceTime;
    const int read = amqp_simple_wait_frame_noblock(connection_.get(), &frame, &patience);
    if (read != AMQP_STATUS_OK) return Failed("reading", read);
    if (frame.frame_type != AMQP_FRAME_METHOD) return OkStatus();
    switch (frame.payload.method.id) {
      case AMQP_CONNECTION_CLOSE_METHOD:
        return Unavailable(
            "broker_lost",
            "closed by the broker: " +
                TextOf(static_cast<const amqp_connection_close_t*>(frame.payload.method.decoded)
                           ->reply_text));
      case AMQP_CHANNEL_CLOSE_METHOD:
        return Unavailable(
            "broker_lost",
            "closed by the broker: " +
                TextOf(static_cast<const amqp_channel_close_t*>(frame.payload.method.decoded)
                           ->reply_text));
      case AMQP_BASIC_CANCEL_METHOD:
        return Unavailable("broker_lost", "a mailbox was deleted");
      default:
        return OkStatus();
    }
  }

  void Descriptors(std::pair<int, int>* descriptors) const override {
    descriptors->first = amqp_get_sockfd(connection_.get());
  }

  struct Destroy {
    void operator()(amqp_connection_state_t connection) const {
      amqp_destroy_connection(connection);
    }
  };
  const Access access_;
  Mutex mutex_;
  int socket_ GUARDED_BY(mutex_) = -1;  // of the connection, to be shut by another thread
  std::unique_ptr<std::remove_pointer_t<amqp_connection_state_t>, Destroy> connection_;
};

}  // namespace

bool RabbitMqIsBuilt() { return true; }

std::unique_ptr<Broker> MakeRabbitMq(Access access) {
  return std::make_unique<RabbitMqBroker>(std::move(access));
}

}  // namespace tutti::broker
