// KServe v2 over HTTP: metadata of the server and its models, and errors; inference is in
// http_kserve_infer_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <string>

#include "server/http/testing/kserve_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace json = boost::json;

class KserveTest : public KserveServerTest {};

TEST_F(KserveTest, TheServerSaysWhoItIs) {
  StartServer();
  const json::value server = GoodJson(Get("/v2"));
  EXPECT_EQ(server.at("name").as_string(), "tutti");
  EXPECT_EQ(server.at("version").as_string(), "1.2.3");
  EXPECT_THAT(json::serialize(server.at("extensions")), HasSubstr("\"binary_tensor_data\""));
}

TEST_F(KserveTest, HealthIsAStatusAndABodyOfTheOpenInferenceProtocol) {
  StartServer();
  const auto ask = [&](const std::string& path) {
    const RawResponse response = Ask(Get(path));
    return std::to_string(response.status) + " " + response.body;
  };
  EXPECT_EQ(ask("/v2/health/live"), R"(200 {"live":true})");
  EXPECT_EQ(ask("/v2/health/ready"), R"(200 {"ready":true})");
  EXPECT_EQ(ask("/v2/models/simple/ready"), R"(200 {"name":"simple","ready":true})");
  EXPECT_EQ(ask("/v2/models/simple/versions/1/ready"), R"(200 {"name":"simple","ready":true})");
  EXPECT_EQ(ask("/v2/models/simple/versions/2/ready"), R"(400 {"name":"simple","ready":false})");
  EXPECT_EQ(ask("/v2/models/none/ready"), R"(400 {"name":"none","ready":false})");
  EXPECT_EQ(Ask("HEAD /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n", true).status, 200);
  EXPECT_EQ(Ask(Post("/v2/health/live", "{}")).status, 405) << "as Triton has it";
  models_.is_live.store(false);
  EXPECT_EQ(ask("/v2/health/live"), R"(400 {"live":false})");
  EXPECT_EQ(ask("/v2/models/simple/ready"), R"(400 {"name":"simple","ready":false})");
  models_.is_started.store(false);
  EXPECT_EQ(ask("/v2/health/ready"), R"(400 {"ready":false})");
}

TEST_F(KserveTest, MetadataShowsWhatAClientMayBuildARequestFrom) {
  StartServer();
  for (const char* path : {"/v2/models/simple", "/v2/models/simple/versions/1"}) {
    EXPECT_EQ(Ask(Get(path)).body,
              R"({"name":"simple","versions":["1"],"platform":"tutti_test",)"
              R"("inputs":[{"name":"INPUT0","datatype":"INT32","shape":[-1,16]},)"
              R"({"name":"INPUT1","datatype":"INT32","shape":[-1,16]}],)"
              R"("outputs":[{"name":"OUTPUT0","datatype":"INT32","shape":[-1,16]},)"
              R"({"name":"OUTPUT1","datatype":"INT32","shape":[-1,16]}]})");
  }
  const json::value encoder = GoodJson(Get("/v2/models/minilm"));
  EXPECT_EQ(encoder.at("inputs").as_array().size(), 2u) << "aliases of inputs are not shown";
  EXPECT_EQ(encoder.at("outputs").at(0).at("shape"), json::parse("[-1,4]"));
  EXPECT_EQ(GoodJson(Get("/v2/models/org/minilm")).at("name").as_string(), "minilm")
      << "an alias with a slash, as tritonclient quotes it";
  EXPECT_EQ(GoodJson(Get("/v2/models/org%2Fminilm/versions/1")).at("name").as_string(), "minilm");
}

TEST_F(KserveTest, TheConfigurationIsThatOfTheMessageInJson) {
  StartServer();
  const json::value simple = GoodJson(Get("/v2/models/simple/config"));
  EXPECT_EQ(simple.at("name").as_string(), "simple");
  EXPECT_EQ(simple.at("max_batch_size").as_int64(), 8);
  EXPECT_EQ(simple.at("input").at(1),
            json::parse(R"({"name":"INPUT1","data_type":"TYPE_INT32","format":"FORMAT_NONE",)"
                        R"("dims":[16],"optional":false})"));
  EXPECT_EQ(simple.at("output").at(0),
            json::parse(R"({"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[16]})"));
  EXPECT_EQ(simple.at("version_policy"), json::parse(R"({"latest":{"num_versions":1}})"));
  EXPECT_FALSE(simple.at("model_transaction_policy").at("decoupled").as_bool());

  const json::value texts = GoodJson(Get("/v2/models/simple_string/versions/1/config"));
  EXPECT_EQ(texts.at("input").at(0).at("data_type").as_string(), "TYPE_STRING");
  EXPECT_TRUE(GoodJson(Get("/v2/models/chat/config"))
                  .at("model_transaction_policy")
                  .at("decoupled")
                  .as_bool());
  const json::value batching = GoodJson(Get("/v2/models/minilm/config")).at("dynamic_batching");
  EXPECT_EQ(batching.at("preferred_batch_size"), json::parse("[32]"));
  EXPECT_EQ(batching.at("max_queue_delay_microseconds").as_int64(), 2500)
      << "what the operator chose, not what is chosen unless they do";

  const json::value sequence =
      GoodJson(Get("/v2/models/simple_sequence/config")).at("sequence_batching");
  EXPECT_EQ(sequence.at("max_sequence_idle_microseconds").as_int64(), 60'000'000);
  EXPECT_EQ(sequence.at("control_input").at(0).at("control").at(0).at("kind").as_string(),
            "CONTROL_SEQUENCE_START");
  const json::value dyna =
      GoodJson(Get("/v2/models/simple_dyna_sequence/config")).at("sequence_batching");
  EXPECT_EQ(dyna.at("oldest").at("max_candidate_sequences").as_int64(), 1024);
}

TEST_F(KserveTest, StatisticsCountWhatWasInferred) {
  StartServer();
  const std::string infer = Post(
      "/v2/models/simple_identity/infer",
      R"({"inputs":[{"name":"INPUT0","shape":[3,1],"datatype":"BYTES","data":["a","b","c"]}]})");
  EXPECT_EQ(Ask(infer).status, 200);
  EXPECT_EQ(Ask(infer).status, 200);
  EXPECT_EQ(Ask(Post("/v2/models/simple_identity/infer", R"({"inputs":[]})")).status, 400);
  for (const char* path :
       {"/v2/models/simple_identity/stats", "/v2/models/simple_identity/versions/1/stats"}) {
    const json::value all = GoodJson(Get(path));
    ASSERT_EQ(all.at("model_stats").as_array().size(), 1u);
    const json::value& model = all.at("model_stats").at(0);
    EXPECT_EQ(model.at("name").as_string(), "simple_identity");
    EXPECT_EQ(model.at("version").as_string(), "1");
    EXPECT_EQ(model.at("inference_count").as_int64(), 6);
    EXPECT_EQ(model.at("execution_count").as_int64(), 2);
    EXPECT_EQ(model.at("inference_stats").at("success").at("count").as_int64(), 2);
    EXPECT_GT(model.at("inference_stats").at("success").at("ns").as_int64(), 0);
    EXPECT_EQ(model.at("inference_stats").at("fail").at("count").as_int64(), 1);
    EXPECT_EQ(model.at("inference_stats").at("cache_hit").at("count").as_int64(), 0);
    EXPECT_EQ(model.at("batch_stats").at(0).at("batch_size").as_int64(), 3);
    EXPECT_EQ(model.at("batch_stats").at(0).at("compute_infer").at("count").as_int64(), 2);
  }
  EXPECT_GT(GoodJson(Get("/v2/models/stats")).at("model_stats").as_array().size(), 8u);
}

TEST_F(KserveTest, TheIndexListsModelsAndLoadingIsRefusedAsByGrpc) {
  StartServer();
  const auto names = [&](const std::string& body) {
    std::string all;
    const json::value index = GoodJson(Post("/v2/repository/index", body));
    for (const json::value& model : index.as_array()) {
      EXPECT_EQ(model.at("state").as_string(), "READY");
      EXPECT_EQ(model.at("version").as_string(), "1");
      all += std::string(model.at("name").as_string().c_str()) + " ";
    }
    return all;
  };
  EXPECT_THAT(names(""), HasSubstr("simple "));
  EXPECT_THAT(names("{}"), HasSubstr("minilm "));
  EXPECT_THAT(names(R"({"ready":true})"), HasSubstr("chat "));
  EXPECT_THAT(ErrorOf(Post("/v2/repository/index", R"({"ready":1})")), StartsWith("400 "));
  EXPECT_THAT(ErrorOf(Post("/v2/repository/index", "[")), StartsWith("400 "));
  EXPECT_THAT(ErrorOf(Post("/v2/repository/models/simple/load", "{}")),
              StartsWith("403 failed to load the model"));
  EXPECT_THAT(ErrorOf(Post("/v2/repository/models/simple/unload", "{}")),
              StartsWith("403 failed to unload the model"));
}

TEST_F(KserveTest, RefusesSharedMemoryTraceAndLoggingButUnregistersAll) {
  StartServer();
  for (const char* path :
       {"/v2/systemsharedmemory/unregister", "/v2/cudasharedmemory/unregister"}) {
    const RawResponse response = Ask(Post(path, ""));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "");
  }
  for (const char* path : {"/v2/systemsharedmemory/status", "/v2/cudasharedmemory/region/a/status",
                           "/v2/trace/setting", "/v2/models/simple/trace/setting", "/v2/logging"}) {
    EXPECT_THAT(ErrorOf(Get(path)), StartsWith("501 ")) << path;
    EXPECT_THAT(ErrorOf(Post(path, "{}")), StartsWith("501 ")) << path;
  }
  EXPECT_THAT(ErrorOf(Post("/v2/systemsharedmemory/region/a/unregister", "")), StartsWith("501 "));
}

TEST_F(KserveTest, RefusalsAreOneTextWithTheStatusThatClientsOfTritonKnow) {
  HttpOptions options;
  options.api_key = "sk-test";
  StartServer(options);
  const std::string key = "Authorization: Bearer sk-test\r\n";
  EXPECT_EQ(ErrorOf(Get("/v2/models/x", key)), "404 Request for unknown model: 'x' is not found");
  const RawResponse refused = Ask(Get("/v2/models/simple/versions/7", key));
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.body,
            R"({"error":"Request for unknown model: 'simple' version 7 is not found"})");
  EXPECT_EQ(refused.Header("x-tutti-error-code"), "model_not_found");
  EXPECT_THAT(ErrorOf(Get("/v2/models/simple/versions/x/config", key)),
              StartsWith("400 failed to get model version from specified version string 'x'"));
  EXPECT_THAT(ErrorOf(Get("/v2/nothing", key)), StartsWith("404 there is no such route"));
  EXPECT_THAT(ErrorOf(Get("/v2/models/simple/infer", key)), StartsWith("405 "));
  EXPECT_THAT(ErrorOf(Get("/v2/models/simple")), StartsWith("401 ")) << "without the key";
  EXPECT_THAT(ErrorOf(Get("/v2/nothing")), StartsWith("401 "));
  EXPECT_THAT(ErrorOf(Get("/v2/models/simple/ready")), StartsWith("401 "));
  EXPECT_EQ(Ask(Get("/v2/health/ready")).status, 200) << "probes come without a key";
  EXPECT_THAT(Ask(Post("/v2/rerank", "{}", key)).body, HasSubstr("\"type\""))
      << "/v2/rerank is a route of another dialect";

  models_.is_started.store(false);
  EXPECT_THAT(ErrorOf(Get("/v2/models/later", key)), StartsWith("503 "));
}

TEST_F(KserveTest, BodiesMayBeWhatTritonsClientsAndExamplesSay) {
  StartServer();
  const auto ask = [&](const std::string& fields, const std::string& body = "{}") {
    return Ask("POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\n" + fields +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body)
        .status;
  };
  EXPECT_EQ(ask(""), 200);
  EXPECT_EQ(ask("Content-Type: application/json; charset=utf-8\r\n"), 200);
  EXPECT_EQ(ask("Content-Type: application/octet-stream\r\n"), 200);
  EXPECT_EQ(ask("Content-Type: application/x-www-form-urlencoded\r\n"), 200) << "curl -d";
  EXPECT_EQ(ask("Content-Type: text/html\r\n"), 415);
  EXPECT_EQ(ask("Content-Encoding: br\r\n"), 415);
  EXPECT_EQ(ask("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(ask("Content-Encoding: gzip, gzip\r\n"), 415);
  EXPECT_EQ(ask("Content-Encoding: gzip\r\n"), 400) << "what is no gzip stream";
  EXPECT_EQ(ask("Content-Encoding: identity\r\n"), 200);
}

}  // namespace
}  // namespace tutti::http
