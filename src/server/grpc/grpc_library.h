// The gRPC library, for the two sources that use it (grpc_server.cc, reactor.cc). A library below
// it defines macros that base/mutex.h defines too: ours stay what they are where that was included
// before, in this file or in one that is compiled with it.
#pragma once

#pragma push_macro("GUARDED_BY")
#pragma push_macro("NO_THREAD_SAFETY_ANALYSIS")
#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

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

#pragma pop_macro("NO_THREAD_SAFETY_ANALYSIS")
#pragma pop_macro("GUARDED_BY")
