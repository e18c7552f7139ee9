// The limit: an ext_proc server in C++ that answers every message and does nothing else.
// usage: noop ADDRESS
#include <grpcpp/grpcpp.h>

#include <iostream>

#include "ext_proc.grpc.pb.h"

namespace ext_proc = envoy::service::ext_proc::v3;

namespace {

class Stream final
    : public grpc::ServerBidiReactor<ext_proc::ProcessingRequest, ext_proc::ProcessingResponse> {
 public:
  Stream() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    response_.Clear();
    switch (request_.request_case()) {
      case ext_proc::ProcessingRequest::kRequestHeaders:
        response_.mutable_request_headers();
        break;
      case ext_proc::ProcessingRequest::kRequestBody:
        response_.mutable_request_body();
        break;
      case ext_proc::ProcessingRequest::kResponseHeaders:
        response_.mutable_response_headers();
        break;
      default:
        response_.mutable_response_body();
    }
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&request_);
  }

  void OnDone() override { delete this; }

 private:
  ext_proc::ProcessingRequest request_;
  ext_proc::ProcessingResponse response_;
};

class Service final : public ext_proc::ExternalProcessor::CallbackService {
  grpc::ServerBidiReactor<ext_proc::ProcessingRequest, ext_proc::ProcessingResponse>* Process(
      grpc::CallbackServerContext*) override {
    return new Stream;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: noop ADDRESS\n";
    return 2;
  }
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  server->Wait();
}
