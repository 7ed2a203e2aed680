// A collector for tests of `lockstep top` on a terminal. Answers with the ClientReply messages in a folder's JSON
// files. Prints its endpoint, and runs until it is killed.
#include <google/protobuf/util/json_util.h>
#include <poll.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "collector/wire/server.h"
#include "proto/wire.pb.h"

namespace {

using lockstep::ClientReply;
using lockstep::ClientRequest;
using lockstep::wire::Received;
using lockstep::wire::Server;

// Returns false if the file is missing or invalid.
bool Read(const std::string& path, ClientReply* reply) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return google::protobuf::util::JsonStringToMessage(text, reply).ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  lockstep::wire::ServerOptions options;
  options.endpoints = {"ipc://" + folder + "/collector.sock"};
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Bind(options);
  if (!server.ok()) return 1;
  printf("%s\n", (*server)->endpoints()[0].c_str());
  fflush(stdout);
  while (true) {
    pollfd fd{(*server)->fd(), POLLIN, 0};
    poll(&fd, 1, 100);
    while (std::optional<Received> received = (*server)->Receive()) {
      ClientRequest request;
      if (received->message.header.type != lockstep::wire::Type::kClientRequest ||
          !lockstep::wire::DecodeBody(received->message, &request).ok()) {
        continue;
      }
      const char* name = request.kind() == ClientRequest::STATUS ? "status"
                         : request.kind() == ClientRequest::DUMP ? "dump"
                         : request.has_rank()                    ? "rank"
                                                                 : "stacks";
      ClientReply reply;
      if (!Read(folder + "/" + name, &reply)) reply.set_error(std::string("no response for ") + name);
      reply.set_request(request.request());
      reply.set_done(true);
      (void)(*server)->Send(received->peer, *lockstep::wire::Encode(lockstep::wire::Type::kClientReply, reply));
    }
  }
}
