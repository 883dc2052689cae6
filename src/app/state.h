// State: what a serving process remembers: its store, and the services that keep something there:
// who may call, answers, dialogs.
//
// Made before the doors and gone after them. One thread makes it; what it gives is for any.
#pragma once

#include <memory>
#include <string>

#include "app/account_log.h"
#include "app/backend.h"
#include "app/caches.h"
#include "app/callers.h"
#include "app/conversation_log.h"
#include "app/settings.h"
#include "base/status.h"
#include "doors/control/control_door.h"
#include "services/auth/authority.h"
#include "services/batches/batches.h"
#include "services/batches/files.h"
#include "services/jobs/jobs.h"
#include "services/repeats/repeats.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"
#include "services/webhooks/webhooks.h"
#include "store/store.h"

namespace tutti::app {

class State {
 public:
  // Opens the store, and `control.sock` beside it. `configured_key`: of ApiKey(), or "".
  // `backend` and `log` outlive it. `caches`: those that its models ask. Errors: those of
  // StoreFolder, Store::Open, Files::Open, AuthOptions and ControlDoor::Open; overloaded (no thread
  // is to be had).
  static Result<std::unique_ptr<State>> Open(const Settings& settings,
                                             const std::string& configured_key, Backend& backend,
                                             Caches caches, Logger* log);

  auth::Authority& authority() { return *authority_; }
  // What all doors ask, and nothing past it.
  api::Inference& inference() { return callers_->inference(); }
  const Callers& callers() const { return *callers_; }
  const store::Store& store() const { return *store_; }
  const Caches& caches() const { return caches_; }
  // Who was shut out while the disk took nothing; to be tried now and then.
  void WriteShutOut() { accounts_->WriteUnwritten(); }
  // Errors: as Callers::WriteUsage.
  Status WriteUsage() { return callers_->WriteUsage(); }
  responses::Responses& responses() { return responses_; }
  sessions::Sessions& sessions() { return sessions_; }
  jobs::Jobs& jobs() { return jobs_; }
  const webhooks::Webhooks* webhooks() const { return webhooks_.get(); }  // null: off
  batches::Files& files() { return *files_; }
  batches::Batches& batches() { return batches_; }
  repeats::Repeats& repeats() { return repeats_; }

  // Goes on with what was accepted and not answered when the process before this one ended. Once,
  // when the models are loaded.
  void Resume();
  // Before a drain: the next process goes on with the jobs and the lines of batches that run.
  void GiveBackJobs() {
    jobs_.GiveBack();
    batches_.GiveBack();
  }
  // After a drain: who still reads an answer that is left to the next process is told so.
  void Interrupt() { responses_.Interrupt(); }

 private:
  State(std::unique_ptr<store::Store> store, std::unique_ptr<auth::Accounts> accounts,
        std::unique_ptr<auth::Authority> authority, std::unique_ptr<Callers> callers,
        std::unique_ptr<ConversationLog> conversations, Caches caches,
        std::unique_ptr<webhooks::Webhooks> webhooks, std::unique_ptr<batches::Files> files,
        const jobs::Jobs::Options& jobs, const batches::Batches::Options& batches, Backend& backend,
        Logger* log);
  void TellUnfinished();  // to the log

  const std::unique_ptr<store::Store> store_;
  const std::unique_ptr<auth::Accounts> accounts_;
  const std::unique_ptr<auth::Authority> authority_;
  const std::unique_ptr<Callers> callers_;
  const Caches caches_;
  Logger* const log_;
  AccountLog account_log_;
  std::unique_ptr<control::ControlDoor> control_;         // null: the store is in memory
  const std::unique_ptr<ConversationLog> conversations_;  // null: off
  const std::unique_ptr<webhooks::Webhooks> webhooks_;    // null: off
  const std::unique_ptr<batches::Files> files_;
  responses::Responses responses_;
  sessions::Sessions sessions_;
  jobs::Jobs jobs_;
  batches::Batches batches_;
  repeats::Repeats repeats_;
};

}  // namespace tutti::app
