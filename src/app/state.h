// State: the store of a serving process and the services that keep data in it: accounts, responses,
// dialogs, jobs, batches.
//
// Must outlive the servers. One thread makes and destroys it; any thread may use its parts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/backend.h"
#include "app/caches.h"
#include "app/callers.h"
#include "app/config/settings.h"
#include "app/control.h"
#include "app/conversation_log.h"
#include "base/status.h"
#include "base/strand.h"
#include "server/control/control_server.h"
#include "services/auth/authenticator.h"
#include "services/batches/batches.h"
#include "services/batches/files.h"
#include "services/idempotency/keys.h"
#include "services/jobs/jobs.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"
#include "services/webhooks/webhooks.h"
#include "store/store.h"

namespace tutti::app {

class State {
 public:
  // Opens the store, and `control.sock` in the same folder. `configured_key`: from ApiKey(), or "".
  // `backend` and `log` must outlive the State. `caches`: those that the models use. Errors: those
  // of StoreFolder, Store::Open, Files::Open, AuthOptions and ControlServer::Open; overloaded (a
  // thread cannot be started).
  static Result<std::unique_ptr<State>> Open(const Settings& settings,
                                             const std::string& configured_key, Backend& backend,
                                             Caches caches, Logger* log);

  auth::Authenticator& authority() { return *authority_; }
  // The inference API with admission control; all servers use it, none calls the models directly.
  api::Inference& inference() { return callers_->inference(); }
  const Callers& callers() const { return *callers_; }
  Callers& callers() { return *callers_; }
  const store::Store& store() const { return *store_; }
  const Caches& caches() const { return caches_; }
  // Retries to store revocations that a full disk has not accepted; called periodically.
  void WriteShutOut() { accounts_->WriteUnwritten(); }
  // Errors: as Callers::WriteUsage.
  Status WriteUsage() { return callers_->WriteUsage(); }
  responses::Responses& responses() { return responses_; }
  sessions::Sessions& sessions() { return sessions_; }
  jobs::Jobs& jobs() { return jobs_; }
  const webhooks::Webhooks* webhooks() const { return webhooks_.get(); }  // null: off
  batches::Files& files() { return *files_; }
  batches::Batches& batches() { return batches_; }
  idempotency::IdempotencyKeys& idempotency_keys() { return idempotency_keys_; }

  // Resumes requests that the previous process accepted but did not answer. Called once, when the
  // models are loaded.
  void Resume();
  // Called before a drain: leaves running jobs and batch lines to the next process.
  void ReleaseLeases() {
    jobs_.ReleaseLeases();
    batches_.ReleaseLeases();
  }
  // Executes a control request of an operator (app/control.h) and passes the answer to `done`,
  // once, on any thread. Does not block. `by`: as OperatorLog::Answer. Errors also: overloaded (too
  // many wait), those of store::ClientStatus.
  void Operate(std::string request, std::string by, std::function<void(Result<std::string>)> done);
  // Called after a drain: informs readers of responses that the next process will continue.
  void Interrupt() { responses_.Interrupt(); }

 private:
  State(std::unique_ptr<store::Store> store, std::unique_ptr<auth::Accounts> accounts,
        std::unique_ptr<auth::Authenticator> authority, std::unique_ptr<Callers> callers,
        std::unique_ptr<ConversationLog> conversations, Caches caches,
        std::unique_ptr<webhooks::Webhooks> webhooks, std::unique_ptr<batches::Files> files,
        const jobs::Jobs::Options& jobs, const batches::Batches::Options& batches, Backend& backend,
        Logger* log);
  void LogUnfinished();  // to the log
  Result<std::string> AnswerOperator(std::string_view request, std::string_view by);

  const std::unique_ptr<store::Store> store_;
  const std::unique_ptr<auth::Accounts> accounts_;
  const std::unique_ptr<auth::Authenticator> authority_;
  const std::unique_ptr<Callers> callers_;
  const Caches caches_;
  Logger* const log_;
  OperatorLog operator_log_;
  const std::unique_ptr<ConversationLog> conversations_;  // null: off
  const std::unique_ptr<webhooks::Webhooks> webhooks_;    // null: off
  const std::unique_ptr<batches::Files> files_;
  responses::Responses responses_;
  sessions::Sessions sessions_;
  jobs::Jobs jobs_;
  batches::Batches batches_;
  idempotency::IdempotencyKeys idempotency_keys_;
  // Both last: they use all of the above.
  std::unique_ptr<control::ControlServer> control_;  // null: the store is in memory
  Strand operator_;                                  // runs what Operate() is given
};

}  // namespace tutti::app
