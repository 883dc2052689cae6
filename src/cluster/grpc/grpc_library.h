// The gRPC library, for the two sources of this folder that use it (frontend_port.cc,
// worker_link.cc). A library below it defines macros that base/mutex.h defines too: ours stay what
// they are, if that was included before, in this file or in one that is compiled with it.
#pragma once

#pragma push_macro("GUARDED_BY")
#pragma push_macro("NO_THREAD_SAFETY_ANALYSIS")
#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

#include <grpc/support/log.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/proto_buffer_reader.h>

#pragma pop_macro("NO_THREAD_SAFETY_ANALYSIS")
#pragma pop_macro("GUARDED_BY")

namespace tutti::cluster {

inline constexpr char kAttachMethod[] = "/tutti.v1.Workers/Attach";

inline grpc::ByteBuffer Serialised(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer buffer;
  bool own = false;
  (void)grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
      message, &buffer, &own);  // of our own message: it always fits
  return buffer;
}

// Takes what is in the buffer.
inline bool Parse(grpc::ByteBuffer* buffer, google::protobuf::MessageLite* message) {
  return grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::MessageLite>(buffer,
                                                                                          message)
      .ok();
}

}  // namespace tutti::cluster
