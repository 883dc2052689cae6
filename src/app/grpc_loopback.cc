#include "app/grpc_loopback.h"

#include <utility>
#include <vector>

#include "app/store.h"
#include "app/version.h"

namespace tutti::app {
namespace {

rpc::GrpcOptions FreePort() {
  rpc::GrpcOptions options;
  options.port = 0;
  return options;
}

}  // namespace

GrpcLoopback::GrpcLoopback(LocalInference& inference, std::unique_ptr<store::Store> store,
                           std::unique_ptr<auth::Accounts> accounts,
                           std::unique_ptr<auth::Authenticator> authority)
    : store_(std::move(store)),
      accounts_(std::move(accounts)),
      authority_(std::move(authority)),
      repository_(
          {.server_version = kVersion},
          {.inference = &inference.gateway(), .health = &inference, .clock = &inference.clock()}),
      server_(FreePort(), {.inference = &inference.gateway(),
                           .authority = authority_.get(),
                           .health = &inference,
                           .repository = &repository_,
                           .clock = &inference.clock()}) {}

Result<std::unique_ptr<GrpcLoopback>> GrpcLoopback::Start(LocalInference& inference) {
  const std::vector<store::Migration> tables = StoreTables();
  ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::Store::Open({}, tables));
  ASSIGN_OR_RETURN(std::unique_ptr<auth::Accounts> accounts, auth::Accounts::Open(store.get()));
  ASSIGN_OR_RETURN(std::unique_ptr<auth::Authenticator> authority,
                   auth::Authenticator::Create(accounts.get(), {}));
  std::unique_ptr<GrpcLoopback> loopback(
      new GrpcLoopback(inference, std::move(store), std::move(accounts), std::move(authority)));
  RETURN_IF_ERROR(loopback->server_.Start());
  return loopback;
}

}  // namespace tutti::app
