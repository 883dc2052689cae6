// `tutti usage`: what callers have used, of a store, whether a server runs on it or not.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/command_line.h"
#include "cli/report.h"
#include "cli/store_commands.h"
#include "protocol/control.h"
#include "protocol/json/json_writer.h"
#include "services/usage/ledger_rows.h"

namespace tutti::cli {
namespace {

using protocol::JsonObject;
using protocol::JsonWriter;

class UsageCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("usage", "What callers have used: sums, or every request");
    app_->add_option("--by", by_, "sums of each tenant, key, user, model, route or day")
        ->check(CLI::IsMember({"tenant", "key", "user", "model", "route", "day"}))
        ->capture_default_str();
    app_->add_option("--since", since_, "how far back: 12h, 30d (default: all there is)")
        ->check(&SpanFault)
        ->type_name("SPAN");
    app_->add_option("--export", form_, "all rows instead, to standard output: json (lines) or csv")
        ->check(CLI::IsMember({"json", "csv"}));
    request_.AddTo(*app_);
    app_->footer(
        "Requests of keys, users and tokens have a row each; callers of an open server have none.\n"
        "Examples:\n"
        "  tutti usage --by tenant --since 30d\n"
        "  tutti usage --export csv > usage.csv");
  }

  int Run() override {
    const Status status = form_.empty() ? Sums() : Export();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  // An open object with the stretch of time.
  JsonWriter Open(std::string_view op, int64_t now_ms, std::string* text) const {
    JsonWriter json(text);
    json.BeginObject().Member("op", op);
    if (!since_.empty()) json.Member("from_ms", now_ms - *ParseSpan(since_) * 1000);
    return json;
  }

  Status Sums() {
    std::string asked;
    Open("usage.sums", UnixMillis(), &asked).Member("by", by_).EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, request_.Ask(asked));
    if (request_.PrintedJson(answer)) return OkStatus();
    const protocol::Json* const sums = answer.root().get_object().if_contains("sums");
    if (sums == nullptr || !sums->is_array()) return Internal("the answer has no sums");
    std::string name = by_;
    for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
    std::vector<std::vector<std::string>> rows = {
        {name, "REQUESTS", "PROMPT", "CACHED", "OUTPUT", "WAITED S", "COMPUTED S"}};
    // Keys are called otherwise than they are counted; a key that is no more has its id alone.
    const bool named = by_ == "key";
    if (named) rows[0].insert(rows[0].begin() + 1, "NAME");
    for (const protocol::Json& each : sums->get_array()) {
      if (!each.is_object()) continue;
      const JsonObject& sum = each.get_object();
      const auto number = [&](const char* member) {
        return std::to_string(protocol::MemberNumber(sum, member));
      };
      const auto seconds = [&](const char* member) {
        return std::to_string(protocol::MemberNumber(sum, member) / 1000);
      };
      rows.push_back({protocol::MemberText(sum, "group"), number("requests"),
                      number("prompt_tokens"), number("cached_tokens"), number("output_tokens"),
                      seconds("queue_ms"), seconds("compute_ms")});
      if (named) rows.back().insert(rows.back().begin() + 1, protocol::MemberText(sum, "name"));
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    if (rows.size() == 1)
      std::fputs("nothing recorded; requests without a key or a user have no rows\n", stderr);
    return OkStatus();
  }

  // Exports page by page, so that the whole export is never in memory; usage recorded meanwhile is
  // not included.
  Status Export() {
    const int64_t now_ms = UnixMillis();
    int64_t after_ms = 0, after_id = 0;
    for (bool first = true;; first = false) {
      std::string asked;
      Open("usage.rows", now_ms, &asked)
          .Member("form", form_)
          .Member("to_ms", now_ms)
          .Member("after_ms", after_ms)
          .Member("after_id", after_id)
          .EndObject();
      ASSIGN_OR_RETURN(const protocol::JsonDocument answer, request_.Ask(asked));
      const JsonObject& page = answer.root().get_object();
      if (first && form_ == "csv") {
        std::string header;
        usage::AppendCsvHeader(&header);
        RETURN_IF_ERROR(Write(header));
      }
      if (protocol::MemberNumber(page, "rows") == 0) return OkStatus();
      RETURN_IF_ERROR(Write(protocol::MemberText(page, "lines")));
      after_ms = protocol::MemberNumber(page, "after_ms");
      after_id = protocol::MemberNumber(page, "after_id");
    }
  }

  static Status Write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
      return OkStatus();
    return Unavailable("write_failed", "standard output takes no more");
  }

  StoreRequest request_;
  std::string by_ = "key", since_, form_;
};

}  // namespace

std::unique_ptr<Command> MakeUsageCommand() { return std::make_unique<UsageCommand>(); }

}  // namespace tutti::cli
