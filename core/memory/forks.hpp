// Locks across fork(): the child begins between two calls, never in the middle of one.
//
// A child has one thread, so a lock that another thread of the parent held would stay taken there for ever, and what it
// protected could be half changed. Therefore all locks are taken before a fork, in the order in which their owners were
// made, and in the child they are made anew.
#pragma once

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define RELIVE_FORKS 1
#endif

namespace relive {

// Something with locks. Whoever holds one of them waits for nothing that was made before it, and never for the GIL.
class Forkable {
 public:
  Forkable(const Forkable&) = delete;
  Forkable& operator=(const Forkable&) = delete;

 protected:
  Forkable() {
    Everyone& everyone = all();
    std::lock_guard<std::mutex> alone(everyone.mutex);
    everyone.members.push_back(this);
  }
  virtual ~Forkable() {
    Everyone& everyone = all();
    std::lock_guard<std::mutex> alone(everyone.mutex);
    auto& members = everyone.members;
    members.erase(std::find(members.begin(), members.end(), this));
  }

  virtual void before_fork() = 0;       // take the locks
  virtual void after_fork() = 0;        // in the parent: let go of them
  virtual void after_fork_child() = 0;  // in the child: make them anew, and leave to the parent what is the parent's

  // In the child a lock cannot be let go of: some know which thread took them.
  template <class Lock>
  static void renew(Lock& lock) {
    new (&lock) Lock;
  }

 private:
  struct Everyone {
    std::mutex mutex;
    std::vector<Forkable*> members;
  };

  static Everyone& all() {
    static Everyone* everyone = [] {
#ifdef RELIVE_FORKS
      pthread_atfork(
          [] {
            all().mutex.lock();
            for (Forkable* member : all().members) member->before_fork();
          },
          [] {
            for (Forkable* member : all().members) member->after_fork();
            all().mutex.unlock();
          },
          [] {
            for (Forkable* member : all().members) member->after_fork_child();
            renew(all().mutex);
          });
#endif
      return new Everyone;  // never destroyed: the last fork may come after the last destructor
    }();
    return *everyone;
  }
};

}  // namespace relive
