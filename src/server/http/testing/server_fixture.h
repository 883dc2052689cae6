// A server over a FakeInference, or another one of a derived fixture, on a free loopback port, for
// one test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/model_control.h"
#include "api/model_library.h"
#include "protocol/kserve/repository.h"
#include "server/http/connection/http_server.h"
#include "server/http/testing/fake_models.h"
#include "server/http/testing/raw_client.h"
#include "services/auth/control.h"
#include "services/auth/testing/one_key.h"
#include "services/batches/batches.h"
#include "services/batches/control.h"
#include "services/batches/files.h"
#include "services/idempotency/keys.h"
#include "services/jobs/control.h"
#include "services/jobs/job_rows.h"
#include "services/jobs/jobs.h"
#include "services/responses/response_rows.h"
#include "services/responses/responses.h"
#include "services/sessions/chat.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"
#include "services/sessions/versions.h"
#include "store/store.h"

namespace tutti::http::testing {

class LogLines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }
  std::string Joined() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class ServerTest : public ::testing::Test {
 protected:
  virtual api::Inference& inference() { return inference_; }
  virtual const api::HealthProbe& health() { return inference_; }

  void StartServer(HttpOptions options = {}) {
    options.port = 0;
    options.version = "1.2.3";
    options.has_keys = !options.api_key.empty();
    serving_ = std::make_unique<telemetry::ServerMetrics>(metrics_);
    repository_ = std::make_unique<kserve::Repository>(
        kserve::RepositoryOptions{.server_version = "1.2.3", .test_models = true},
        kserve::Repository::Dependencies{&inference(), &health(), &clock_, control_});
    known_ = std::make_unique<auth::testing::OneKey>(options.api_key,
                                                     !options.tls_client_ca_file.empty());
    if (has_services_) StartServices();
    server_ =
        std::make_unique<HttpServer>(options, HttpServer::Dependencies{&inference(),
                                                                       &known_->authority(),
                                                                       &health(),
                                                                       &metrics_,
                                                                       serving_.get(),
                                                                       &log_,
                                                                       &clock_,
                                                                       repository_.get(),
                                                                       responses_.get(),
                                                                       sessions_.get(),
                                                                       chat_.get(),
                                                                       jobs_.get(),
                                                                       files_.get(),
                                                                       batches_.get(),
                                                                       idempotency_keys_.get(),
                                                                       nullptr,
                                                                       control_,
                                                                       count_load_,
                                                                       library_,
                                                                       nullptr,
                                                                       live_,
                                                                       &traces_,
                                                                       &errors_,
                                                                       Operate(),
                                                                       limits_left_});
    ASSERT_TRUE(server_->Start().ok());
  }
  // As app::State, but on the thread that asks.
  std::function<void(std::string, std::string, HttpServer::Dependencies::OperatorAnswer)>
  Operate() {
    if (!has_services_) return nullptr;
    return [this](const std::string& request, const std::string& by,
                  const HttpServer::Dependencies::OperatorAnswer& done) {
      operators_.push_back(by);
      const int64_t now_s = time(nullptr);
      if (jobs::IsJobsRequest(request))
        return done(jobs::HandleControl(*store_, jobs_.get(), request, now_s * 1000));
      if (batches::IsBatchesRequest(request))
        return done(batches::HandleControl(*store_, *batches_, request));
      done(auth::HandleControl(known_->authority(), request, now_s));
    };
  }
  // Destroys the services of an earlier server; users of a store go before the store.
  void StopServices() {
    idempotency_keys_.reset();
    batches_.reset();
    files_.reset();
    jobs_.reset();
    sessions_.reset();
    responses_.reset();
    store_.reset();
  }
  // In memory, unless a folder is named.
  void StartServices() {
    std::vector<store::Migration> tables = {sessions::kHistoryTables,     sessions::kBranchTables,
                                            responses::kResponseTables,   sessions::kVersionTables,
                                            sessions::kFingerprintTables, sessions::kOwnerTables,
                                            sessions::kConversationIndex};
    for (const store::Migration& table : jobs::JobMigrations()) tables.push_back(table);
    tables.push_back(batches::kFileTables);
    tables.push_back(batches::kBatchTables);
    tables.push_back(idempotency::kKeyTables);
    auto store = store::Store::Open({.folder = store_folder_}, tables);
    ASSERT_TRUE(store.ok()) << store.status();
    StopServices();
    store_ = *std::move(store);
    const auto unix_s = [] { return static_cast<int64_t>(time(nullptr)); };
    responses_ = std::make_unique<responses::Responses>(responses::Responses::Options(),
                                                        inference(), *store_, clock_, unix_s);
    sessions_ = std::make_unique<sessions::Sessions>(sessions::SessionOptions(), inference(),
                                                     *store_, *responses_, clock_, unix_s);
    chat_ = std::make_unique<sessions::Chat>(chat_options_, *sessions_);
    jobs_ = std::make_unique<jobs::Jobs>(
        jobs::Jobs::Options(), inference(), *store_, clock_, [unix_s] { return unix_s() * 1000; },
        [](const api::CallerRef& caller) -> Result<api::CallerRef> { return caller; });
    jobs_->Start();
    auto files =
        batches::Files::Open(files_options_, *store_, clock_, [unix_s] { return unix_s() * 1000; });
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    batches_ = std::make_unique<batches::Batches>(
        batches::Batches::Options(), inference(), *store_, *files_, clock_,
        [unix_s] { return unix_s() * 1000; },
        [](const api::CallerRef& caller) -> Result<api::CallerRef> { return caller; });
    batches_->Start();
    idempotency_keys_ = std::make_unique<idempotency::IdempotencyKeys>(
        idempotency_options_, *store_, [unix_s] { return unix_s() * 1000; });
  }
  int port() const { return server_->port(); }

  static std::string Get(const std::string& path, const std::string& fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string Post(const std::string& path, const std::string& body,
                          const std::string& fields = "") {
    return "POST " + path +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n" + fields + "\r\n" + body;
  }
  // One handler on a connection of its own.
  RawResponse Ask(const std::string& request, bool head_only = false) {
    RawClient client(port());
    EXPECT_TRUE(client.Send(request));
    return client.Read(head_only);
  }
  // The value of `"code":"..."` in an error body.
  static std::string CodeOf(const RawResponse& response) {
    const std::string mark = "\"code\":\"";
    const size_t at = response.body.find(mark);
    if (at == std::string::npos) return "";
    const size_t start = at + mark.size();
    return response.body.substr(start, response.body.find('"', start) - start);
  }
  // Waits until `done` holds; true if it did within the time.
  template <typename Predicate>
  static bool Eventually(Predicate done, int timeout_ms = kPatienceMs) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (!done()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      usleep(1000);
    }
    return true;
  }

  const std::string kChatBody = R"({"model":"fake","messages":[{"role":"user","content":"hi"}]})";
  const std::string kChatStreamBody =
      R"({"model":"fake","messages":[{"role":"user","content":"hi"}],"stream":true})";

  std::vector<std::string> operators_;  // who made each control request; read it after the answer
  // Set before StartServer().
  std::function<std::vector<api::CallerLimitState>(const api::Caller&)> limits_left_;
  api::ModelControl* control_ = nullptr;  // set before StartServer()
  std::function<Status(const api::CallerRef&, const std::string&)> count_load_;  // as control_
  api::ModelLibrary* library_ = nullptr;                                         // the same
  api::LiveSource* live_ = nullptr;                                              // the same
  api::RequestTraces traces_;
  telemetry::RecentErrors errors_;
  bool has_services_ = true;  // of responses, conversations and jobs; set before StartServer()
  SteadyClock clock_;
  telemetry::MetricsRegistry metrics_;
  std::shared_ptr<LogLines> lines_ = std::make_shared<LogLines>();
  Logger log_{LogLevel::kInfo, lines_};
  FakeInference inference_{FakeModels()};
  std::unique_ptr<telemetry::ServerMetrics> serving_;
  std::unique_ptr<kserve::Repository> repository_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<auth::testing::OneKey> known_;
  std::unique_ptr<responses::Responses> responses_;
  std::unique_ptr<sessions::Sessions> sessions_;
  sessions::ChatOptions chat_options_{.projects = {{.name = "driving", .tenant = "default"}},
                                      .admit = nullptr,
                                      .unix_ms = [] { return int64_t{1234}; }};
  std::unique_ptr<sessions::Chat> chat_;
  std::unique_ptr<jobs::Jobs> jobs_;
  batches::Files::Options files_options_;  // set before StartServer()
  std::unique_ptr<batches::Files> files_;
  std::unique_ptr<batches::Batches> batches_;
  std::string store_folder_;  // set before StartServer(); empty: in memory
  idempotency::IdempotencyKeys::Options idempotency_options_;  // set before StartServer()
  std::unique_ptr<idempotency::IdempotencyKeys> idempotency_keys_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tutti::http::testing
