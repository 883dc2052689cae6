// What an encoder bench puts load on: the engine in this process, or a server.
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
#include "base/status.h"
#include "client/http_client.h"

namespace tutti::bench {

struct EncodeReply {
  int width = 0;
  std::vector<float> values;   // [texts][width]
  api::EncodeTimings timings;  // zero where the target does not tell
  int64_t tokens = 0;          // read of all texts; 0 where the target does not tell
};

// How long a server may keep one request.
inline constexpr std::chrono::milliseconds kEncodePatience{60'000};

// An answer of a server that is not what it should be.
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
  // Since the target's start.
  virtual Result<api::ModelStatistics> Statistics() = 0;
  virtual const std::string& summary() const = 0;  // one line for people
  // A client's failure with what its user could do about it; may ask the server.
  virtual Status Explain(Status failure) { return failure; }
};

// The model loaded in this process, behind the waist that every door uses. `settings`: keys of the
// options table, as flags; decoders give vectors unless they say otherwise. Errors: of the options
// and the model.
Result<std::unique_ptr<EncodeTarget>> LoadEncodeTarget(
    const std::string& model, const std::map<std::string, std::string>& settings);

// /v1/embeddings of a server, one kept connection for each client; its own statistics are read from
// /metrics. `model` empty: the first of its list that embeds. Errors: model_not_found, those of
// the request.
Result<std::unique_ptr<EncodeTarget>> HttpEncodeTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key);

// tutti.v1.Embed of a gRPC server: all clients share one channel, which is one connection.
// `model` empty: the server's first that gives vectors.
class GrpcTarget : public EncodeTarget {
 public:
  virtual int connections() const = 0;  // TCP, of all clients together, now
};
// `url`: "grpc://127.0.0.1:8081". Errors: invalid_value, unavailable.
Result<std::unique_ptr<GrpcTarget>> GrpcEncodeTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key);
// The same to a door of this process, in front of a model loaded in it.
Result<std::unique_ptr<GrpcTarget>> LoadGrpcTarget(
    const std::string& model, const std::map<std::string, std::string>& settings);

}  // namespace tutti::bench
