// gRPC over HTTP/2, as far as one unary call needs it: the frame around a message, the status in the
// trailers, and what OTLP specifies for each status.
//
// A gRPC library would bring HTTP/2, TLS and its own name resolution once more (libgrpc++ brings 47 shared
// libraries of 10 MiB); libcurl has them, and is what the other protocol uses.
#pragma once

#include <string>
#include <string_view>

#include "export/judgement.hpp"

namespace vitrine::exporter::grpc {

/// A gzipped message as the body of a request: 1, its length in four bytes (big-endian), and it.
std::string framed(std::string_view gzipped);

/// Takes a line of the head or of the trailers, if it is one of gRPC's.
void take_header(Response& response, std::string_view line);

/// By the rules of OTLP over gRPC.
Judgement judge(const Response& response);

}  // namespace vitrine::exporter::grpc
