// The gRPC library, for the two sources that use it (grpc_door.cc, reactor.cc). Comes before any
// header of ours: a library below it defines macros that base/mutex.h defines too.
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/proto_buffer_reader.h>

#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS
