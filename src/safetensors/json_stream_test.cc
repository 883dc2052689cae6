// The stream of events: strict, equal at any cut of the input, on a small stack.
#include "safetensors/json_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <string_view>
#include <vector>

#include "safetensors/file.h"

namespace tutti::safetensors {
namespace {

using ::testing::HasSubstr;

// Writes every event down.
class Trace final : public JsonEvents {
 public:
  std::string text;

 private:
  Status Add(std::string_view event) {
    text += event;
    text += ' ';
    return OkStatus();
  }
  Status OnObjectBegin() override { return Add("{"); }
  Status OnObjectEnd() override { return Add("}"); }
  Status OnArrayBegin() override { return Add("["); }
  Status OnArrayEnd() override { return Add("]"); }
  Status OnKey(std::string key) override { return Add(key + ":"); }
  Status OnString(std::string string) override { return Add("'" + string + "'"); }
  Status OnUint(uint64_t number) override { return Add(std::to_string(number)); }
  Status OnOther() override { return Add("?"); }
};

struct Outcome {
  Status status;
  std::string trace;
};

Outcome Stream(std::string_view text, size_t chunk = kJsonChunk) {
  const auto source = MemorySource(std::as_bytes(std::span(text)));
  Trace trace;
  Status status = StreamJson(*source, 0, text.size(), &trace, chunk);
  return {std::move(status), std::move(trace.text)};
}

TEST(JsonStream, TellsWhatIsThereInOrder) {
  const Outcome outcome =
      Stream(R"( {"a":[1,18446744073709551615,0],"b":{"c":"x\u00e9\n"},"d":[true,null,false]} )");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.trace,
            "{ a: [ 1 18446744073709551615 0 ] b: { c: 'x\xc3\xa9\n' } d: [ ? ? ? ] } ");
}

TEST(JsonStream, OnlyDigitsAreWholeNumbers) {
  for (const char* number : {"-1", "-0", "1.0", "1e3", "1E0", "0.0", "18446744073709551616",
                             "-9223372036854775809", "1e400", "123456789012345678901234567890"}) {
    for (const size_t chunk : {size_t{1}, size_t{2}, size_t{3}, kJsonChunk}) {
      EXPECT_EQ(Stream("[" + std::string(number) + ",5]", chunk).trace, "[ ? 5 ] ") << number;
    }
  }
}

TEST(JsonStream, AnyCutOfTheInputGivesTheSame) {
  const std::string text =
      "{\"na\\u0000me\\ud83d\\ude00\":{\"\xc3\xa9\xe4\xb8\x96\xf0\x9f\x99\x82\":[0,12,345,-6,7.5e-"
      "1,"
      "\"\\\"\\\\\\/\\b\"]},\n\t\"t\":true , \"n\":null,\"f\":false,\"\":[[],{}]}  \n";
  const Outcome whole = Stream(text);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (size_t chunk = 1; chunk < text.size(); ++chunk) {
    const Outcome pieces = Stream(text, chunk);
    EXPECT_TRUE(pieces.status.ok()) << chunk << pieces.status;
    EXPECT_EQ(pieces.trace, whole.trace) << chunk;
  }
  for (size_t size = 0; size + 3 < text.size(); ++size) {  // without the last brace
    for (const size_t chunk : {size_t{1}, size_t{5}, kJsonChunk}) {
      EXPECT_EQ(Stream(std::string_view(text).substr(0, size), chunk).status.reason(), "st_json")
          << size;
    }
  }
}

TEST(JsonStream, WhatIsNoJsonIsRefusedAtAnyCut) {
  for (const std::string& text : {std::string(""),
                                  std::string(" "),
                                  std::string("x"),
                                  std::string("{\"a\":1,}"),
                                  std::string("{'a':1}"),
                                  std::string("[01]"),
                                  std::string("[+1]"),
                                  std::string("[.5]"),
                                  std::string("[1 2]"),
                                  std::string("{} x"),
                                  std::string("{}{}"),
                                  std::string("{}\0", 3),
                                  std::string("[NaN]"),
                                  std::string("[Infinity]"),
                                  std::string("/**/{}"),
                                  std::string("\xef\xbb\xbf{}"),
                                  std::string("[\"\t\"]"),
                                  std::string("[\"\x80\"]"),
                                  std::string("[\"\xc0\x80\"]"),
                                  std::string("[\"\xed\xa0\x80\"]"),
                                  std::string("[\"\xf5\x80\x80\x80\"]"),
                                  std::string("[\"\xc3\"]"),
                                  std::string("[\"\xe4\xb8\"]"),
                                  std::string("[\"\\ud800\"]"),
                                  std::string("[\"\\udc00\"]"),
                                  std::string("[\"\\ud800\\u0041\"]"),
                                  std::string("[\"\\x41\"]"),
                                  std::string("{\"a\"}"),
                                  std::string("{1:2}"),
                                  std::string("nul"),
                                  std::string("]")}) {
    for (const size_t chunk : {size_t{1}, size_t{2}, size_t{3}, kJsonChunk}) {
      EXPECT_EQ(Stream(text, chunk).status.reason(), "st_json") << text << " by " << chunk;
    }
  }
  EXPECT_THAT(Stream("{\"a\":}").status.message(), HasSubstr("at byte 5"));
  EXPECT_THAT(Stream("{} x").status.message(), HasSubstr("something follows"));
}

TEST(JsonStream, NestingHasALimit) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(Stream(nested(kMaxJsonDepth)).status.ok());
  EXPECT_EQ(Stream(nested(kMaxJsonDepth + 1)).status.reason(), "st_json");
  EXPECT_THAT(Stream(nested(kMaxJsonDepth + 1)).status.message(), HasSubstr("deeper than 32"));
}

void* StreamHostile(void*) {
  for (const std::string_view unit : {"[", "{\"a\":", "[{\"\":"}) {
    for (const size_t chunk : {size_t{1}, size_t{1000}, kJsonChunk}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      if (Stream(text, chunk).status.reason() != "st_json") return nullptr;
    }
  }
  // As deep as is legal, with each level suspended at every byte.
  std::string deep;
  for (size_t i = 0; i < kMaxJsonDepth; ++i) deep += "[ ";
  for (size_t i = 0; i < kMaxJsonDepth; ++i) deep += "] ";
  if (!Stream(deep, 1).status.ok()) return nullptr;
  static int done;
  return &done;
}

TEST(JsonStream, DeepNestingFitsA256KiBStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, StreamHostile, nullptr), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_NE(result, nullptr);
}

// A receiver that has seen enough.
class Refuser final : public JsonEvents {
 public:
  Status OnObjectBegin() override { return OkStatus(); }
  Status OnObjectEnd() override { return OkStatus(); }
  Status OnArrayBegin() override { return OkStatus(); }
  Status OnArrayEnd() override { return OkStatus(); }
  Status OnKey(std::string) override { return OkStatus(); }
  Status OnString(std::string text) override { return InvalidArgument("st_metadata", text); }
  Status OnUint(uint64_t) override { return OkStatus(); }
  Status OnOther() override { return OkStatus(); }
};

TEST(JsonStream, TheFirstFaultIsTheAnswer) {
  const std::string_view text = R"(["no", "never", )";
  const auto source = MemorySource(std::as_bytes(std::span(text)));
  Refuser refuser;
  EXPECT_EQ(StreamJson(*source, 0, text.size(), &refuser).message(), "no");
  Trace trace;
  EXPECT_EQ(StreamJson(*source, 0, text.size() + 1, &trace).reason(), "st_offsets")
      << "the file is shorter than what is asked of it";
}

}  // namespace
}  // namespace tutti::safetensors
