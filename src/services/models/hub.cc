#include "services/models/hub.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/quote.h"
#include "protocol/json/json.h"

namespace tutti::models {
namespace {

constexpr size_t kMaxReplyBytes = size_t{32} << 20;
constexpr size_t kMaxReplyValues = size_t{2} << 20;
constexpr size_t kMaxPages = 200;  // of 1,000 files each
constexpr size_t kMaxFiles = 100'000;
constexpr uint64_t kMaxListedBytes = uint64_t{1} << 47;  // the sum of all files fits 64 bits
constexpr std::chrono::seconds kReplyLimit{120};
// Failures without a byte in between: few as long as nothing came, since a name or a network is
// wrong then; more where a pull that runs loses its network.
constexpr int kMaxFailuresFirst = 3, kMaxFailuresLater = 8;
constexpr std::chrono::milliseconds kFirstWait{200};
constexpr std::chrono::milliseconds kMaxOwnWait{10'000};
constexpr std::chrono::seconds kMaxWait{120};  // that a hub may ask for

class TextBody final : public HttpBody {
 public:
  Status Begin(const HttpAnswer& answer) override {
    text.clear();
    const std::string_view encoding = answer.Field("content-encoding");
    if (!encoding.empty() && encoding != "identity")
      return Unavailable("hub_reply", "the reply is compressed, which was not asked for");
    return OkStatus();
  }
  Status Take(std::span<const std::byte> bytes) override {
    if (text.size() + bytes.size() > kMaxReplyBytes)
      return Unavailable("hub_reply", "the reply has more than 32 MiB");
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return OkStatus();
  }
  std::string text;
};

Status BadReply(const std::string& what) {
  return Unavailable("hub_reply", "the hub's reply is wrong: " + what);
}

// A whole number that is not negative.
std::optional<uint64_t> CountMember(const protocol::JsonObject& object, std::string_view name) {
  const protocol::Json* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_uint64()) return value->get_uint64();
  if (value->is_int64() && value->get_int64() >= 0)
    return static_cast<uint64_t>(value->get_int64());
  return std::nullopt;
}

Status AddFile(const protocol::Json& entry, std::vector<HubFile>* out) {
  const protocol::JsonObject* const object = entry.if_object();
  if (object == nullptr) return BadReply("an entry of the list of files is not an object");
  const std::string_view type = protocol::TextMember(entry, "type");
  if (type == "directory") return OkStatus();
  HubFile file;
  file.path = std::string(protocol::TextMember(entry, "path"));
  if (!IsSafeRelativePath(file.path))
    return BadReply("file name " + Quote(file.path, 128) + " leads out of the folder");
  std::optional<uint64_t> size = CountMember(*object, "size");
  file.hash = std::string(protocol::TextMember(entry, "oid"));
  if (const protocol::Json* const lfs = object->if_contains("lfs");
      lfs != nullptr && lfs->is_object()) {
    file.kind = HashKind::kSha256;
    file.hash = std::string(protocol::TextMember(*lfs, "oid"));
    if (file.hash.starts_with("sha256:")) file.hash.erase(0, 7);
    size = CountMember(lfs->get_object(), "size");
  }
  if (!size.has_value()) return BadReply(Quote(file.path, 128) + " has no size");
  if (*size > kMaxListedBytes) return BadReply(Quote(file.path, 128) + " has more than 128 TiB");
  if (!IsHashText(file.kind, file.hash)) return BadReply(Quote(file.path, 128) + " has no hash");
  file.size = *size;
  if (out->size() >= kMaxFiles) return BadReply("it has more than 100,000 files");
  out->push_back(std::move(file));
  return OkStatus();
}

}  // namespace

Status AddFileList(const protocol::Json& page, std::vector<HubFile>* files) {
  const protocol::JsonArray* const entries = page.if_array();
  if (entries == nullptr) return BadReply("the list of files is not an array");
  for (const protocol::Json& entry : *entries) RETURN_IF_ERROR(AddFile(entry, files));
  return OkStatus();
}

bool IsTransient(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

Status Retries::Next(Status why, bool progress, std::optional<std::chrono::seconds> wait,
                     const std::atomic<bool>* stop) {
  if (progress) {
    failures_ = 0;
    begun_ = true;
  }
  if (progress && !wait.has_value()) return OkStatus();  // go on where it was cut
  if (++failures_ > (begun_ ? kMaxFailuresLater : kMaxFailuresFirst)) return why;
  if (wait.has_value() && *wait > kMaxWait) return std::move(why).WithRetryAfter(*wait);
  std::chrono::milliseconds left = kFirstWait;
  for (int i = 1; i < failures_; ++i) left = std::min(left * 3, kMaxOwnWait);
  if (wait.has_value()) left = *wait;
  constexpr std::chrono::milliseconds kTurn{50};
  for (; left.count() > 0; left -= kTurn) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return Cancelled();
    std::this_thread::sleep_for(std::min(left, kTurn));
  }
  return OkStatus();
}

std::string NextLink(std::string_view header) {
  while (!header.empty()) {
    const size_t open = header.find('<'), close = header.find('>', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return "";
    const std::string_view target = header.substr(open + 1, close - open - 1);
    header.remove_prefix(close + 1);
    const std::string_view parameters = header.substr(0, header.find('<'));
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos)
      return std::string(target);
  }
  return "";
}

Status StatusOfAnswer(const HttpAnswer& answer, const std::string& name, bool had_token,
                      const std::string& page) {
  const std::string_view code = answer.Field("x-error-code");
  if (answer.status == 404 && code == "RevisionNotFound")
    return NotFound("hub_not_found", name + ": the hub has no such revision");
  if (answer.status == 404)
    return NotFound("hub_not_found", name + " is not on the hub; check the spelling at " + page);
  if (code == "GatedRepo" || answer.status == 403) {
    return Status(StatusCode::kPermissionDenied, "hub_denied",
                  name + " needs its terms accepted at " + page + ", and HF_TOKEN");
  }
  if (answer.status == 401) {
    std::string why = had_token ? ": the hub refuses the token; check HF_TOKEN"
                                : " is not on the hub, or it is private: set HF_TOKEN";
    return Status(StatusCode::kUnauthenticated, "hub_denied", name + why);
  }
  if (answer.status == 429)
    return ResourceExhausted("hub_busy", "the hub allows no further request now; try later");
  if (IsTransient(answer.status)) {
    return Unavailable("hub_unreachable",
                       answer.url + " answers with " + std::to_string(answer.status));
  }
  return Unavailable("hub_reply", answer.url + " answers with " + std::to_string(answer.status) +
                                      (code.empty() ? "" : ", " + Printable(code.substr(0, 64))));
}

struct Hub::Page {
  protocol::JsonDocument json;
  std::string next;  // URL of the next page
};

Result<Hub::Page> Hub::GetJson(const std::string& url, const HubName& name) {
  HttpRequest request;
  request.url = url;
  if (OriginOf(url) == OriginOf(settings_.endpoint)) request.token = settings_.token;
  request.limit = kReplyLimit;
  Retries retries;
  while (true) {
    TextBody body;
    Result<HttpAnswer> answer = http_.Get(request, &body);
    Status why = answer.status();
    std::optional<std::chrono::seconds> wait;
    if (answer.ok()) {
      if (answer->status == 200) {
        Result<protocol::JsonDocument> json = protocol::ParseJson(body.text, kMaxReplyValues);
        if (!json.ok())
          return BadReply("no JSON (" + json.status().message() + "); check HF_ENDPOINT");
        return Page{.json = *std::move(json), .next = NextLink(answer->Field("link"))};
      }
      why = StatusOfAnswer(*answer, name.ToString(), !settings_.token.empty(),
                           settings_.endpoint + "/" + name.repository);
      if (!IsTransient(answer->status)) return why;
      wait = answer->RetryAfter();
    } else if (why.reason() != "hub_unreachable") {
      return why;
    }
    RETURN_IF_ERROR(retries.Next(std::move(why), false, wait, http_.stop()));
  }
}

Result<HubRevision> Hub::List(const HubName& name) {
  const std::string model = settings_.endpoint + "/api/models/" + name.repository;
  HubRevision revision;
  {
    ASSIGN_OR_RETURN(
        const Page info,
        GetJson(model + "/revision/" + EscapePath(name.revision_or_main(), true), name));
    revision.commit = std::string(protocol::TextMember(info.json.root(), "sha"));
    if (!IsCommitHash(revision.commit)) return BadReply("the revision has no commit");
  }
  std::string url = model + "/tree/" + revision.commit + "?recursive=True&expand=False";
  for (size_t page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) return BadReply("the list of files has more than 200 pages");
    ASSIGN_OR_RETURN(const Page part, GetJson(url, name));
    RETURN_IF_ERROR(AddFileList(part.json.root(), &revision.files));
    url = part.next;
    if (url.starts_with('/')) url = settings_.endpoint + url;
    if (!url.empty() && OriginOf(url) != OriginOf(settings_.endpoint))
      return BadReply("its next page is on another host, " + PublicPartOf(url));
  }
  std::sort(revision.files.begin(), revision.files.end(),
            [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  const auto twice =
      std::adjacent_find(revision.files.begin(), revision.files.end(),
                         [](const HubFile& a, const HubFile& b) { return a.path == b.path; });
  if (twice != revision.files.end())
    return BadReply(Quote(twice->path, 128) + " is in the list of files twice");
  return revision;
}

std::string Hub::FileUrl(const std::string& repository, const std::string& commit,
                         const std::string& path) const {
  return settings_.endpoint + "/" + repository + "/resolve/" + commit + "/" + EscapePath(path);
}

}  // namespace tutti::models
