// Files that are cut short while they are mapped.
//
// Touching a page that is no longer there raises SIGBUS, which would end the process. The bytes of a guarded mapping are
// then replaced by zeros of our own, and `lost` says so to whoever looks afterwards. Other faults go to whoever handled
// them before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>
#include <sys/mman.h>
#define RECOLLECT_FAULTS 1
#endif

namespace recollect {

struct Guard {
  std::atomic<char*> begin{nullptr}, end{nullptr};
  std::atomic<bool> lost{false};
  Guard* next = nullptr;  // set before it is published
};

#ifdef RECOLLECT_FAULTS
class Guards {
 public:
  static Guard* watch(char* begin, std::size_t bytes) {
    std::lock_guard<std::mutex> alone(mutex());
    install();
    Guard* guard = first().load();
    while (guard != nullptr && guard->begin.load() != nullptr) guard = guard->next;
    if (guard == nullptr) {
      guard = new Guard;  // never freed: a handler may be looking at it
      guard->next = first().load();
      first().store(guard);
    }
    guard->lost.store(false);
    guard->end.store(begin + bytes);
    guard->begin.store(begin);
    return guard;
  }
  static void forget(Guard* guard) {
    std::lock_guard<std::mutex> alone(mutex());
    guard->begin.store(nullptr);
  }

 private:
  static std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
  }
  static std::atomic<Guard*>& first() {
    static std::atomic<Guard*> one{nullptr};
    return one;
  }
  static struct sigaction& before() {
    static struct sigaction one {};
    return one;
  }

  static void install() {
    static bool installed = false;
    if (installed) return;
    installed = true;
    first();
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before());
  }

  static void handle(int number, siginfo_t* info, void* context) {
    auto* at = static_cast<char*>(info->si_addr);
    for (Guard* guard = first().load(); guard != nullptr; guard = guard->next) {
      char *begin = guard->begin.load(), *end = guard->end.load();
      if (begin == nullptr || at < begin || at >= end) continue;
      guard->lost.store(true);
      const void* zeros = mmap(begin, static_cast<std::size_t>(end - begin), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (zeros != MAP_FAILED) return;
    }
    const struct sigaction& other = before();
    if (other.sa_flags & SA_SIGINFO) {
      other.sa_sigaction(number, info, context);
    } else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) {
      other.sa_handler(number);
    } else {
      signal(number, SIG_DFL);  // and the same instruction faults again
    }
  }
};
#endif

}  // namespace recollect
