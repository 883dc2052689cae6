// HubSettings: where the hub and its cache are, from the environment variables that the
// huggingface_hub package reads.
//
// A value, constant after construction; any thread. Source: huggingface_hub, constants.py.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tutti::models {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at the end
  std::string token;         // HF_TOKEN, or the file HF_TOKEN_PATH ($HF_HOME/token); empty: none
  std::string cache_folder;  // HF_HUB_CACHE, else $HF_HOME/hub
  std::string url_folder;    // of models that were pulled from a plain URL
  std::string ca_file;       // SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE
  bool offline = false;      // HF_HUB_OFFLINE
  // HF_HUB_DOWNLOAD_TIMEOUT: longest time without a byte.
  std::chrono::seconds patience{20};
  std::string user_agent = "tutti";
  std::vector<std::string> remarks;  // of values that were not used
};

// `variable` returns a variable's text, "" where it is not set. Reads the token file.
// `model_folder` holds the models of Tutti's own cache.
HubSettings HubSettingsFrom(const std::function<std::string(const char*)>& variable,
                            const std::string& model_folder);

}  // namespace tutti::models
