#include "tests/standin/nccl/meeting.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace standin {

namespace {

constexpr uint64_t kFixedMagic = 0x0280028002800280;

// Uses an abstract socket named after the address, which leaves no file behind.
socklen_t Address(sockaddr_un* to) {
  *to = {};
  to->sun_family = AF_UNIX;
  const int length = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "standin-%d-%s", static_cast<int>(getuid()),
                              getenv("NCCL_COMM_ID"));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                std::min<size_t>(static_cast<size_t>(length), sizeof to->sun_path - 1));
}

ncclResult_t Listen(ncclComm& comm, int others, const IdContent& id) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t length = Address(&address);
  if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(socket, 512) != 0) {
    close(socket);
    return ncclSystemError;
  }
  while (others > 0 && !comm.aborted.load()) {
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, 20) != 1) {
      continue;
    }
    const int one = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    others -= one >= 0 && send(one, &id, sizeof id, MSG_NOSIGNAL) == sizeof id ? 1 : 0;
    close(one);
  }
  close(socket);
  return others == 0 ? ncclSuccess : ncclInternalError;
}

ncclResult_t Connect(ncclComm& comm, IdContent* id) {
  sockaddr_un address;
  const socklen_t length = Address(&address);
  while (!comm.aborted.load()) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool met = connect(socket, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     recv(socket, id, sizeof *id, 0) == sizeof *id;
    close(socket);
    if (met) {
      return ncclSuccess;
    }
    usleep(5000);
  }
  return ncclInternalError;
}

}  // namespace

bool FixedId(IdContent* id) {
  if (!getenv("NCCL_COMM_ID")) {
    return false;
  }
  *id = {kFixedMagic, 0, -1};
  return true;
}

ncclResult_t Meet(ncclComm& comm, int nranks, int rank, IdContent* id) {
  if (rank != 0) {
    return Connect(comm, id);
  }
  const ncclResult_t made = Segment::NewId(id);
  return made == ncclSuccess ? Listen(comm, nranks - 1, *id) : made;
}

}  // namespace standin
