// clang-format off: first, as a library below it defines macros that base/mutex.h defines too
#include <grpc/support/log.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS
// clang-format on

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/url.h"
#include "client/grpc/grpc_channel.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

struct Target {
  std::string address;  // HOST:PORT
  uint16_t port = 0;
};

Result<Target> ParseTarget(std::string_view url) {
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  if (parts.scheme == "grpcs") {
    return InvalidArgument("invalid_value", "--url: TLS is not offered; use a local proxy");
  }
  if (parts.scheme.has_value() && parts.scheme != "grpc") {
    return InvalidArgument("invalid_value", "--url must begin with grpc://");
  }
  for (const char c : url) {
    if (static_cast<unsigned char>(c) <= ' ')
      return InvalidArgument("invalid_value", "--url holds a blank or a control character");
  }
  const bool only_slashes = parts.path.find_first_not_of('/') == std::string_view::npos;
  if (fault != UrlFault::kNone || parts.port == 0 || parts.user.has_value() || !only_slashes ||
      !parts.rest.empty())
    return InvalidArgument("invalid_value", "--url needs a host and a port from 1 to 65535");
  return Target{.address = std::string(parts.authority), .port = static_cast<uint16_t>(parts.port)};
}

// Whether a descriptor of this process is a TCP connection to a port of that number.
bool ConnectedTo(uint16_t port, int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (peer.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(&peer)->sin_port) == port;
  return peer.ss_family == AF_INET6 &&
         ntohs(reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_port) == port;
}

std::chrono::system_clock::time_point In(milliseconds patience) {
  return std::chrono::system_clock::now() + patience;
}

std::string Joined(const grpc::ByteBuffer& buffer) {
  std::string all;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return all;
  all.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return all;
}

Status StatusOf(const grpc::Status& status, const grpc::ClientContext& call) {
  const auto& trailers = call.GetServerTrailingMetadata();
  const auto reason = trailers.find("tutti-error-code");
  return Status(
      static_cast<StatusCode>(status.error_code()),
      reason == trailers.end()
          ? "unavailable"
          : std::string_view(reason->second.data(), std::min<size_t>(reason->second.size(), 64)),
      status.error_message().substr(0, 300));
}

class Channel final : public GrpcChannel {
 public:
  Channel(Target target, const std::string& api_key, milliseconds patience)
      : target_(std::move(target)),
        authorization_(api_key.empty() ? "" : "Bearer " + api_key),
        patience_(patience) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ =
        grpc::CreateCustomChannel(target_.address, grpc::InsecureChannelCredentials(), arguments);
  }

  Status Connect() {
    if (channel_->WaitForConnected(In(std::min(patience_, milliseconds(10'000)))))
      return OkStatus();
    return Unavailable("unavailable", "no gRPC server answers at " + target_.address);
  }

  Result<std::string> Call(const std::string& method, std::string_view request) override {
    grpc::ClientContext call;
    call.set_deadline(In(patience_));
    if (!authorization_.empty()) call.AddMetadata("authorization", authorization_);
    const grpc::Slice slice(request.data(), request.size());
    const grpc::ByteBuffer message(&slice, 1);
    grpc::ByteBuffer answer;
    const grpc::internal::RpcMethod rpc(method.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            channel_.get(), rpc, &call, message, &answer);
    if (!status.ok()) return StatusOf(status, call);
    return Joined(answer);
  }

  int connections() const override {
    int count = 0;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
      const std::string name = entry.path().filename();
      if (ConnectedTo(target_.port, ParseNumber<int>(name).value_or(-1))) ++count;
    }
    return count;
  }
  const std::string& target() const override { return target_.address; }

 private:
  const Target target_;
  const std::string authorization_;
  const milliseconds patience_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace

Result<std::unique_ptr<GrpcChannel>> GrpcChannel::Open(std::string_view url,
                                                       const std::string& api_key,
                                                       milliseconds patience) {
  ASSIGN_OR_RETURN(Target target, ParseTarget(url));
  gpr_set_log_function([](gpr_log_func_args*) {});
  auto channel = std::make_unique<Channel>(std::move(target), api_key, patience);
  RETURN_IF_ERROR(channel->Connect());
  return std::unique_ptr<GrpcChannel>(std::move(channel));
}

}  // namespace tutti::client
