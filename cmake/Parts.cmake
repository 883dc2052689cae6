# Parts of the program that a build may leave out, each with an option TUTTI_<PART>. The rest behaves the same. A request for a
# missing part fails and names the option. Tests are built with all parts only.
#
# grpc: the gRPC server, frontends, and workers without a broker.
# mqtt: the MQTT listener, the client of an MQTT broker, and `tutti chat --mqtt`.
# rabbitmq: workers through RabbitMQ; through Redis they stay.
# bench: `tutti bench`, which measures the others and needs them.
set(TUTTI_PARTS grpc mqtt rabbitmq bench)
set(TUTTI_WITHOUT)
foreach(part ${TUTTI_PARTS})
  string(TOUPPER ${part} upper)
  set(default ON)
  if(part STREQUAL "bench" AND TUTTI_WITHOUT)
    set(default OFF)
  endif()
  option(TUTTI_${upper} "Build the part ${part} (cmake/Parts.cmake)" ${default})
  if(NOT TUTTI_${upper})
    list(APPEND TUTTI_WITHOUT ${part})
    message(STATUS "Without ${part}")
  endif()
endforeach()
if(TUTTI_BENCH AND TUTTI_WITHOUT)
  message(FATAL_ERROR "TUTTI_BENCH measures all parts, and ${TUTTI_WITHOUT} is left out: leave TUTTI_BENCH out too")
endif()
