// The folder in which this host's agent and collector publish the collector's address for the tools.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// $LOCKSTEP_RUNTIME_DIR, else /run/lockstep as root, else $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-UID.
std::string RuntimeFolderPath();
// Folders of services, which root or init created, in search order: /run/lockstep-collector, /run/lockstep (agent).
std::vector<std::string> ServiceFolders();
// RuntimeFolderPath, created if missing (0700; root's /run/lockstep 0755, because everybody may read endpoints and the
// path of a public key). Fails if it has another owner, is a link, or others may write to it; the message says what to
// do.
absl::StatusOr<std::string> MakeRuntimeFolder();
// Only the check, for any folder.
absl::Status CheckPrivateFolder(const std::string& path);

// "ipc://FOLDER/NAME", or why a socket cannot be there.
absl::StatusOr<std::string> SocketIn(const std::string& folder, const std::string& name);

// The collector's address for this host, in the file `collector` of the runtime folder. It has a line "endpoint
// ENDPOINT" and, with keys, a line "server-key PATH" (the collector's public key). Later versions may add lines.
struct CollectorPlace {
  std::string endpoint;
  std::string server_key;  // empty if there are no keys
  unsigned user = 0;       // user of the writer
};
// The file is readable by all users who can enter the folder.
absl::Status WriteCollectorPlace(const std::string& folder, const CollectorPlace& place);
// Trusts the caller's own folder, root's, and those of services, as long as only their owner may write there. NotFound
// without such a file; PermissionDenied if it is unreadable; FailedPrecondition if folder or file cannot be trusted or
// understood.
absl::StatusOr<CollectorPlace> ReadCollectorPlace(const std::string& folder);
// Removes the file if it still has this endpoint.
void RemoveCollectorPlace(const std::string& folder, const std::string& endpoint);

}  // namespace lockstep
