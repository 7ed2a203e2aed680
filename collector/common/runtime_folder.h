// The folder in which the agent and the collector of this host leave word for the tools: where the collector is.
#ifndef LOCKSTEP_COLLECTOR_COMMON_RUNTIME_FOLDER_H_
#define LOCKSTEP_COLLECTOR_COMMON_RUNTIME_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// $LOCKSTEP_RUNTIME_DIR, else /run/lockstep as root, else $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-UID.
std::string RuntimeFolderPath();
// Folders of services, which a host's root or init made, in the order to ask them: /run/lockstep-collector,
// /run/lockstep (agent).
std::vector<std::string> ServiceFolders();
// RuntimeFolderPath, made when it is missing (0700; root's /run/lockstep 0755: what lies there for all to read are an
// endpoint and the place of a public key). Fails when it belongs to somebody else, is a link, or others may write to
// it; the message says what to do.
absl::StatusOr<std::string> MakeRuntimeFolder();
// The check alone, of any folder.
absl::Status CheckPrivateFolder(const std::string& path);

// "ipc://FOLDER/NAME", or why no socket can be there.
absl::StatusOr<std::string> SocketIn(const std::string& folder, const std::string& name);

// How the collector is reached from this host: the file `collector` of the runtime folder, lines "endpoint ENDPOINT"
// and, where keys are used, "server-key PATH" (its public key). Later versions may add lines.
struct CollectorPlace {
  std::string endpoint;
  std::string server_key;  // empty: without keys
  unsigned user = 0;       // read: who wrote it
};
// For all to read where all may look into the folder.
absl::Status WriteCollectorPlace(const std::string& folder, const CollectorPlace& place);
// Believes the caller's own folder, root's, and those of services, as long as their owner alone may write there.
// NotFound when there is no such file; PermissionDenied when it may not be read; FailedPrecondition when folder or file
// cannot be trusted or understood.
absl::StatusOr<CollectorPlace> ReadCollectorPlace(const std::string& folder);
// Removes the file when it still says this endpoint.
void RemoveCollectorPlace(const std::string& folder, const std::string& endpoint);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_RUNTIME_FOLDER_H_
