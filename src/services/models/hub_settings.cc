#include "services/models/hub_settings.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/ascii.h"
#include "base/text_file.h"
#include "base/url.h"

namespace tutti::models {
namespace {

constexpr uint64_t kMaxTokenFileBytes = 4096;

bool IsOn(const std::string& value) {
  const std::string lower = AsciiLower(value);
  return lower == "1" || lower == "on" || lower == "yes" || lower == "true";
}

// "~/x" -> "/home/me/x".
std::string WithHome(std::string path, const std::string& home) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home);
  return path;
}

std::string WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) - first + 1));
}

// A token is part of a header: one with other characters would end the header.
bool IsToken(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

HubSettings HubSettingsFrom(const std::function<std::string(const char*)>& variable,
                            const std::string& model_folder) {
  const auto first = [&](std::initializer_list<const char*> names) {
    for (const char* const name : names) {
      if (std::string text = variable(name); !text.empty()) return text;
    }
    return std::string();
  };
  HubSettings settings;
  const std::string home = variable("HOME");
  if (std::string endpoint = WithoutBlanks(variable("HF_ENDPOINT")); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    settings.endpoint = std::move(endpoint);
  }
  std::string hub_home = WithHome(variable("HF_HOME"), home);
  if (hub_home.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    hub_home = (cache.empty() ? home + "/.cache" : WithHome(cache, home)) + "/huggingface";
  }
  settings.cache_folder = WithHome(first({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}), home);
  if (settings.cache_folder.empty()) settings.cache_folder = hub_home + "/hub";
  settings.url_folder = model_folder + "/url";
  settings.ca_file = first({"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  settings.offline = IsOn(first({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  if (const auto seconds = ParseNumber<int>(variable("HF_HUB_DOWNLOAD_TIMEOUT"));
      seconds.has_value() && *seconds > 0)
    settings.patience = std::chrono::seconds(*seconds);

  std::string token = WithoutBlanks(first({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty() && !IsOn(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
    std::string path = WithHome(variable("HF_TOKEN_PATH"), home);
    if (path.empty()) path = hub_home + "/token";
    const Result<std::string> text = ReadTextFile(path, kMaxTokenFileBytes, "io_error");
    if (text.ok()) token = WithoutBlanks(*text);
  }
  Url url;
  const bool local = ParseUrl(settings.endpoint, &url) == UrlFault::kNone && IsLoopback(url.host);
  if (!IsToken(token)) {
    settings.remarks.emplace_back("the token has characters that no token has; it is not sent");
  } else if (!token.empty() && !settings.endpoint.starts_with("https://") && !local) {
    settings.remarks.emplace_back("HF_ENDPOINT is not https; the token is not sent");
  } else {
    settings.token = std::move(token);
  }
  return settings;
}

}  // namespace tutti::models
