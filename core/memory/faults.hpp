// Files that are cut short while they are mapped.
//
// Touching a page that is no longer there raises SIGBUS, which would end the process. The bytes of a guarded mapping are
// then replaced by zeros of our own, and `lost` says so to whoever looks afterwards. Other faults go to whoever handled
// them before. Programs that take the signal over later (Ray does when it starts) are noticed with the next mapping, or
// by `look_again`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>
#include <sys/mman.h>
#define RELIVE_FAULTS 1
#endif

namespace relive {

struct Guard {
  std::atomic<char*> begin{nullptr}, end{nullptr};
  std::atomic<bool> lost{false};
  Guard* next = nullptr;  // set before it is published
};

#ifdef RELIVE_FAULTS
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
  // Handles the signal again if somebody else has taken it over since the first mapping.
  static void look_again() {
    std::lock_guard<std::mutex> alone(mutex());
    if (first().load() != nullptr) install();
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
  static std::atomic<const struct sigaction*>& before() {
    static std::atomic<const struct sigaction*> one{nullptr};
    return one;
  }
  // The foreign fault that was passed on last, whether that goes on, and how often it came back unmended.
  struct Passed {
    std::atomic<char*> at{nullptr};
    std::atomic<bool> now{false};
    std::atomic<int> times{0};
  };
  static Passed& passed() {
    static Passed one;
    return one;
  }

  static void install() {
    first(), passed();  // a handler must not be the first to use them
    struct sigaction now {};
    sigaction(SIGBUS, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle) return;
    before().store(new struct sigaction(now));  // never freed: a handler may be looking at it
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
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
    pass_on(number, info, context, at);
  }

  // One that took the signal over from us gives it back to us, by raising it or by returning: that must not go on for
  // ever.
  static void pass_on(int number, siginfo_t* info, void* context, char* at) {
    constexpr int kTimes = 8;
    const bool raised = info->si_code <= 0;
    Passed& last = passed();
    if (!raised && last.at.exchange(at) != at) last.times.store(0);
    const struct sigaction& other = *before().load();
    const bool plain = !(other.sa_flags & SA_SIGINFO);
    if (raised && plain && other.sa_handler == SIG_IGN) return;
    if ((raised && last.now.load()) || last.times.load() >= kTimes ||
        (plain && (other.sa_handler == SIG_DFL || other.sa_handler == SIG_IGN))) {
      signal(number, SIG_DFL);
      if (raised) raise(number);  // otherwise the same instruction faults again
      return;
    }
    last.now.store(!raised);
    plain ? other.sa_handler(number) : other.sa_sigaction(number, info, context);
    last.now.store(false);
    last.times.fetch_add(1);
  }
};
#endif

}  // namespace relive
