// All incidents of this process, and what every part of their gathering says about them.
#pragma once

#include <cstdint>
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

  // Adds an incident of the job, with a name and folder that no other has. `suffix`: of the folder's name.
  Gathering* Add(const Job& job, const std::string& suffix);
  // Adds an incident that an earlier process began.
  Gathering* Add(const IncidentState& state);
  Gathering* Find(const std::string& name);
  std::vector<Gathering*> All();
  bool gathering() const;  // an incident is not complete
  void Sweep();            // forgets old incidents

  // Runs `run` as a task, and then `done` on the core's thread, unless the core or the incident is gone.
  void WorkFor(Gathering* incident, CoreTask::Lane lane, std::function<void()> run,
               std::function<void(Gathering*)> done);
  // Logs each text once for an incident.
  void SayOnce(Gathering* incident, const std::string& text);
  // Tells the clients that asked for it, and all who watch the job.
  void Tell(Gathering* incident, const std::string& progress, bool done);
  // Runs the user's command for a declared hang or a confirmed desync. Called once the evidence is there, because the
  // action depends on it. The mark in the folder prevents a second call.
  void TellProgram(Gathering* incident);
  // Nothing of it can be kept.
  void Close(Gathering* incident);

  // What earlier processes declared, so that it is not declared again.
  std::vector<DeclaredBefore> before;

 private:
  CoreShared& shared_;
  JobTable& jobs_;
  Clients& clients_;
  std::map<std::string, std::unique_ptr<Gathering>> incidents_;  // by name; complete ones stay for a while
};

}  // namespace lockstep
