#include "protocol/error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

Status Make(const ErrorRow& row) {
  std::string code(row.code);
  if (code.back() == '*') code.back() = 'x';
  return Status(row.canonical, code, "text");
}

TEST(ErrorTable, EveryCodeStandsOnceAndFindsItself) {
  std::set<std::string_view> codes;
  for (const ErrorRow& row : ErrorTable()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_EQ(FindError(Make(row)).code, row.code);
  }
}

TEST(ErrorTable, AgreesWithTheInterfaceOnStatusTypeAndRetry) {
  struct Row {
    const char* code;
    int http;
    const char* type;
    int websocket;
    bool retry;
  };
  for (const Row& want : std::initializer_list<Row>{
           {"invalid_json", 400, "invalid_request_error", 4400, false},
           {"context_length_exceeded", 400, "invalid_request_error", 4400, false},
           {"invalid_api_key", 401, "invalid_request_error", 4401, false},
           {"insufficient_scope", 403, "permission_error", 4403, false},
           {"model_not_found", 404, "invalid_request_error", 4404, false},
           {"expired", 410, "invalid_request_error", 4410, false},
           {"method_not_allowed", 405, "invalid_request_error", 1003, false},
           {"uri_too_long", 414, "invalid_request_error", 1003, false},
           {"unsupported_media_type", 415, "invalid_request_error", 1003, false},
           {"headers_too_large", 431, "invalid_request_error", 1003, false},
           {"request_timeout", 408, "invalid_request_error", 1008, true},
           {"conversation_busy", 409, "conflict_error", 4409, true},
           {"version_mismatch", 412, "invalid_request_error", 4409, false},
           {"idempotency_key_mismatch", 422, "invalid_request_error", 4409, false},
           {"request_too_large", 413, "invalid_request_error", 1009, false},
           {"request_exceeds_capacity", 413, "invalid_request_error", 4400, false},
           {"rate_limit_exceeded", 429, "requests", 4429, true},
           {"insufficient_quota", 429, "insufficient_quota", 4429, false},
           {"internal_error", 500, "server_error", 1011, true},
           {"logits_not_finite", 500, "server_error", 1011, false},
           {"not_implemented", 501, "server_error", 4400, false},
           {"queue_full", 503, "server_error", 1013, true},
           {"overloaded", 503, "server_error", 1013, true},
           {"model_loading", 503, "server_error", 1013, true},
           {"draining", 503, "server_error", 1001, true},
           {"deadline_exceeded", 504, "server_error", 4504, false}}) {
    const ErrorRow& row = FindError(Unavailable(want.code, ""));
    EXPECT_EQ(row.code, want.code);
    EXPECT_EQ(row.http, want.http) << want.code;
    EXPECT_EQ(row.type, want.type) << want.code;
    EXPECT_EQ(row.websocket, want.websocket) << want.code;
    EXPECT_EQ(row.retry == Retry::kYes, want.retry) << want.code;
  }
}

TEST(ErrorTable, LimitsCapacityAndDeadlinesSayWhenToComeBack) {
  for (const ErrorRow& row : ErrorTable()) {
    const ErrorView view = ViewError(Make(row));
    if (row.http == 429 || row.http == 503 || row.http == 504) {
      EXPECT_TRUE(view.retry_after.has_value()) << row.code;
      EXPECT_GE(view.retry_after->count(), 1);
    }
  }
  const Status status =
      Unavailable("queue_full", "full").WithRetryAfter(std::chrono::milliseconds(2500));
  EXPECT_EQ(ViewError(status).retry_after, std::chrono::milliseconds(2500));
}

TEST(ErrorTable, WhatNoRepetitionMendsSaysNoTimeToComeBack) {
  const ErrorView ended =
      ViewError(Status(StatusCode::kAborted, "already_finished", "it has ended"));
  EXPECT_EQ(ended.retry_after, std::nullopt)
      << "the stock client cancelled an ended batch three times";
  EXPECT_EQ(ended.should_retry, false);
  EXPECT_TRUE(
      ViewError(Status(StatusCode::kAborted, "conversation_busy", "")).retry_after.has_value());
}

// The stock openai client repeats 408, 409, 429 and 5xx by itself; these it would treat wrongly.
TEST(ErrorTable, TheStockClientIsToldOnlyWhereItWouldDoTheWrongThing) {
  const std::map<std::string_view, bool> expected = {
      {"http_version_not_supported", false},
      {"not_implemented", false},
      {"deadline_exceeded", false},
      {"insufficient_quota", false},
      {"pin_limit", false},
      {"request_exceeds_limit", false},
      {"steer_unsupported", false},
      {"already_finished", false},
      {"adapter_exists", false},
      {"adapter_limit", false},
      {"model_exists", false},
      {"alias_limit", false},
      {"model_in_use", false},
      {"pull_failed", false},
      {"model_too_large", false},
      {"name_taken", false},
      {"two_keys_active", false},
      {"too_many_keys", false},
      {"too_many_users", false},
      {"model_load_failed", false},
      {"attempts_exhausted", false},
      {"callback_failed", false},
      {"logits_not_finite", false},
      {"output_not_finite", false},
      {"idempotency_key_mismatch", false}};  // which says so to clients that do otherwise, too
  std::map<std::string_view, bool> told;
  for (const ErrorRow& row : ErrorTable()) {
    const ErrorView view = ViewError(Make(row));
    if (view.should_retry.has_value()) told.emplace(row.code, *view.should_retry);
  }
  EXPECT_EQ(told, expected);
}

// A file or a full memory is no fault of the client's, and their texts are not for clients.
TEST(ErrorTable, ACodeThatIsNotListedIsAnInternalErrorWithoutItsText) {
  for (int canonical = 1; canonical <= 16; ++canonical) {
    for (const char* reason : {"gguf_truncated", "tokenizer_limit", "io_error", ""}) {
      const ErrorView view =
          ViewError(Status(static_cast<StatusCode>(canonical), reason, "secret text")
                        .WithParam("secret field"));
      EXPECT_EQ(view.http, 500) << canonical;
      EXPECT_EQ(view.code, "internal_error");
      EXPECT_EQ(view.type, "server_error");
      EXPECT_EQ(view.message, "the server failed to answer this request");
      EXPECT_EQ(view.param, "");
    }
  }
}

TEST(ErrorTable, InternalErrorsDoNotShowTheirText) {
  const ErrorView view = ViewError(Internal("segment at 0x7fff /home/x/model.gguf"));
  EXPECT_EQ(view.message.find("0x7fff"), std::string::npos);
  EXPECT_EQ(view.message.find("/home"), std::string::npos);
}

TEST(ErrorTable, AFullQueueIs429ByOption) {
  EXPECT_EQ(ViewError(Unavailable("queue_full", "x"), {429}).http, 429);
  EXPECT_EQ(ViewError(Unavailable("queue_full", "x"), {503}).http, 503);
  EXPECT_EQ(ViewError(Unavailable("draining", "x"), {429}).http, 503);
}

TEST(ErrorBody, HasTheOpenAiShape) {
  EXPECT_EQ(
      ErrorBody(ViewError(
          InvalidArgument("invalid_value", "bad \"x\"").WithParam("messages[2].content"))),
      R"({"error":{"message":"bad \"x\"","type":"invalid_request_error","param":"messages[2].content","code":"invalid_value"}})");
  EXPECT_EQ(
      ErrorBody(ViewError(InvalidArgument("context_length_exceeded", "long").WithParam("messages")),
                ContextNumbers{900, 512}),
      R"({"error":{"message":"long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded","n_prompt_tokens":900,"n_ctx":512}})");
}

TEST(ErrorTable, KservesFormIsATextWithTheStatusesOfTriton) {
  const ErrorOptions options{.form = ErrorForm::kKserve};
  for (const auto& [code, http] :
       std::initializer_list<std::pair<const char*, int>>{{"invalid_value", 400},
                                                          {"context_length_exceeded", 400},
                                                          {"request_exceeds_capacity", 400},
                                                          {"model_not_found", 404},
                                                          {"expired", 404},
                                                          {"internal_error", 500},
                                                          {"not_implemented", 501},
                                                          {"queue_full", 503},
                                                          {"deadline_exceeded", 503},
                                                          {"invalid_api_key", 401},
                                                          {"insufficient_scope", 403},
                                                          {"method_not_allowed", 405},
                                                          {"request_timeout", 408},
                                                          {"request_too_large", 413},
                                                          {"unsupported_media_type", 415},
                                                          {"rate_limit_exceeded", 429}}) {
    const Status status(FindError(InvalidArgument(code, "text")).canonical, code, "text");
    const ErrorView view = ViewError(status, options);
    EXPECT_EQ(view.http, http) << code;
    if (http != 500) {
      EXPECT_EQ(ErrorBody(view), R"({"error":"text"})");
    }
  }
  ErrorOptions with_429 = options;
  with_429.queue_full_http = 429;
  EXPECT_EQ(ViewError(Unavailable("queue_full", "text"), with_429).http, 429);
}

}  // namespace
}  // namespace tutti::protocol
