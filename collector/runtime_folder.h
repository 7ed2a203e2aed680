// The folder in which the agent and the collector of this host leave word for the tools: where the collector is.
#ifndef LOCKSTEP_COLLECTOR_RUNTIME_FOLDER_H_
#define LOCKSTEP_COLLECTOR_RUNTIME_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// $LOCKSTEP_RUNTIME_DIR, else /run/lockstep as root, else $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-UID.
std::string RuntimeFolderPath();
// The same, made (0700) when it is missing. Fails when it belongs to somebody else, is a link, or others may write to
// it; the message says what to do.
absl::StatusOr<std::string> MakeRuntimeFolder();
// The check alone, of any folder.
absl::Status CheckPrivateFolder(const std::string& path);

// How the collector is reached from this host: the file `collector` of the runtime folder, lines "endpoint ENDPOINT" and,
// where keys are used, "server-key PATH" (its public key). Later versions may add lines.
struct CollectorPlace {
  std::string endpoint;
  std::string server_key;  // empty: without keys
};
absl::Status WriteCollectorPlace(const std::string& folder, const CollectorPlace& place);
// NotFound when there is no such file; FailedPrecondition when folder or file cannot be trusted or understood.
absl::StatusOr<CollectorPlace> ReadCollectorPlace(const std::string& folder);
// Removes the file when it still says this endpoint.
void RemoveCollectorPlace(const std::string& folder, const std::string& endpoint);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RUNTIME_FOLDER_H_
