#include "protocol/job.h"

#include <gtest/gtest.h>

#include <string>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using std::chrono::seconds;

TEST(Prefer, IsReadInAnyOrderAndCase) {
  EXPECT_TRUE(ReadPrefer("respond-async").respond_async);
  EXPECT_TRUE(ReadPrefer("handling=lenient, Respond-Async ,wait=5").respond_async);
  EXPECT_EQ(ReadPrefer("respond-async, wait=5").wait, seconds(5));
  EXPECT_EQ(ReadPrefer("wait = 7;x=y, respond-async").wait, seconds(7));
  EXPECT_EQ(ReadPrefer("wait=1, wait=2").wait, seconds(1)) << "the first counts (RFC 7240 2)";
}

TEST(Prefer, WhatIsNoPreferenceIsNone) {
  for (const char* field : {"", ",", "respond-asynchronously", "async", "wait", "wait=", "wait=-1",
                            "wait=1.5", "wait=x", "wait=99999999999", "=,=;"}) {
    const Preference preference = ReadPrefer(field);
    EXPECT_FALSE(preference.respond_async || preference.wait.has_value()) << field;
  }
}

TEST(JobStates, HaveSixPublicWords) {
  EXPECT_EQ(StatesNamed("queued").size(), 1u);
  EXPECT_EQ(StatesNamed("failed").size(), 2u) << "dead ones too";
  EXPECT_TRUE(StatesNamed("dead").empty());
  EXPECT_TRUE(StatesNamed("").empty());
  for (const char* word : {"queued", "running", "completed", "failed", "cancelled", "expired"}) {
    for (const JobState state : StatesNamed(word)) EXPECT_EQ(JobStateName(state), word);
  }
  EXPECT_FALSE(Ended(JobState::kRunning));
  EXPECT_TRUE(Ended(JobState::kSucceeded));
}

TEST(JobJson, TellsWhatThereIs) {
  JobView job;
  job.id = "job_1";
  job.kind = "chat.completions";
  job.created_ms = 1'000'500;
  job.max_attempts = 3;
  job.position = 17;
  job.eta_ms = 4100;
  EXPECT_EQ(JobJson(job),
            R"({"id":"job_1","object":"job","status":"queued","kind":"chat.completions",)"
            R"("position":17,"eta_ms":4100,"attempt":0,"max_attempts":3,"created_at":1000,)"
            R"("started_at":null,"finished_at":null,"deadline":null,"expires_at":null,)"
            R"("progress":{"tokens":0},"result":null,"error":null,)"
            R"("links":{"self":"/v1/jobs/job_1","events":"/v1/jobs/job_1/events",)"
            R"("ws":"/v1/ws?job=job_1","cancel":"/v1/jobs/job_1/cancel"}})");
  job.state = JobState::kDead;
  job.version = 9;
  job.error = JobErrorJson(InvalidArgument("invalid_value", "no \"x\"").WithParam("n"));
  const std::string event = JobEvent(job);
  EXPECT_TRUE(event.starts_with(R"({"type":"job.failed","sequence_number":9,"job":{)")) << event;
  EXPECT_NE(event.find(R"("dead_letter":true)"), std::string::npos);
  EXPECT_NE(event.find(R"("error":{"code":"invalid_value","message":"no \"x\"","param":"n"})"),
            std::string::npos)
      << event;
  EXPECT_TRUE(ParseJson(event).ok());
}

TEST(JobError, ComesBackAsItWas) {
  const Status status =
      InvalidArgument("context_length_exceeded", "too long").WithParam("messages");
  const Status back = JobErrorOf(JobErrorJson(status));
  EXPECT_EQ(back.reason(), "context_length_exceeded");
  EXPECT_EQ(back.message(), "too long");
  EXPECT_EQ(back.param(), "messages");
  // A code of a kind that the table lists as a whole.
  const Status fuel =
      JobErrorOf(JobErrorJson(InvalidArgument("template_step_limit", "too many steps")));
  EXPECT_EQ(fuel.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fuel.reason(), "template_step_limit");
  for (const char* broken : {"", "{", "[]", "{}", R"({"code":7})", R"({"code":"of another time"})"})
    EXPECT_EQ(JobErrorOf(broken).code(), StatusCode::kInternal) << broken;
}

}  // namespace
}  // namespace tutti::protocol
