// `tutti models`: the models on this machine's disk, their files, and their removal.
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "app/loading/model_registry.h"
#include "base/quote.h"
#include "cli/command_line.h"
#include "cli/pull.h"
#include "cli/report.h"
#include "cli/store_commands.h"
#include "protocol/json/json_writer.h"
#include "services/models/hub_cache.h"
#include "services/models/pull.h"

namespace tutti::cli {
namespace {

// Bytes of a file, or of the files below a folder.
uint64_t BytesAt(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const uintmax_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
  }
  uint64_t bytes = 0;
  for (std::filesystem::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    const uintmax_t size = at->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

int64_t TimeOf(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

std::vector<models::CachedModel> AllModels(const models::HubSettings& settings) {
  std::vector<models::CachedModel> all;
  for (const app::ModelRef& known : app::KnownModelsHere()) {
    models::CachedModel model;
    model.name.repository = known.served_name;
    model.path = known.path;
    model.bytes = BytesAt(known.path);
    model.time_s = TimeOf(known.path);
    all.push_back(std::move(model));
  }
  for (models::CachedModel& model : models::HubCache(settings.cache_folder).List())
    all.push_back(std::move(model));
  for (models::CachedModel& model : models::ListUrls(settings)) all.push_back(std::move(model));
  return all;
}

void WriteJson(const models::CachedModel& model, protocol::JsonWriter* json) {
  json->BeginObject()
      .Member("name", model.name.ToString())
      .Member("path", model.path)
      .Member("bytes", static_cast<int64_t>(model.bytes))
      .Member("modified", model.time_s)
      .MemberOrNull("revision", model.commit)
      .Key("files")
      .BeginArray();
  for (const models::HubFile& file : model.parts) {
    json->BeginObject()
        .Member("path", file.path)
        .Member("bytes", static_cast<int64_t>(file.size))
        .MemberOrNull("hash", file.hash)
        .EndObject();
  }
  json->EndArray().EndObject();
}

class ModelsCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("models", "The models on this machine's disk");
    app_->footer(
        "Examples:\n"
        "  tutti models                                list what may be served by its name\n"
        "  tutti models show Qwen/Qwen3-0.6B\n"
        "  tutti models rm Qwen/Qwen3-0.6B-GGUF:Q8_0");
    app_->require_subcommand(0, 1);
    app_->add_flag("--json", json_, "one JSON object");
    list_ = app_->add_subcommand("list", "List them, with size and revision (the default)");
    list_->add_flag("--json", json_, "one JSON object");
    show_ = app_->add_subcommand("show", "Show the files of one");
    show_->add_option("MODEL", name_, "a name as `tutti models` prints it")
        ->check(ModelName())
        ->required();
    show_->add_flag("--json", json_, "one JSON object");
    remove_ = app_->add_subcommand("rm", "Remove the files of one from the cache");
    remove_->add_option("MODEL", name_, "ORG/NAME (all of it), ORG/NAME:QUANT, or a URL")
        ->check(ModelName())
        ->required();
    remove_->add_flag("--unfinished", unfinished_, "only what pulls of it left unfinished");
  }

  int Run() override {
    settings_ = app::HubSettingsFromEnvironment();
    const Status status = remove_->parsed() ? Remove() : show_->parsed() ? Show() : List();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  Status List() {
    const std::vector<models::CachedModel> all = AllModels(settings_);
    const std::vector<models::CachedModel> unfinished =
        models::HubCache(settings_.cache_folder).ListUnfinished();
    if (json_) {
      std::string text;
      protocol::JsonWriter json(&text);
      json.BeginObject().Member("schema", "tutti.models.v1").Key("models").BeginArray();
      for (const models::CachedModel& model : all) WriteJson(model, &json);
      json.EndArray().Key("unfinished").BeginArray();
      for (const models::CachedModel& model : unfinished) {
        json.BeginObject()
            .Member("name", model.name.repository)
            .Member("bytes", static_cast<int64_t>(model.bytes))
            .EndObject();
      }
      json.EndArray().EndObject();
      std::printf("%s\n", text.c_str());
      return OkStatus();
    }
    if (all.empty()) {
      std::printf("no models in %s; `tutti pull ORG/NAME` fetches one\n",
                  Printable(settings_.cache_folder).c_str());
    } else {
      PrintTable(all);
    }
    for (const models::CachedModel& model : unfinished) {
      std::printf(
          "unfinished: %s, %s; `tutti pull` goes on with it, `tutti models rm --unfinished` "
          "removes "
          "it\n",
          Printable(model.name.repository).c_str(), BytesText(model.bytes).c_str());
    }
    return OkStatus();
  }

  static void PrintTable(const std::vector<models::CachedModel>& all) {
    std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "DATE (UTC)", "REVISION"}};
    for (const models::CachedModel& model : all) {
      rows.push_back({Printable(model.name.ToString()), BytesText(model.bytes),
                      DateText(model.time_s),
                      model.commit.empty() ? "-" : model.commit.substr(0, 12)});
    }
    std::fputs(TextTable(rows).c_str(), stdout);
  }

  Result<models::CachedModel> Find() const {
    for (models::CachedModel& model : AllModels(settings_)) {
      if (model.name.ToString() == name_) return std::move(model);
    }
    const Result<models::HubName> name = models::ParseHubName(name_);
    if (name.ok()) return models::HubCache(settings_.cache_folder).Find(*name);
    if (models::IsUrl(name_)) return models::FindUrl(name_, settings_);
    return name.status();
  }

  Status Show() const {
    ASSIGN_OR_RETURN(const models::CachedModel model, Find());
    if (json_) {
      std::string text;
      protocol::JsonWriter json(&text);
      WriteJson(model, &json);
      std::printf("%s\n", text.c_str());
      return OkStatus();
    }
    std::printf("%s\npath      %s\nsize      %s\n", Printable(model.name.ToString()).c_str(),
                Printable(model.path).c_str(), BytesText(model.bytes).c_str());
    if (!model.commit.empty()) std::printf("revision  %s\n", model.commit.c_str());
    if (model.parts.empty()) return OkStatus();
    std::vector<std::vector<std::string>> rows = {{"FILE", "BYTES", "HASH"}};
    for (const models::HubFile& file : model.parts) {
      rows.push_back({Printable(file.path), std::to_string(file.size),
                      file.hash.empty() ? "-" : Printable(file.hash)});
    }
    std::printf("\n%s", TextTable(rows).c_str());
    return OkStatus();
  }

  Status Remove() const {
    const Result<models::HubName> name = models::ParseHubName(name_);
    uint64_t bytes = 0;
    const models::HubCache cache(settings_.cache_folder);
    if (name.ok()) {
      ASSIGN_OR_RETURN(bytes, unfinished_ ? cache.RemoveUnfinished(*name) : cache.Remove(*name));
    } else if (models::IsUrl(name_)) {
      ASSIGN_OR_RETURN(bytes, models::RemoveUrl(name_, settings_));
    } else {
      for (const app::ModelRef& known : app::KnownModelsHere()) {
        if (known.served_name != name_) continue;
        return InvalidArgument("invalid_value",
                               Quote(name_, 128) + " is no model of a hub; delete " + known.path);
      }
      return name.status();
    }
    std::printf("%s removed, %s\n", Printable(name_).c_str(), BytesText(bytes).c_str());
    return OkStatus();
  }

  models::HubSettings settings_;
  CLI::App *list_ = nullptr, *show_ = nullptr, *remove_ = nullptr;
  std::string name_;
  bool json_ = false, unfinished_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeModelsCommand() { return std::make_unique<ModelsCommand>(); }

}  // namespace tutti::cli
