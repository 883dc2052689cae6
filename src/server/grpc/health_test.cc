// Health checking and reflection.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/grpc/router.h"
#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using ::grpc::health::v1::HealthCheckResponse;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;
using testing::About;
using ::testing::ElementsAre;
using testing::GrpcServerTest;
using testing::kHealth;
using testing::kNotFound;

TEST_F(GrpcServerTest, HealthKnowsServicesAndModels) {
  StartServer();
  for (const char* const service :
       {"", "inference.GRPCInferenceService", "tutti.v1.Tutti", "minilm", "simple"}) {
    EXPECT_EQ(Check(service), 1) << service;
  }
  EXPECT_EQ(Check("nobody"), -kNotFound);
  inference_.is_live = false;
  EXPECT_EQ(Check("simple"), 2);
}

TEST_F(GrpcServerTest, AWatchTellsOfLoadingThenServing) {
  inference_.is_started = false;
  StartServer();
  const auto server = client_->Start(kHealth + "Watch");
  const auto model = client_->Start(kHealth + "Watch");
  const auto nobody = client_->Start(kHealth + "Watch");
  ASSERT_TRUE(server->Write(About("")));
  ASSERT_TRUE(model->Write(About("minilm")));
  ASSERT_TRUE(nobody->Write(About("nobody")));
  HealthCheckResponse response;
  for (const auto& watch : {&server, &model, &nobody}) {
    ASSERT_TRUE((*watch)->Read(&response));  // at once
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  }
  inference_.is_started = true;
  ASSERT_TRUE(server->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(model->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(nobody->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(server_->active_requests(), 0);  // a drain does not wait for them
}

TEST_F(GrpcServerTest, ReflectionDescribesEveryServiceUnderBothVersions) {
  StartServer();
  for (const std::string version : {"v1", "v1alpha"}) {
    const auto call =
        client_->Start("/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo");
    ServerReflectionRequest request;
    request.set_list_services("*");
    ASSERT_TRUE(call->Write(request));
    ServerReflectionResponse response;
    ASSERT_TRUE(call->Read(&response));
    std::vector<std::string> services;
    for (const auto& service : response.list_services_response().service()) {
      services.push_back(service.name());
    }
    EXPECT_THAT(services,
                ElementsAre("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                            "grpc.reflection.v1alpha.ServerReflection",
                            "inference.GRPCInferenceService", "tutti.v1.Tutti"));
    for (const std::string& service : services) {
      request.set_file_containing_symbol(service);
      ASSERT_TRUE(call->Write(request));
      ASSERT_TRUE(call->Read(&response));
      // The files build, and hold the service with all methods of the table.
      google::protobuf::DescriptorPool pool;
      const auto& files = response.file_descriptor_response().file_descriptor_proto();
      ASSERT_GT(files.size(), 0) << service;
      for (int i = files.size(); i-- > 0;) {
        google::protobuf::FileDescriptorProto file;
        ASSERT_TRUE(file.ParseFromString(files[i]));
        ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
      }
      const auto* described = pool.FindServiceByName(service);
      ASSERT_NE(described, nullptr) << service;
      for (const Method& method : Methods()) {
        const std::string prefix = "/" + service + "/";
        if (!method.path.starts_with(prefix)) continue;
        EXPECT_NE(described->FindMethodByName(std::string(method.path.substr(prefix.size()))),
                  nullptr)
            << method.path;
      }
      for (int i = 0; i < described->method_count(); ++i) {
        EXPECT_NE(FindMethod("/" + service + "/" + described->method(i)->name()), nullptr);
      }
    }
    request.set_file_containing_symbol("no.such.Symbol");
    ASSERT_TRUE(call->Write(request));
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.error_response().error_code(), kNotFound);
    request.set_file_by_filename("tutti/v1/tutti.proto");
    ASSERT_TRUE(call->Write(request));
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 1);
    call->WritesDone();
    EXPECT_FALSE(call->Read(&response));
    EXPECT_TRUE(call->Finish().ok());
  }
}

}  // namespace
}  // namespace tutti::rpc
