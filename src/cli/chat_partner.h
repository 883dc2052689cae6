// ChatPartner: answers the messages of `tutti chat`: a model in this process, or a server over HTTP
// or MQTT.
//
// Owned by the command; one call at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/config/settings.h"
#include "cli/generation.h"

namespace tutti::cli {

// Receives the pieces of an answer as they come.
struct AnswerSink {
  std::function<void(std::string_view)> text, reasoning;
};

class ChatPartner {
 public:
  virtual ~ChatPartner() = default;

  // The model and where it runs, for the first line: "smollm2-135m-instruct: llama Q4_1 on ...".
  virtual const std::string& introduction() const = 0;

  // Answers `messages`. `stopped` is called several times a second; returning true ends the answer
  // (reason cancelled). Other errors: those of the request, the server or the connection.
  virtual Status Answer(const std::vector<api::ChatMessage>& messages, const AnswerSink& sink,
                        const std::function<bool()>& stopped) = 0;

  // --- for partners that keep the dialog: of `messages`, Answer() sends only the last and the
  // system message. Returns the items of the dialog, also those of earlier runs; nothing: the
  // partner keeps none, and `messages` is the whole dialog.
  virtual Result<std::optional<std::vector<api::ChatMessage>>> History() {
    return std::optional<std::vector<api::ChatMessage>>();
  }
  // Deletes the dialog, and returns a text about it for the user.
  virtual Result<std::string> Forget() { return std::string("forgotten"); }
};

// Where the dialog with a local model is stored.
struct KeptDialog {
  std::string folder;   // of the store; "": in memory
  std::string session;  // its name
};
// Loads MODEL; blocking. Without `kept`, the dialog is the messages of each call. `settings` and
// `sampling` outlive the partner.
Result<std::unique_ptr<ChatPartner>> MakeLocalPartner(const std::string& model,
                                                      const app::Settings& settings,
                                                      const SamplingOptions& sampling,
                                                      const std::optional<KeptDialog>& kept);

// Calls the server at `url` for `model`, or for the first model that it lists. `sampling` outlives
// the partner.
Result<std::unique_ptr<ChatPartner>> MakeServerPartner(const std::string& url,
                                                       const std::string& model,
                                                       const std::string& api_key,
                                                       const SamplingOptions& sampling);

struct MqttPartnerOptions {
  std::string url;      // mqtt://HOST[:PORT] or mqtts://...
  std::string ca_file;  // PEM; empty: the system's authorities
  std::string project;  // empty: the native profile
  std::string user;     // empty: no user name is sent
  std::optional<std::string> password;
  std::string session;            // empty: a new one
  std::string prefix = "llm/v1";  // of the native profile
};
// Connects. `sampling` outlives the partner.
Result<std::unique_ptr<ChatPartner>> MakeMqttPartner(const MqttPartnerOptions& options,
                                                     const std::string& model,
                                                     const SamplingOptions& sampling);

}  // namespace tutti::cli
