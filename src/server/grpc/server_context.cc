#include "server/grpc/server_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "server/grpc/acceptor.h"

namespace tutti::rpc {
namespace {

uint64_t DrawKey() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

GrpcContext::GrpcContext(GrpcOptions server_options, const GrpcServer::Dependencies& dependencies)
    : options(std::move(server_options)),
      deps(dependencies),
      loopback(IsLoopback(options.host).ok() && *IsLoopback(options.host)),
      pump(*dependencies.clock,
           std::min<Duration>(std::chrono::seconds(5), options.limits.reader_stall / 2)),
      handlers(options.handlers, options.limits.waiting_calls, options.limits.waiting_bytes,
               [this](std::function<void()> run) { pump.Post(std::move(run)); }),
      window(*dependencies.clock),
      id_key_(DrawKey()) {
  CHECK(deps.authority != nullptr) << "a server that asks nobody who may call";
}

std::string GrpcContext::NewRequestId() {
  const uint64_t n = next_id_.fetch_add(1, std::memory_order_relaxed);
  const auto block =
      Philox4x32({static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), 0, 0},
                 {static_cast<uint32_t>(id_key_), static_cast<uint32_t>(id_key_ >> 32)});
  return fmt::format("grpc-{:08x}{:08x}{:08x}", block[0], block[1], block[2]);
}

}  // namespace tutti::rpc
