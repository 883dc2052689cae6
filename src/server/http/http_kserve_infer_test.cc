// KServe v2 over HTTP: requests for inference, as JSON, with binary tensors, raw and compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "protocol/http1/compression.h"
#include "server/http/testing/kserve_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace json = boost::json;

constexpr const char* kSimple = "/v2/models/simple/infer";
constexpr const char* kIdentity = "/v2/models/simple_identity/infer";
constexpr const char* kEmbed = "/v2/models/minilm/infer";

// An input of sixteen numbers, `first` and those that follow it.
std::string Sixteen(const std::string& name, int first, bool nested = false) {
  std::string list;
  for (int i = 0; i < 16; ++i) list += (i == 0 ? "" : ",") + std::to_string(first + i);
  return R"({"name":")" + name + R"(","shape":[1,16],"datatype":"INT32","data":[)" +
         (nested ? "[" + list + "]" : list) + "]}";
}

std::string Inputs(const std::string& more = "") {
  return R"({"inputs":[)" + Sixteen("INPUT0", 0) + "," + Sixteen("INPUT1", 100, true) + "]" + more +
         "}";
}

// The JSON of a request whose two inputs follow it as blobs.
std::string BlobInputs(const std::string& more = "", int first = 64, int second = 64) {
  const auto input = [](const char* name, int bytes) {
    return R"({"name":")" + std::string(name) +
           R"(","shape":[1,16],"datatype":"INT32","parameters":{"binary_data_size":)" +
           std::to_string(bytes) + "}}";
  };
  return R"({"inputs":[)" + input("INPUT0", first) + "," + input("INPUT1", second) + "]" + more +
         "}";
}

std::string Text(const std::string& text) {
  return R"({"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"BYTES","data":[")" + text +
         R"("]}]})";
}

class KserveInferTest : public KserveServerTest {
 protected:
  static std::string Blobs() {
    std::vector<int32_t> a, b;
    for (int i = 0; i < 16; ++i) {
      a.push_back(i);
      b.push_back(100 + i);
    }
    return Int32s(a) + Int32s(b);
  }
  static std::vector<int32_t> Expected(bool sum) {
    std::vector<int32_t> all;
    for (int i = 0; i < 16; ++i) all.push_back(sum ? 100 + 2 * i : -100);
    return all;
  }
};

TEST_F(KserveInferTest, JsonIsAnsweredWithJsonAndFlatAndNestedDataMeanTheSame) {
  StartServer();
  for (const char* path : {kSimple, "/v2/models/simple/versions/1/infer"}) {
    const json::value answer = GoodJson(Post(path, Inputs(R"(,"id":"mine")")));
    EXPECT_EQ(answer.at("id").as_string(), "mine");
    EXPECT_EQ(answer.at("model_name").as_string(), "simple");
    EXPECT_EQ(answer.at("model_version").as_string(), "1");
    EXPECT_EQ(answer.at("outputs").at(0).at("name").as_string(), "OUTPUT0");
    EXPECT_EQ(answer.at("outputs").at(0).at("datatype").as_string(), "INT32");
    EXPECT_EQ(answer.at("outputs").at(0).at("shape"), json::parse("[1,16]"));
    EXPECT_EQ(Numbers(answer.at("outputs").at(0).at("data")), Expected(true));
    EXPECT_EQ(Numbers(answer.at("outputs").at(1).at("data")), Expected(false));
  }
  const json::value plain = GoodJson(Post(kSimple, Inputs()));
  EXPECT_FALSE(plain.as_object().contains("id")) << "none was given";
  const json::value one = GoodJson(Post(kSimple, Inputs(R"(,"outputs":[{"name":"OUTPUT1"}])")));
  ASSERT_EQ(one.at("outputs").as_array().size(), 1u);
  EXPECT_EQ(one.at("outputs").at(0).at("name").as_string(), "OUTPUT1");
}

TEST_F(KserveInferTest, BinaryTensorsGoBothWaysAndHoldWhatJsonHolds) {
  StartServer();
  const RawResponse response =
      Ask(PostBinary(kSimple, BlobInputs(R"(,"parameters":{"binary_data_output":true})"), Blobs()));
  ASSERT_EQ(response.status, 200) << response.body;
  const BinaryAnswer answer = Split(response);
  ASSERT_EQ(answer.blobs.size(), 2u);
  EXPECT_EQ(answer.blobs[0], Int32s(Expected(true)));
  EXPECT_EQ(answer.blobs[1], Int32s(Expected(false)));
  EXPECT_FALSE(answer.json.at("outputs").at(0).as_object().contains("data"));

  // The parameter of one output overrides that of the request.
  const BinaryAnswer mixed = Split(Ask(PostBinary(
      kSimple,
      BlobInputs(R"(,"parameters":{"binary_data_output":true},"outputs":[{"name":"OUTPUT1"},)"
                 R"({"name":"OUTPUT0","parameters":{"binary_data":false}}])"),
      Blobs())));
  ASSERT_EQ(mixed.blobs.size(), 1u);
  EXPECT_EQ(mixed.json.at("outputs").at(0).at("name").as_string(), "OUTPUT1") << "as asked for";
  EXPECT_EQ(mixed.blobs[0], Int32s(Expected(false)));
  EXPECT_EQ(Numbers(mixed.json.at("outputs").at(1).at("data")), Expected(true));

  const json::value text = GoodJson(PostBinary(kSimple, BlobInputs(), Blobs()));
  EXPECT_EQ(Numbers(text.at("outputs").at(0).at("data")), Expected(true)) << "JSON by default";
  const BinaryAnswer asked = Split(Ask(Post(
      kSimple, Inputs(R"(,"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}])"))));
  EXPECT_EQ(asked.blobs.at(0), Int32s(Expected(true)));
}

TEST_F(KserveInferTest, BytesAreAnyBytesInBinaryAndTextInJson) {
  StartServer();
  const std::string odd("\xff\0\n", 3);
  const std::string blob = Texts({odd, "", "text"});
  const auto request = [&](const char* more) {
    return PostBinary(
        kIdentity,
        R"({"inputs":[{"name":"INPUT0","shape":[1,3],"datatype":"BYTES","parameters":)"
        R"({"binary_data_size":)" +
            std::to_string(blob.size()) + "}}]" + more + "}",
        blob);
  };
  EXPECT_EQ(Split(Ask(request(R"(,"parameters":{"binary_data_output":true})"))).blobs.at(0), blob);
  EXPECT_THAT(ErrorOf(request("")), HasSubstr("no UTF-8 text; ask for it as binary data"));
  const json::value texts = GoodJson(
      Post(kIdentity, R"({"inputs":[{"name":"INPUT0","shape":[2,2],"datatype":"BYTES","data":)"
                      R"([["a","\u00fc\u0000"],["","\ud83d\ude00"]]}]})"));
  EXPECT_EQ(texts.at("outputs").at(0).at("data"),
            json::parse(R"(["a","\u00fc\u0000","","\ud83d\ude00"])"));
}

TEST_F(KserveInferTest, ARawRequestIsTheOnlyInputAndAnsweredInBinary) {
  StartServer();
  const auto raw = [&](const std::string& path, const std::string& body) {
    return PostBinary(path, "", body);  // a header length of 0
  };
  const BinaryAnswer answer = Split(Ask(raw(kIdentity, "any \xff bytes")));
  EXPECT_EQ(answer.json.at("outputs").at(0).at("shape"), json::parse("[1,1]"));
  EXPECT_EQ(answer.blobs.at(0), Texts({"any \xff bytes"}));
  EXPECT_THAT(ErrorOf(raw(kSimple, Blobs())),
              HasSubstr("a raw request is for models with 1 input"));
  EXPECT_THAT(ErrorOf(raw("/v2/models/simple_sequence/infer", "123")),
              HasSubstr("input byte size mismatch"));
  EXPECT_THAT(ErrorOf(raw("/v2/models/simple_sequence/infer", "1234")), HasSubstr("correlation ID"))
      << "it has reached the model";
}

TEST_F(KserveInferTest, CompressionGoesBothWaysOnTheseRoutesAlone) {
  StartServer();
  for (const auto& [coding, name] :
       {std::pair{protocol::Coding::kGzip, std::string("gzip")},
        std::pair{protocol::Coding::kDeflate, std::string("deflate")}}) {
    const std::string fields =
        "Content-Encoding: " + name + "\r\nAccept-Encoding: br, " + name + ";q=0.5\r\n";
    const std::string asked = BlobInputs(R"(,"parameters":{"binary_data_output":true})");
    const std::string body = *protocol::Deflate(coding, asked + Blobs());
    const RawResponse response =
        Ask("POST " + std::string(kSimple) +
            " HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: " +
            std::to_string(asked.size()) + "\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n" + fields + "\r\n" + body);
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.Header("content-encoding"), name);
    const Result<std::string> plain = protocol::Inflate(coding, response.body, 1 << 20);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(Split(response, *plain).blobs.at(0), Int32s(Expected(true)));

    const RawResponse text = Ask(
        Post(kSimple, *protocol::Deflate(coding, Inputs()), "Content-Encoding: " + name + "\r\n"));
    EXPECT_EQ(Numbers(Json(text).at("outputs").at(0).at("data")), Expected(true));
    EXPECT_EQ(text.Header("content-encoding"), "") << "not asked for";
    EXPECT_EQ(Ask(Post("/v1/embeddings", "{}", "Content-Encoding: " + name + "\r\n")).status, 415);
  }
  EXPECT_EQ(Ask(Post(kSimple, Inputs(), "Accept-Encoding: gzip;q=0, deflate\r\n"))
                .Header("content-encoding"),
            "deflate");
  EXPECT_EQ(Ask(Post(kSimple, Inputs(), "Accept-Encoding: identity, *;q=0.1\r\n"))
                .Header("content-encoding"),
            "");
}

TEST_F(KserveInferTest, WhatInflatesTooFarIsRefusedBeforeItIsHeld) {
  HttpOptions options;
  options.limits.framing.body_bytes = 1 << 20;
  StartServer(options);
  const auto ask = [&](const std::string& plain) {
    return ErrorOf(Post(kIdentity, *protocol::Deflate(protocol::Coding::kGzip, plain),
                        "Content-Encoding: gzip\r\n"));
  };
  EXPECT_THAT(ask(Text(std::string(500'000, 'a'))), StartsWith("413 the message has more than"))
      << "500 KB of a few hundred bytes";
  EXPECT_THAT(ask(std::string(8 << 20, ' ')), StartsWith("413 "));
  const std::string cut = protocol::Deflate(protocol::Coding::kGzip, Text("cut"))->substr(0, 30);
  EXPECT_THAT(ErrorOf(Post(kIdentity, cut, "Content-Encoding: gzip\r\n")),
              StartsWith("400 the compressed message is malformed"));
  // Text that does not compress by much may be as long as any body.
  std::string long_text;
  uint32_t state = 1;
  while (long_text.size() < 900'000) {
    state = state * 1664525 + 1013904223;
    long_text += static_cast<char>('a' + (state >> 24) % 26);
  }
  const RawResponse good =
      Ask(Post(kIdentity, *protocol::Deflate(protocol::Coding::kGzip, Text(long_text)),
               "Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n"));
  ASSERT_EQ(good.status, 200) << good.body;
  EXPECT_THAT(*protocol::Inflate(protocol::Coding::kGzip, good.body, 2 << 20),
              HasSubstr(long_text));
  long_text += std::string(200'000, 'x');
  EXPECT_THAT(ask(Text(long_text)), StartsWith("413 ")) << "beyond the limit of a body";
}

TEST_F(KserveInferTest, WhatIsNoRequestIsRefusedAndSaysWhy) {
  StartServer();
  const auto input = [](const std::string& members) {
    return Post(kSimple, R"({"inputs":[)" + Sixteen("INPUT0", 0) + R"(,{"name":"INPUT1",)" +
                             members + "}]}");
  };
  const auto data = [&](const std::string& list) {
    return input(R"("shape":[1,16],"datatype":"INT32","data":)" + list);
  };
  const std::string fifteen = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,";
  const struct {
    std::string request;
    const char* text;
  } kCases[] = {
      {Post(kSimple, ""), "400 the body ends inside a JSON value"},
      {Post(kSimple, "{"), "400 the body ends inside a JSON value"},
      {Post(kSimple, "nonsense"), "400 the body is not JSON"},
      {Post(kSimple, "[]"), "400 the body must be a JSON object"},
      {Post(kSimple, "\xff{}"), "400 the body is not UTF-8"},
      {Post(kSimple, std::string(100, '[')), "400 the body nests deeper than 64 levels"},
      {Post(kSimple, "{}"), "400 the request needs 'inputs'"},
      {Post(kSimple, R"({"inputs":{}})"), "400 'inputs' must be a list"},
      {Post(kSimple, R"({"inputs":[1]})"), "400 each of 'inputs' must be an object"},
      {Post(kSimple, R"({"inputs":[{}]})"), "400 the request needs 'name' of an input"},
      {Post(kSimple, Inputs(R"(,"id":7)")), "400 'id' must be a string"},
      {Post(kSimple, Inputs(R"(,"id":")" + std::string(1025, 'x') + "\"")),
       "400 the id of a request has at most 1024 bytes"},
      {Post(kSimple, Inputs(R"(,"parameters":[])")), "400 'parameters' must be an object"},
      {Post(kSimple, Inputs(R"(,"parameters":{"a":[]})")), "400 invalid value type for 'a'"},
      {Post(kSimple, Inputs(R"(,"parameters":{"binary_data_output":1})")),
       "400 'binary_data_output' must be a bool"},
      {Post(kSimple, Inputs(R"(,"parameters":{"timeout":-1})")),
       "400 invalid value for 'timeout', expected value >= 0."},
      {Post(kSimple, Inputs(R"(,"outputs":[{"name":"X"}])")),
       "400 unexpected inference output 'X' for model 'simple'"},
      {Post(kSimple,
            Inputs(R"(,"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":"yes"}}])")),
       "400 'binary_data' of output 'OUTPUT0' must be a bool"},
      {Post(kSimple,
            Inputs(R"(,"outputs":[{"name":"OUTPUT0","parameters":{"classification":2}}])")),
       "400 classification is not offered"},
      {input(R"("shape":[1,16],"datatype":"INT32","parameters":{"shared_memory_region":"r"})"),
       "400 shared_memory_region is not offered"},
      {input(R"("shape":[1,16],"datatype":"INT33","data":[])"),
       "400 'datatype' of input 'INPUT1' is unknown: 'INT33'"},
      {input(R"("shape":[1,16],"datatype":"INT32")"),
       "400 unable to find 'data' of input 'INPUT1' in request."},
      {input(R"("shape":"x","datatype":"INT32","data":[])"), "400 'shape' of input 'INPUT1'"},
      {input(R"("shape":[-1,16],"datatype":"INT32","data":[])"), "400 'shape' of input 'INPUT1'"},
      {input(R"("shape":[1.5],"datatype":"INT32","data":[])"), "400 'shape' of input 'INPUT1'"},
      {input(R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,16],"datatype":"INT32","data":[])"),
       "400 'shape' of input 'INPUT1'"},
      {input(R"("shape":[1,9223372036854775807],"datatype":"INT32","data":[])"),
       "400 unexpected shape for input 'INPUT1' for model 'simple'. Expected [-1,16]"},
      {input(R"("shape":[1,8],"datatype":"INT32","data":[1,2,3,4,5,6,7,8])"),
       "400 unexpected shape for input 'INPUT1' for model 'simple'"},
      {input(R"("shape":[9,16],"datatype":"INT32","data":[])"),
       "400 input 'INPUT1' batch size does not match"},
      {input(R"("shape":[1,16],"datatype":"FP32","data":[)" + fifteen + "1.5]"),
       "400 inference input 'INPUT1' data-type is 'FP32', but model 'simple' expects 'INT32'"},
      {input(R"("shape":[1,16],"datatype":"FP16","data":[1])"),
       "400 sending FP16 as JSON is not supported"},
      {data("[1,2,3]"), "400 input byte size mismatch for input 'INPUT1'"},
      {data("7"), "400 'data' of input 'INPUT1' must be a list"},
      {data("[" + fifteen + "2147483648]"),
       "400 'data' of input 'INPUT1' holds a value that is no"},
      {data("[" + fifteen + "-2147483649]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "1e300]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "1.5]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "\"7\"]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "true]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "null]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[" + fifteen + "[1]]"), "400 'data' of input 'INPUT1' holds a value"},
      {data("[[" + fifteen + "16],[1]]"), "400 'data' of input 'INPUT1' is nested otherwise"},
      {data("[[1,2]]"), "400 'data' of input 'INPUT1' is nested otherwise"},
      {data("[[[1,2]]]"), "400 'data' of input 'INPUT1' is nested otherwise"},
      {data("[" + fifteen + "99999999999999999999999999]"), "400 'data' of input 'INPUT1' holds"},
      {data("[1e999]"), "400 a number is too large for a double"},
      {Post(kSimple, R"({"inputs":[)" + Sixteen("INPUT0", 0) + "," + Sixteen("INPUT0", 0) + "]}"),
       "400 input 'INPUT0' already exists in request"},
      {Post(kSimple, R"({"inputs":[)" + Sixteen("INPUT0", 0) + "," + Sixteen("X", 0) + "]}"),
       "400 unexpected inference input 'X' for model 'simple'"},
      {Post(kSimple, R"({"inputs":[)" + Sixteen("INPUT0", 0) + "]}"),
       "400 expected 2 inputs but got 1 inputs for model 'simple'"},
      {Post("/v2/models/x/infer", Inputs()), "404 Request for unknown model: 'x' is not found"},
      {Post("/v2/models/x/infer", "{"), "404 Request for unknown model: 'x' is not found"},
      {Post("/v2/models/simple/versions/3/infer", Inputs()),
       "404 Request for unknown model: 'simple' version 3 is not found"},
  };
  for (const auto& each : kCases)
    EXPECT_THAT(ErrorOf(each.request), StartsWith(each.text)) << each.request;
}

TEST_F(KserveInferTest, SizesThatLieAreRefused) {
  StartServer();
  const std::string good = BlobInputs();
  const auto with_length = [&](const std::string& length) {
    const std::string body = good + Blobs();
    return "POST " + std::string(kSimple) +
           " HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: " + length +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  EXPECT_EQ(Ask(with_length(std::to_string(good.size()))).status, 200);
  for (const char* length : {"-1", "abc", "", "1.5", "0x10", "7 7", "+7"}) {
    EXPECT_THAT(ErrorOf(with_length(length)),
                StartsWith("400 Inference-Header-Content-Length must be a whole number"))
        << length;
  }
  for (const char* length : {"9999", "18446744073709551615", "99999999999999999999999999"}) {
    EXPECT_THAT(ErrorOf(with_length(length)),
                StartsWith("400 Inference-Header-Content-Length is larger than the body"))
        << length;
  }
  EXPECT_THAT(ErrorOf(with_length("7\r\nInference-Header-Content-Length: 7")),
              StartsWith("400 more than one Inference-Header-Content-Length"));
  EXPECT_THAT(ErrorOf(with_length("7")), StartsWith("400 the body ends inside a JSON value"));
  EXPECT_THAT(ErrorOf(with_length(std::to_string(good.size() + 1))), StartsWith("400 "))
      << "the first byte of a number behind the JSON";

  const auto blobs = [&](int first, int second, const std::string& bytes) {
    return ErrorOf(PostBinary(kSimple, BlobInputs("", first, second), bytes));
  };
  EXPECT_THAT(blobs(64, 64, Blobs() + "x"),
              StartsWith("400 unexpected additional input data: 1 bytes"));
  EXPECT_THAT(blobs(64, 64, Blobs().substr(1)),
              StartsWith("400 unexpected end of the binary data of input 'INPUT1': it has 64"));
  EXPECT_THAT(blobs(2147483647, 64, Blobs()), StartsWith("400 unexpected end of the binary data"));
  EXPECT_THAT(blobs(-1, 64, Blobs()), HasSubstr("must be a whole number from 0"));
  EXPECT_THAT(blobs(60, 68, Blobs()),
              StartsWith("400 input byte size mismatch for input 'INPUT0'"));
  EXPECT_THAT(blobs(0, 128, Blobs()), StartsWith("400 input byte size mismatch"));
  for (const char* size : {"\"64\"", "64.5", "true", "[]", "1e3"}) {
    std::string asked = good;
    asked.replace(asked.find(":64}"), 3, std::string(":") + size);
    EXPECT_THAT(ErrorOf(PostBinary(kSimple, asked, Blobs())),
                HasSubstr("must be a whole number from 0"))
        << size;
  }
  EXPECT_THAT(ErrorOf(Post(kSimple, good)), HasSubstr("check Inference-Header-Content-Length"))
      << "binary tensors that are not there";
  std::string both = Inputs();
  both.insert(both.find("\"data\""), R"("parameters":{"binary_data_size":64},)");
  EXPECT_THAT(ErrorOf(PostBinary(kSimple, both, Blobs())),
              StartsWith("400 input 'INPUT0' has both 'data' and binary data"));
  // A false length of a text.
  std::string text = Texts({"abc"});
  text[0] = 100;
  EXPECT_THAT(ErrorOf(PostBinary(kIdentity,
                                 R"({"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"BYTES",)"
                                 R"("parameters":{"binary_data_size":7}}]})",
                                 text)),
              StartsWith("400 incomplete string data for inference input 'INPUT0'"));
}

TEST_F(KserveInferTest, ValuesInJsonAreBoundedAndBinaryDataIsNot) {
  StartServer();
  std::string zeros = "0";
  for (int i = 0; i < 600'000; ++i) zeros += ",0";
  const std::string text = ErrorOf(
      Post(kSimple, R"({"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":[)" +
                        zeros + "]}]}"));
  EXPECT_THAT(text, StartsWith("400 the body holds more than 524288 values"));
  const std::string blob = Texts({std::string(4'000'000, 'x')});
  const BinaryAnswer answer = Split(
      Ask(PostBinary(kIdentity,
                     R"({"parameters":{"binary_data_output":true},"inputs":[{"name":"INPUT0",)"
                     R"("shape":[1,1],"datatype":"BYTES","parameters":{"binary_data_size":)" +
                         std::to_string(blob.size()) + "}}]}",
                     blob)));
  EXPECT_TRUE(answer.blobs.at(0) == blob);
}

TEST_F(KserveInferTest, AnAnswerThatIsLargerThanAllThatMayBeHeldIsRefused) {
  HttpOptions options;
  options.limits.held_bytes = 300'000;
  StartServer(options);
  const auto ask = [&](size_t bytes) {
    const std::string blob = Texts({std::string(bytes, 'x')});
    return PostBinary(kIdentity,
                      R"({"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"BYTES",)"
                      R"("parameters":{"binary_data_size":)" +
                          std::to_string(blob.size()) + "}}]}",
                      blob);
  };
  // A client may have an answer before the server has counted it as sent: until then there is no
  // room.
  const auto settled = [&](size_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int status = 503;
    while (status == 503 && std::chrono::steady_clock::now() < end) status = Ask(ask(bytes)).status;
    return status;
  };
  EXPECT_EQ(ErrorOf(ask(200'000)).substr(0, 27), "413 the answer would take a");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(settled(100'000), 200) << "what was counted is given back";
    EXPECT_EQ(settled(200'000), 413);
  }
  EXPECT_THAT(ErrorOf(Post(kIdentity, std::string(100'000, 'x'), "Content-Encoding: gzip\r\n")),
              StartsWith("503 too many large requests"))
      << "its inflated form might be too much";
}

TEST_F(KserveInferTest, SequencesAndParametersReachTheModel) {
  StartServer();
  const auto ask = [&](int value, const std::string& parameters) {
    const json::value answer =
        GoodJson(Post("/v2/models/simple_sequence/infer",
                      R"({"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[)" +
                          std::to_string(value) + R"(]}],"parameters":{)" + parameters + "}}"));
    return Numbers(answer.at("outputs").at(0).at("data")).at(0);
  };
  EXPECT_EQ(ask(5, R"("sequence_id":7,"sequence_start":true,"sequence_end":false)"), 6);
  EXPECT_EQ(ask(5, R"("sequence_id":7,"sequence_start":false,"sequence_end":true)"), 5);
  EXPECT_EQ(ask(5, R"("sequence_id":"text","sequence_start":true,"sequence_end":true)"), 6);

  const json::value answer = GoodJson(
      Post(kEmbed,
           R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["ab"]}],)"
           R"("parameters":{"normalize":false,"priority":3,"timeout":5000000,"nothing":null}})",
           "X-Request-Id: theirs\r\nX-Request-Timeout-Ms: 60000\r\n"));
  EXPECT_EQ(answer.at("outputs").at(0).at("shape"), json::parse("[1,4]"));
  EXPECT_EQ(answer.at("outputs").at(0).at("data"), json::parse("[2.0,195.0,97.0,0.5]"));
  const api::EncodeRequest& request = models_.Encoding(0)->request;
  EXPECT_EQ(request.normalize, false);
  EXPECT_EQ(request.request_id, "theirs");
  EXPECT_EQ(request.priority, api::Priority::kBatch);
  EXPECT_LT(request.deadline, clock_.Now() + std::chrono::seconds(6)) << "the shorter of both";
  EXPECT_THAT(ErrorOf(Post(kEmbed, "{}", "X-Request-Timeout-Ms: x\r\n")), StartsWith("400 "));
}

TEST_F(KserveInferTest, UnknownFieldsAreToldOfOrInStrictModeRefused) {
  StartServer();
  const std::string odd = Inputs(R"(,"odd":1,"outputs":[{"name":"OUTPUT0","more":2}])");
  const RawResponse told = Ask(Post(kSimple, odd));
  EXPECT_EQ(told.status, 200) << told.body;
  EXPECT_EQ(told.Header("x-tutti-ignored"), "more, odd");
  const RawResponse hostile = Ask(Post(kSimple, Inputs(R"(,"odd\r\nX-Evil: é":1)")));
  EXPECT_EQ(hostile.status, 200) << hostile.body;
  EXPECT_EQ(hostile.Header("x-tutti-ignored"), "odd??X-Evil????");
  EXPECT_EQ(hostile.Header("x-evil"), "");
  server_->Stop();
  HttpOptions strict;
  strict.strict = true;
  StartServer(strict);
  EXPECT_EQ(ErrorOf(Post(kSimple, odd)), "400 there is no field 'more'");
}

TEST_F(KserveInferTest, ReportsUnknownParametersOrRefusesThemInStrictMode) {
  StartServer();
  const auto with = [](const std::string& parameters) {
    return Post(kEmbed,
                R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["ab"]}],)"
                R"("odd":1,"parameters":{)" +
                    parameters + "}}");
  };
  const RawResponse told = Ask(with(R"("normalise":true,"priority":1,"dimension":3)"));
  EXPECT_EQ(told.status, 200) << told.body;
  EXPECT_EQ(told.Header("x-tutti-ignored"), "odd, normalise, dimension");
  server_->Stop();
  HttpOptions strict;
  strict.strict = true;
  StartServer(strict);
  EXPECT_EQ(ErrorOf(Post(kEmbed, R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES",)"
                                 R"("data":["ab"]}],"parameters":{"normalise":true}})")),
            "400 there is no parameter 'normalise' of encoders");
}

TEST_F(KserveInferTest, AFailureOfTheModelHasItsStatusAndAnInternalOneNoText) {
  StartServer();
  const std::string request =
      Post(kEmbed, R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]})");
  const std::vector<std::pair<Status, const char*>> kCases = {
      {InvalidArgument("context_length_exceeded", "too long"), "400 too long"},
      {Unavailable("queue_full", "Exceeds maximum queue size"), "503 Exceeds maximum queue size"},
      {Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "Request timeout expired"),
       "503 Request timeout expired"},
      {InvalidArgument("request_exceeds_capacity", "too much"), "400 too much"},
      {Internal("secret"), "500 the server failed to answer this request"}};
  for (const auto& [status, text] : kCases) {
    models_.on_encode = [&status = status](const auto& encoding) {
      encoding->Finish(status);
      return OkStatus();
    };
    EXPECT_EQ(ErrorOf(request), text);
    models_.on_encode = [&status = status](const auto&) { return status; };
    EXPECT_EQ(ErrorOf(request), text) << "at once";
  }
}

TEST_F(KserveInferTest, AClientThatLeavesCancelsWhatItAskedFor) {
  StartServer();
  models_.on_encode = [](const auto&) { return OkStatus(); };  // not answered
  {
    RawClient client(port());
    client.Send(Post(
        kEmbed, R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]})"));
    ASSERT_NE(models_.Encoding(0), nullptr);
    EXPECT_FALSE(models_.Encoding(0)->cancelled.load());
  }
  EXPECT_TRUE(Eventually([&] { return models_.Encoding(0)->cancelled.load(); }));
}

TEST_F(KserveInferTest, AnAnswerThatComesLaterIsSentWhenItIsThere) {
  StartServer();
  models_.on_encode = [](const auto&) { return OkStatus(); };
  RawClient client(port());
  client.Send(
      Post(kEmbed, R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["ab"]}]})"));
  ASSERT_NE(models_.Encoding(0), nullptr);
  models_.Encoding(0)->Answer();
  EXPECT_THAT(client.Read().body, HasSubstr("195.0"));
}

TEST_F(KserveInferTest, AModelThatAnswersSeveralTimesIsNotForInfer) {
  StartServer();
  const auto repeat = [&](const std::string& in, int count) {
    return Post("/v2/models/repeat_int32/infer",
                R"({"inputs":[{"name":"IN","shape":[)" + std::to_string(count) +
                    R"(],"datatype":"INT32","data":[)" + in + R"(]},{"name":"DELAY","shape":[)" +
                    std::to_string(count) + R"(],"datatype":"UINT32","data":[)" +
                    (count == 1 ? "5" : "5,5") +
                    R"(]},{"name":"WAIT","shape":[1],"datatype":"UINT32","data":[1]}]})");
  };
  EXPECT_EQ(Numbers(GoodJson(repeat("42", 1)).at("outputs").at(0).at("data")),
            std::vector<int32_t>{42})
      << "one response, some time later";
  EXPECT_THAT(ErrorOf(repeat("1,2", 2)), HasSubstr("use generate_stream"));
}

TEST_F(KserveInferTest, RequestsCountAsWhatTheirModelsDoAndTellWhereTheTimeWent) {
  StartServer();
  const auto to = [](const std::string& model, const std::string& input, const std::string& text) {
    return Post("/v2/models/" + model + "/infer", R"({"inputs":[{"name":")" + input +
                                                      R"(","shape":[1],"datatype":"BYTES",)" +
                                                      R"("data":[")" + text + R"("]}]})");
  };
  EXPECT_EQ(Ask(to("minilm", "text", "a")).status, 200);
  EXPECT_EQ(Ask(to("minilm", "none", "a")).status, 400);
  EXPECT_EQ(Ask(to("classes", "text", "a")).status, 200);
  EXPECT_EQ(Ask(Post(kSimple, Inputs())).status, 200);
  EXPECT_EQ(Ask(to("nobody", "text", "a")).status, 404);
  const std::string metrics = Ask(Get("/metrics")).body;
  for (const char* const counted : {R"({code="200",door="http",op="embed",server="http"} 1)",
                                    R"({code="400",door="http",op="embed",server="http"} 1)",
                                    R"({code="200",door="http",op="score",server="http"} 1)",
                                    R"({code="200",door="http",op="other",server="http"} 1)",
                                    R"({code="404",door="http",op="other",server="http"} 1)"}) {
    EXPECT_THAT(metrics, HasSubstr("tutti_requests_total" + std::string(counted)));
  }
  EXPECT_THAT(metrics, HasSubstr(R"(tutti_requests_in_flight{op="embed"} 0)"));
  EXPECT_THAT(metrics, HasSubstr(R"(tutti_requests_in_flight{op="score"} 0)"));
  for (const char* const stage : {"tokenize", "queue", "encode"}) {
    EXPECT_THAT(metrics,
                HasSubstr("tutti_stage_seconds_count{stage=\"" + std::string(stage) + "\"} 2"));
  }
}

}  // namespace
}  // namespace tutti::http
