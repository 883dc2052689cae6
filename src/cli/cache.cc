// `tutti cache flush`: what a server keeps of answers, forgotten.
#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/command_line.h"
#include "cli/store_commands.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

class CacheCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("cache", "The answers that a server keeps");
    app_->require_subcommand(1);
    app_->footer("Example:\n  tutti cache flush");
    CLI::App* const flush =
        app_->add_subcommand("flush", "Forget them; what is being computed is not kept either");
    tenant_option_ = flush->add_option("--tenant", tenant_, "of one tenant (default: of all)");
    request_.AddTo(*flush);
    flush->footer("Example:\n  tutti cache flush --tenant home");
  }

  int Run() override {
    const Status status = Flush();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  Status Flush() {
    std::string asked;
    protocol::JsonWriter json(&asked);
    json.BeginObject().Member("op", "cache.flush");
    if (tenant_option_->count() > 0) json.Member("tenant", tenant_);
    json.EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, request_.Ask(asked));
    if (request_.PrintedJson(answer)) return OkStatus();
    const protocol::Json* const answers = answer.root().get_object().if_contains("answers");
    if (answers == nullptr || !answers->is_int64())
      return Internal("the server did not say how many answers there were");
    const int64_t count = answers->get_int64();
    std::printf("%lld entr%s forgotten (answers, vectors, questions)\n",
                static_cast<long long>(count), count == 1 ? "y" : "ies");
    return OkStatus();
  }

  StoreRequest request_;
  std::string tenant_;
  CLI::Option* tenant_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeCacheCommand() { return std::make_unique<CacheCommand>(); }

}  // namespace tutti::cli
