// The static `lockstep`: one program that contains every command except the viewer and needs no other file.
// cmake/LockstepStatic.cmake renames each command's main().
#include <netdb.h>
#include <nss.h>

#include "collector/common/own_programs.h"
#include "collector/tools/front.h"

extern "C" {
int lockstep_agent_main(int, char**);
int lockstep_analyze_main(int, char**);
int lockstep_attach_main(int, char**);
int lockstep_check_main(int, char**);
int lockstep_clean_main(int, char**);
int lockstep_collector_main(int, char**);
int lockstep_config_main(int, char**);
int lockstep_doctor_main(int, char**);
int lockstep_dump_main(int, char**);
int lockstep_evidence_main(int, char**);
int lockstep_export_main(int, char**);
int lockstep_keygen_main(int, char**);
int lockstep_mcp_main(int, char**);
int lockstep_replay_main(int, char**);
int lockstep_run_main(int, char**);
int lockstep_serve_main(int, char**);
int lockstep_top_main(int, char**);

// This function exists in glibc, also in its static library, but nss.h does not always declare it.
int __nss_configure_lookup(const char* database, const char* services);
}

int main(int argc, char** argv) {
  // Other sources for names are shared libraries of the host's glibc. These two are inside this program.
  __nss_configure_lookup("hosts", "files dns");
  for (const char* database : {"passwd", "group", "services", "protocols", "networks"})
    __nss_configure_lookup(database, "files");
  lockstep::DeclareEveryVerb();
  return lockstep::Front(argc, argv,
                         {{"agent", lockstep_agent_main},
                          {"analyze", lockstep_analyze_main},
                          {"attach", lockstep_attach_main},
                          {"check", lockstep_check_main},
                          {"clean", lockstep_clean_main},
                          {"collector", lockstep_collector_main},
                          {"config", lockstep_config_main},
                          {"doctor", lockstep_doctor_main},
                          {"dump", lockstep_dump_main},
                          {"evidence", lockstep_evidence_main},
                          {"export", lockstep_export_main},
                          {"keygen", lockstep_keygen_main},
                          {"mcp", lockstep_mcp_main},
                          {"replay", lockstep_replay_main},
                          {"run", lockstep_run_main},
                          {"serve", lockstep_serve_main},
                          {"top", lockstep_top_main}});
}
