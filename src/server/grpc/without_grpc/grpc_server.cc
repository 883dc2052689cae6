// In place of the gRPC server in builds without gRPC.
#include "server/grpc/grpc_server.h"

namespace tutti::rpc {
namespace {

Status Missing() {
  return BadValue("grpc-port",
                  "--grpc-port must be 0: this program was built without gRPC (TUTTI_GRPC=OFF)");
}

}  // namespace

struct GrpcServer::Impl {};

Status CheckBind(const GrpcOptions&) { return Missing(); }

GrpcServer::GrpcServer(GrpcOptions, Dependencies) {}
GrpcServer::~GrpcServer() = default;
Status GrpcServer::Start() { return Missing(); }
int GrpcServer::port() const { return 0; }
std::string GrpcServer::address() const { return ""; }
Result<std::function<void()>> GrpcServer::PrepareReload(const GrpcOptions&) { return Missing(); }
bool GrpcServer::Drain(Duration) { return true; }
void GrpcServer::Stop() {}
int GrpcServer::open_connections() const { return 0; }
int GrpcServer::active_requests() const { return 0; }

}  // namespace tutti::rpc
