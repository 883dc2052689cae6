// `tutti jobs`: lists, shows, cancels and replays the durable jobs of a store, for all tenants and
// users, and pauses their queue.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/number_option.h"
#include "cli/report.h"
#include "cli/store_commands.h"
#include "protocol/control.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

std::string When(int64_t ms) { return ms == 0 ? "-" : DateText(ms / 1000); }

class JobsCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("jobs", "Durable jobs: list, show, cancel, replay, pause, resume");
    app_->require_subcommand(1);
    app_->footer("Example:\n  tutti jobs list --status failed");
    list_ = app_->add_subcommand("list", "Those that wait, run or ended, the newest first");
    list_->add_option("--status", status_,
                      "queued, running, completed, failed, cancelled or expired (default: all)");
    list_->add_option("--tenant", tenant_, "of one tenant (default: of all)");
    AddNumber(*list_, "--limit", limit_, int64_t{1}, int64_t{1000},
              "number of jobs, 1 to 1000 [20]");
    list_->add_option("--after", after_, "those behind that id: where the page before ended");
    list_->footer("Example:\n  tutti jobs list --status failed --limit 100");
    list_request_.AddTo(*list_);
    One("show", "One, with its result", "tutti jobs show job_3f...");
    One("cancel", "End one, with what it has", "tutti jobs cancel job_3f...");
    One("replay", "Begin one anew that failed, with all its attempts",
        "tutti jobs replay job_3f...");
    OfTenant("pause", "Begin none of a tenant's; what runs goes on", "tutti jobs pause default");
    OfTenant("resume", "Begin them again", "tutti jobs resume default");
  }

  int Run() override {
    const Status status = Ask();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  struct Verb {
    CLI::App* app = nullptr;
    std::string name, argument;
    bool of_tenant = false;
    StoreRequest request;
  };

  Verb& Add(const char* name, const char* text, const char* example) {
    verbs_.push_back(std::make_unique<Verb>());
    Verb& verb = *verbs_.back();
    verb.name = name;
    verb.app = app_->add_subcommand(name, text);
    verb.app->footer(std::string("Example:\n  ") + example);
    return verb;
  }
  void One(const char* name, const char* text, const char* example) {
    Verb& verb = Add(name, text, example);
    verb.app->add_option("id", verb.argument, "of the job")->required();
    verb.request.AddTo(*verb.app);
  }
  void OfTenant(const char* name, const char* text, const char* example) {
    Verb& verb = Add(name, text, example);
    verb.of_tenant = true;
    verb.app
        ->add_option("tenant,--tenant", verb.argument,
                     "whose jobs: default, where there are no keys")
        ->required();
    verb.request.AddTo(*verb.app);
  }

  Status Ask() {
    if (list_->parsed()) return List();
    for (const auto& verb : verbs_) {
      if (verb->app->parsed()) return Do(*verb);
    }
    return OkStatus();
  }

  Status Do(const Verb& verb) {
    std::string asked;
    protocol::JsonWriter(&asked)
        .BeginObject()
        .Member("op", "jobs." + verb.name)
        .Member(verb.of_tenant ? "tenant" : "id", verb.argument)
        .EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, verb.request.Ask(asked));
    if (verb.request.PrintedJson(answer)) return OkStatus();
    if (verb.of_tenant) {
      std::printf("%s: %s\n", verb.argument.c_str(), verb.name == "pause" ? "paused" : "resumed");
      return OkStatus();
    }
    const protocol::Json* const job = answer.root().get_object().if_contains("job");
    if (job == nullptr || !job->is_object()) return Internal("the answer has no job");
    if (verb.name == "show") {
      std::printf("%s\n", protocol::PrintJson(*job).c_str());
    } else {
      std::printf("%s %s\n", protocol::MemberText(job->get_object(), "id").c_str(),
                  protocol::MemberText(job->get_object(), "status").c_str());
    }
    return OkStatus();
  }

  Status List() {
    std::string asked;
    protocol::JsonWriter json(&asked);
    json.BeginObject().Member("op", "jobs.list").Member("limit", limit_);
    if (!status_.empty()) json.Member("status", status_);
    if (list_->count("--tenant") > 0) json.Member("tenant", tenant_);
    if (!after_.empty()) json.Member("after", after_);
    json.EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, list_request_.Ask(asked));
    if (list_request_.PrintedJson(answer)) return OkStatus();
    const protocol::JsonObject& page = answer.root().get_object();
    const protocol::Json* const jobs = page.if_contains("jobs");
    if (jobs == nullptr || !jobs->is_array()) return Internal("the answer has no jobs");
    std::vector<std::vector<std::string>> rows = {
        {"ID", "TENANT", "KIND", "STATUS", "ATTEMPT", "CREATED", "FINISHED", "ERROR"}};
    for (const protocol::Json& each : jobs->get_array()) {
      if (!each.is_object()) continue;
      const protocol::JsonObject& job = each.get_object();
      const protocol::Json* const error = job.if_contains("error");
      rows.push_back(
          {protocol::MemberText(job, "id"), protocol::MemberText(job, "tenant"),
           protocol::MemberText(job, "kind"),
           protocol::MemberText(job, "status") + (MemberFlag(job, "dead_letter") ? " (dead)" : ""),
           std::to_string(protocol::MemberNumber(job, "attempt")),
           When(protocol::MemberNumber(job, "created_ms")),
           When(protocol::MemberNumber(job, "finished_ms")),
           error != nullptr && error->is_object()
               ? protocol::MemberText(error->get_object(), "code")
               : ""});
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    if (MemberFlag(page, "more") && !rows.back().empty())
      std::fprintf(stderr, "more: --after %s\n", rows.back()[0].c_str());
    const protocol::Json* const paused = page.if_contains("paused");
    if (paused != nullptr && paused->is_array()) {
      for (const protocol::Json& owner : paused->get_array()) {
        if (owner.is_string())
          std::fprintf(stderr, "paused: %s\n", std::string(owner.get_string()).c_str());
      }
    }
    return OkStatus();
  }

  CLI::App* list_ = nullptr;
  StoreRequest list_request_;
  std::string status_, tenant_, after_;
  int64_t limit_ = 20;
  std::vector<std::unique_ptr<Verb>> verbs_;
};

}  // namespace

std::unique_ptr<Command> MakeJobsCommand() { return std::make_unique<JobsCommand>(); }

}  // namespace tutti::cli
