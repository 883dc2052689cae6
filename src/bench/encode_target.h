// Targets of encoder benches: the engine in this process, or a server.
//
// A target is shared by all clients of a run; each client has a handle of its own, used by one
// thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "api/types.h"
#include "app/config/settings.h"
#include "app/local_inference.h"
#include "base/status.h"
#include "client/http_client.h"

namespace tutti::bench {

struct EncodeReply {
  int width = 0;
  std::vector<float> values;   // [texts][width]
  api::EncodeTimings timings;  // zero if the target does not report them
  int64_t tokens = 0;          // tokens of all texts; 0 if the target does not report them
};

// Time limit of one request to a server.
inline constexpr std::chrono::milliseconds kEncodePatience{60'000};

// The error for an invalid answer of a server.
inline Status BadAnswer(const std::string& what) {
  return Internal("the server's answer: " + what);
}

class EncodeClient {
 public:
  virtual ~EncodeClient() = default;
  virtual Result<EncodeReply> Encode(const std::vector<std::string>& texts) = 0;  // blocking
};

class EncodeTarget {
 public:
  virtual ~EncodeTarget() = default;
  virtual Result<std::unique_ptr<EncodeClient>> Connect() = 0;
  // Statistics since the target's start.
  virtual Result<api::ModelStatistics> Statistics() = 0;
  virtual const std::string& summary() const = 0;  // one line for people
  // Adds a hint for the user to a client's failure; may query the server.
  virtual Status Explain(Status failure) { return failure; }
};

// The options of a model in this process. `settings`: keys of the options table, as flags; decoders
// give vectors by default.
Result<app::Settings> EncodeSettings(const std::map<std::string, std::string>& settings);

// Loads `model` as the only one of `inference`; its summary.
Result<std::string> LoadEncoder(app::LocalInference& inference, const std::string& model);

// A model in this process, behind the inference API that every server uses. `settings`: keys of the
// options table, as flags; decoders give vectors by default. Errors: those of the options and the
// model.
Result<std::unique_ptr<EncodeTarget>> LoadEncodeTarget(
    const std::string& model, const std::map<std::string, std::string>& settings);

// /v1/embeddings of a server, with one kept connection for each client; statistics are read from
// /metrics. `model` empty: the first listed model that embeds. Errors: model_not_found, those of
// the request.
Result<std::unique_ptr<EncodeTarget>> HttpEncodeTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key);

// tutti.v1.Embed of a gRPC server. All clients share one channel, which is one connection. `model`
// empty: the server's first model that gives vectors.
class GrpcTarget : public EncodeTarget {
 public:
  virtual int connections() const = 0;  // current TCP connections of all clients together
  virtual std::string method() const { return "/tutti.v1.Tutti/Embed"; }
};
// `url`: "grpc://127.0.0.1:8081". Errors: invalid_value, unavailable.
Result<std::unique_ptr<GrpcTarget>> GrpcEncodeTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key);
// GrpcEncodeTarget() for a gRPC server in this process, with a model loaded in it.
Result<std::unique_ptr<GrpcTarget>> LoadGrpcTarget(
    const std::string& model, const std::map<std::string, std::string>& settings);

}  // namespace tutti::bench
