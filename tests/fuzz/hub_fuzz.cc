// What a hub and its users write: names of models, Link headers, and pages of a repository's list
// of files. A list is refused, or all its files have safe names, sizes and hashes, and what is
// chosen of them is in it. Input: a name up to a line break, then the page.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/json/json.h"
#include "services/models/file_choice.h"
#include "services/models/hub.h"
#include "services/models/hub_cache.h"
#include "services/models/hub_name.h"

namespace {

namespace models = tutti::models;

void CheckName(std::string_view text) {
  const tutti::Result<models::HubName> name = models::ParseHubName(text);
  if (!name.ok()) {
    CHECK(name.status().reason() == "invalid_value") << name.status();
    return;
  }
  CHECK(std::count(name->repository.begin(), name->repository.end(), '/') == 1);
  CHECK(models::IsSafeRelativePath(name->repository)) << name->repository;
  CHECK(models::IsSafeRelativePath(name->revision_or_main())) << name->revision;
  const std::string folder = models::HubCache("").RepositoryFolder(name->repository);
  CHECK(folder.rfind('/') == 0 && models::IsSafeRelativePath(folder.substr(1))) << folder;
  const tutti::Result<models::HubName> again = models::ParseHubName(name->ToString());
  CHECK(again.ok() && *again == *name) << name->ToString();
}

void CheckList(std::string_view page, std::string_view quant) {
  const tutti::Result<tutti::protocol::JsonDocument> json = tutti::protocol::ParseJson(page);
  if (!json.ok()) return;
  std::vector<models::HubFile> files;
  const tutti::Status status = models::AddFileList(json->root(), &files);
  CHECK(status.ok() || status.reason() == "hub_reply") << status;
  for (const models::HubFile& file : files) {
    CHECK(models::IsSafeRelativePath(file.path)) << file.path;
    CHECK(models::IsHashText(file.kind, file.hash)) << file.hash;
  }
  if (!status.ok()) return;
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  const tutti::Result<models::FileChoice> choice = models::ChooseFiles(files, quant, "o/m");
  (void)models::QuantsOf(files);
  if (!choice.ok()) return;
  CHECK(!choice->files.empty());
  const auto is_in = [](const std::vector<models::HubFile>& list, const std::string& path) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& file) { return file.path == path; });
  };
  for (const models::HubFile& file : choice->files) CHECK(is_in(files, file.path)) << file.path;
  CHECK(choice->entry.empty() || is_in(choice->files, choice->entry)) << choice->entry;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const std::string_view name = input.Until('\n');
  const std::string_view page = input.Rest();
  CheckName(name);
  (void)models::NextLink(name);
  (void)models::OriginOf(std::string(name));
  (void)models::PublicPartOf(std::string(name));
  CheckList(page, name);
  return 0;
}
