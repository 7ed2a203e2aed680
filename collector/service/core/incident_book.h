// All incidents of this process, and the functions that the classes for gathering evidence and rings share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collector/service/core/clients.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/open_incident.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class IncidentBook {
 public:
  IncidentBook(CoreShared* shared, JobTable* jobs, Clients* clients)
      : shared_(*shared), jobs_(*jobs), clients_(*clients) {}

  // Adds an incident of the job, with a unique name and folder. `suffix` is appended to the folder's name.
  Gathering* Add(const Job& job, const std::string& suffix);
  // Adds an incident that an earlier process began.
  Gathering* Add(const IncidentState& state);
  Gathering* Find(const std::string& name);
  std::vector<Gathering*> All();
  bool gathering() const;  // whether any incident is incomplete
  void Sweep();            // forgets old incidents

  // Runs `run` as a task and then `done` on the core's thread, unless the core or the incident is gone.
  void WorkFor(Gathering* incident, CoreTask::Lane lane, std::function<void()> run,
               std::function<void(Gathering*)> done);
  // Logs each text once per incident.
  void SayOnce(Gathering* incident, const std::string& text);
  // Sends the incident to clients that requested it (`done`: for the last time), and to clients that watch the job.
  void Tell(Gathering* incident, const std::string& progress, bool done);
  // Runs the command of --on-verdict for a declared hang or a confirmed desync. Call once the verdict includes the
  // evidence. A mark in the folder prevents a second run.
  void TellProgram(Gathering* incident);
  // Stops gathering the incident; nothing more is stored for it.
  void Close(Gathering* incident);

  // Hangs and desyncs that earlier processes declared, to avoid declaring them again.
  std::vector<DeclaredBefore> before;

 private:
  CoreShared& shared_;
  JobTable& jobs_;
  Clients& clients_;
  std::map<std::string, std::unique_ptr<Gathering>> incidents_;  // indexed by name; complete ones stay for a while
};

}  // namespace lockstep
