// A gRPC client for tests: any method, messages as bytes, everything that comes back. Blocking.
#pragma once

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::rpc::testing {

struct CallOptions {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::chrono::milliseconds timeout{120'000};  // of the call
  std::string compression;                     // "gzip", "deflate"
};

struct Outcome {
  int code = -1;
  std::string message, details;
  std::multimap<std::string, std::string> headers, trailers;  // headers: in front of messages

  bool ok() const { return code == 0; }
  std::string Header(const std::string& name) const { return First(headers, name); }
  std::string Trailer(const std::string& name) const { return First(trailers, name); }

 private:
  static std::string First(const std::multimap<std::string, std::string>& fields,
                           const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
};

class TestCall {
 public:
  virtual ~TestCall() = default;  // cancels what has not ended
  virtual bool Write(const google::protobuf::MessageLite& message) = 0;
  virtual bool WriteBytes(const std::string& message) = 0;
  virtual void WritesDone() = 0;
  // False at the end of the call.
  virtual bool Read(google::protobuf::MessageLite* message) = 0;
  virtual Outcome Finish() = 0;
  virtual void Cancel() = 0;
};

class TestClient {
 public:
  // PEM files of the client certificate.
  struct Identity {
    std::string cert, key;
  };
  // `certificate`: PEM of the authority to trust, for TLS. Each client has a connection of its own.
  explicit TestClient(int port, const std::string& certificate = "");
  TestClient(int port, const std::string& certificate, const Identity& own);
  ~TestClient();

  std::unique_ptr<TestCall> Start(const std::string& method, const CallOptions& options = {});
  Outcome Unary(const std::string& method, const google::protobuf::MessageLite& request,
                google::protobuf::MessageLite* response, const CallOptions& options = {});
  Outcome UnaryBytes(const std::string& method, const std::string& request,
                     google::protobuf::MessageLite* response, const CallOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::rpc::testing
