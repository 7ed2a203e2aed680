// The folder in which this host's agent and collector publish the collector's address for the tools.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// $LOCKSTEP_RUNTIME_DIR, else /run/lockstep as root, else $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-UID.
std::string RuntimeFolderPath();
// Folders of services, created by root or init, in search order: /run/lockstep-collector, /run/lockstep (agent).
std::vector<std::string> ServiceFolders();
// Returns RuntimeFolderPath and creates the folder if missing. Its mode is 0700, but root's /run/lockstep has 0755,
// because everybody may read endpoints and the path of a public key. Fails if the folder has another owner, is a link,
// or others can write to it. The message explains how to fix it.
absl::StatusOr<std::string> MakeRuntimeFolder();
// Performs only the checks of MakeRuntimeFolder, for any folder.
absl::Status CheckPrivateFolder(const std::string& path);

// Returns "ipc://FOLDER/NAME", or why no socket can be created there.
absl::StatusOr<std::string> SocketIn(const std::string& folder, const std::string& name);

// The collector's address for this host, in the file `collector` of the runtime folder. It has a line "endpoint
// ENDPOINT" and, with keys, a line "server-key PATH" (the collector's public key). Later versions may add lines.
struct CollectorPlace {
  std::string endpoint;
  std::string server_key;  // empty if there are no keys
  unsigned user = 0;       // owner of the folder
};
// The file is readable by all users who can enter the folder.
absl::Status WriteCollectorPlace(const std::string& folder, const CollectorPlace& place);
// Trusts folders of the caller, of root and of services, if only their owner can write there. Returns NotFound if there
// is no file, PermissionDenied if it is unreadable, and FailedPrecondition if the folder or the file cannot be trusted
// or parsed.
absl::StatusOr<CollectorPlace> ReadCollectorPlace(const std::string& folder);
// Removes the file if it still contains this endpoint.
void RemoveCollectorPlace(const std::string& folder, const std::string& endpoint);

}  // namespace lockstep
