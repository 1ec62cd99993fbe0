// A timeline and the locks around it.
//
// What `lock` protects, exclusively for whoever writes and shared by whoever reads:
//   - the timeline's index (heads, tails, episodes), its version, what is held and what logs;
//   - rows and flags below every head that the index knows.
// Whenever nobody holds it exclusively these are true:
//   1. the index describes the flags: every row in [tail, head) is a step or a closing row of a whole or open episode;
//   2. the version is another than at any earlier time at which the index was another, so that readers who work with
//      anchors of this version work with anchors of this index;
//   3. rows that are held lie where they lay when they were.
// A block longer than half a lane is appended in chunks, and may wait between two of them for a save to let go of rows. Each
// chunk leaves the three true; `midway` keeps other writers out of the block until its last one.
//
// Order: gate, lock, then a reader's own mutex. Nobody who holds one of them waits for the GIL.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "memory/forks.hpp"
#include "memory/timeline.hpp"
#include "memory/trouble.hpp"

namespace relive {

class Shelf final : public Forkable {
 public:
  template <class... Args>
  explicit Shelf(Args&&... args) : timeline(std::forward<Args>(args)...) {}

  template <class Work>
  auto read(const Work& work) {
    if (timeline.others()) write([&] { timeline.catch_up(); });
    { std::lock_guard<std::mutex> turn(gate_); }  // behind a writer that waits: readers that overlap would starve it
    std::shared_lock<std::shared_mutex> reading(lock_);
    return checked(work);
  }
  // Changes what does not touch a block that is being appended.
  template <class Work>
  void write(const Work& work) {
    std::lock_guard<std::mutex> turn(gate_);
    std::lock_guard<std::shared_mutex> writing(lock_);
    checked(work);
  }
  // Appends, once no row that it overwrites is held.
  void append(const Steps& steps) {
    write_once([] { return true; }, [&](Turn& turn) {
      const Midway block{*this};
      timeline.append(steps, [&] {
        midway_ = true;
        turn.wait();
      });
    });
  }
  // Appends if that can be done at once, without waiting and without a system call; false, and nothing was done, if not.
  bool append_at_once(const Steps& steps) {
    if (!lock_.try_lock()) return false;
    std::lock_guard<std::shared_mutex> writing(lock_, std::adopt_lock);
    if (midway_ || timeline.holding() || timeline.logging()) return false;
    checked([&] { timeline.append(steps, [] {}); });
    return true;
  }
  // Appends rows of another timeline, once no row that they overwrite is held; false if they do not go on where the lane ends.
  bool receive(std::int64_t lane, std::int64_t serial, std::int64_t count, const std::uint8_t* flags,
               const std::vector<Source>& sources) {
    bool received = false;
    write_once([] { return true; }, [&](Turn& turn) {
      const Midway block{*this};
      received = timeline.receive(lane, serial, count, flags, sources, [&] {
        midway_ = true;
        turn.wait();
      });
    });
    return received;
  }
  // Cuts a lane, once its rows are not held.
  void cut(std::int64_t lane) {
    write_once([&] { return !timeline.holding(); }, [&](Turn&) { timeline.cut(lane); });
  }
  // Forgets old rows of a lane, once they are not held.
  void forget(std::int64_t lane, std::int64_t before) {
    write_once([&] { return !timeline.holds(lane, before); }, [&](Turn&) { timeline.forget(lane, before); });
  }
  void clear() {
    write_once([] { return true; }, [&](Turn&) { timeline.clear(); });
  }
  // Changes what is held and wakes who waits for it.
  template <class Work>
  void release(const Work& work) {
    {
      std::lock_guard<std::mutex> turn(gate_);
      std::lock_guard<std::shared_mutex> writing(lock_);
      work();  // also when the file is gone: whoever waits is to find that out
    }
    released_.notify_all();
  }

  Timeline timeline;

 private:
  // Refuses to work on a file that is gone, and to believe what was found while it went.
  template <class Work>
  auto checked(const Work& work) -> decltype(work()) {
    check_file();
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        check_file();
      } else {
        auto found = work();
        check_file();
        return found;
      }
    } catch (const DamagedLane&) {
      check_file();  // zeros are no lane either
      throw;
    }
  }
  void check_file() const {
    if (timeline.ground().slab.lost()) throw LostFile();
  }

  // A writer's turn: both locks, of which it lets go while it waits so that readers may pass.
  struct Turn {
    explicit Turn(Shelf& shelf) : gate(shelf.gate_), writing(shelf.lock_), released(shelf.released_) {}
    void wait() {
      if (gate.owns_lock()) gate.unlock();
      released.wait(writing);
    }
    std::unique_lock<std::mutex> gate;
    std::unique_lock<std::shared_mutex> writing;
    std::condition_variable_any& released;
  };

  // The end of a block, whether or not all of it could be appended.
  struct Midway {
    ~Midway() {
      if (!shelf.midway_) return;
      shelf.midway_ = false;
      shelf.released_.notify_all();
    }
    Shelf& shelf;
  };

  // Writes as soon as it may and no block is half appended.
  template <class May, class Work>
  void write_once(const May& may, const Work& work) {
    Turn turn(*this);
    while (midway_ || !may()) turn.wait();
    checked([&] { work(turn); });
  }

  void before_fork() override {
    gate_.lock();
    lock_.lock();
  }
  void after_fork() override {
    lock_.unlock();
    gate_.unlock();
  }
  void after_fork_child() override {
    renew(gate_);
    renew(lock_);
    renew(released_);
    midway_ = false;    // whoever appended is gone; what was appended stays
    timeline.forked();  // what the parent logs and holds is the parent's
  }

  std::shared_mutex lock_;
  std::mutex gate_;
  std::condition_variable_any released_;
  bool midway_ = false;
};

}  // namespace relive
