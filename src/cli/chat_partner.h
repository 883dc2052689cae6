// ChatPartner: who answers in `tutti chat`: a model in this process, or a server over HTTP or MQTT.
//
// Owner and thread: the command, one call at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/settings.h"
#include "cli/sampling_options.h"

namespace tutti::cli {

// Where the pieces of an answer go, as they come.
struct AnswerSink {
  std::function<void(std::string_view)> text, reasoning;
};

class ChatPartner {
 public:
  virtual ~ChatPartner() = default;

  // Who it is, for the first line: "smollm2-135m-instruct: llama Q4_1 on ...".
  virtual const std::string& introduction() const = 0;

  // The answer to `messages`. `stopped` is asked several times a second; true ends the answer
  // (reason cancelled). Other errors: those of the request, the server or the way to it.
  virtual Status Answer(const std::vector<api::ChatMessage>& messages, const AnswerSink& sink,
                        const std::function<bool()>& stopped) = 0;

  // --- of one that keeps the dialog itself: of `messages` it asks the last and the system message
  // What was said, also by an earlier run; nothing: it keeps none, and the messages are all.
  virtual Result<std::optional<std::vector<api::ChatMessage>>> History() {
    return std::optional<std::vector<api::ChatMessage>>();
  }
  // Forgets it, and says what that means.
  virtual Result<std::string> Forget() { return std::string("forgotten"); }
};

// Where a dialog with a local model is kept.
struct KeptDialog {
  std::string folder;   // of the store; "": in memory
  std::string session;  // its name
};
// Loads MODEL; blocking. `kept`: empty, and the dialog is the messages that are asked with.
// `settings` and `sampling` outlive the partner.
Result<std::unique_ptr<ChatPartner>> MakeLocalPartner(const std::string& model,
                                                      const app::Settings& settings,
                                                      const SamplingOptions& sampling,
                                                      const std::optional<KeptDialog>& kept);

// Asks the server at `url` for `model`, or for the first it lists. `sampling` outlives the partner.
Result<std::unique_ptr<ChatPartner>> MakeServerPartner(const std::string& url,
                                                       const std::string& model,
                                                       const std::string& api_key,
                                                       const SamplingOptions& sampling);

struct MqttPartnerOptions {
  std::string url;      // mqtt://HOST[:PORT] or mqtts://...
  std::string ca_file;  // PEM; empty: the system's authorities
  std::string project;  // empty: the native profile
  std::string user;     // empty: none is told
  std::optional<std::string> password;
  std::string session;            // empty: a new one
  std::string prefix = "llm/v1";  // of the native profile
};
// Connects. `sampling` outlives the partner.
Result<std::unique_ptr<ChatPartner>> MakeMqttPartner(const MqttPartnerOptions& options,
                                                     const std::string& model,
                                                     const SamplingOptions& sampling);

}  // namespace tutti::cli
