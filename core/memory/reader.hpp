// One sample in one call: draw rows, expand them, gather every field into pooled memory.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/census.hpp"
#include "memory/pool.hpp"
#include "memory/samplers.hpp"
#include "memory/shelf.hpp"
#include "memory/windows.hpp"

namespace relive {

// A memory at one instant: its lanes, its generator and its sampler's numbers.
struct Moment {
  struct Lane {
    std::int64_t tail, head, start, gone, revision;
    bool ended;  // whether the row before the two newest is the last step of an episode
  };
  std::vector<Lane> lanes;
  std::array<std::uint64_t, 2> key{};
  std::uint64_t position = 0;
  std::int64_t batches = 0, dropped = 0;
  double largest = 0;
};

struct Drawn {
  enum class Status { kOk, kTooFew, kNoAnchor, kOvertaken } status = Status::kOk;
  std::int64_t available = 0;   // kTooFew: anchors there are; kNoAnchor: the first row that is none
  std::int64_t size = 0, steps = 0;
  std::unique_ptr<Lease> lease;
  std::vector<char*> arrays;    // one an output
};

// Memory of somebody else's to put a batch in, instead of pooled memory.
struct Room {
  char* at = nullptr;
  std::size_t bytes = 0;        // what the batch takes
  std::int64_t first_lane = 0;  // added to the numbers of lanes
};

// How many rows a sampler gives for n asked for.
struct Draws {
  bool distinct;  // n, and there must be as many
  bool partial;   // n, or fewer if there are fewer
};

class Reader final : public Forkable {
 public:
  Reader(std::shared_ptr<Shelf> shelf, const WindowSpec& spec, std::vector<Output> outputs,
         std::unique_ptr<Sampler> sampler, Draws draws, Philox random)
      : shelf_(std::move(shelf)), window_(shelf_->timeline, spec, std::move(outputs)),
        anchors_(shelf_->timeline, window_.reach()), sampler_(std::move(sampler)), draws_(draws),
        random_(random) {}

  Drawn sample(std::int64_t n, double beta, std::int64_t threads, const Room& room = {}) {
    auto worker = borrow();
    Drawn drawn;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      drawn = Drawn();
      if (sample_once(*worker, n, beta, threads, room, drawn)) break;
      drawn.status = Drawn::Status::kOvertaken;
    }
    give_back(std::move(worker));
    return drawn;
  }

  // Reads given rows through the window; each must be one that could be drawn.
  Drawn read(const Row* rows, std::int64_t n, std::int64_t threads) {
    auto worker = borrow();
    Drawn drawn;
    shelf_->read([&] {
      worker->rows.assign(rows, rows + n);
      worker->weights.assign(static_cast<std::size_t>(n), 1.0f);
      {
        std::lock_guard<std::mutex> drawing(mutex_);
        anchors_.update();
        for (std::int64_t i = 0; i < n; ++i) {
          if (anchors_.contains(worker->rows[static_cast<std::size_t>(i)])) continue;
          drawn.status = Drawn::Status::kNoAnchor;
          drawn.available = i;
          return;
        }
      }
      fill(*worker, n, threads, {}, drawn);
      const std::int64_t torn = first_torn(*worker, n);
      if (torn == n) return;
      drawn.status = Drawn::Status::kNoAnchor;
      drawn.available = torn;
    });
    give_back(std::move(worker));
    return drawn;
  }

  // Runs work(anchors, sampler, random) with everything up to date and nothing changing meanwhile.
  template <class Work>
  auto locked(const Work& work) {
    return shelf_->read([&] {
      std::lock_guard<std::mutex> drawing(mutex_);
      anchors_.rest();
      anchors_.update();
      return work(static_cast<const Anchors&>(anchors_), *sampler_, random_);
    });
  }

  // Counts from now on how often rows are drawn, or no longer does; returns whether it did before.
  bool count_draws(bool on) {
    return locked([&](const Anchors&, Sampler&, Philox&) {
      const Timeline& line = shelf_->timeline;
      const bool before = counts_ != nullptr;
      if (on && !before) counts_ = std::make_unique<DrawCounts>(line.lanes() * line.span());
      if (!on) counts_.reset();
      return before;
    });
  }

  // How often each of some rows was drawn, 0 where it lies there no more; false if draws are not counted.
  bool draw_counts(const std::vector<Row>& rows, std::int64_t* to) {
    return locked([&](const Anchors&, Sampler&, Philox&) {
      if (!counts_) return false;
      const Timeline& line = shelf_->timeline;
      for (const Row& row : rows) {
        const bool there = row.lane >= 0 && row.lane < line.lanes() && row.serial >= line.tail(row.lane) &&
                           row.serial < line.head(row.lane);
        *to++ = there ? counts_->of(line.slot(row.lane, row.serial), row.serial) : 0;
      }
      return true;
    });
  }

  // Every stride-th row in numbers. In stretches, so that nobody waits for long.
  Census census(std::int64_t stride) {
    constexpr std::int64_t kStretch = std::int64_t{1} << 15;
    Census found;
    const Timeline& line = shelf_->timeline;
    for (std::int64_t lane = 0; lane < line.lanes(); ++lane) {
      std::int64_t next = 0, end = kNone;
      do {
        locked([&](const Anchors& anchors, Sampler& sampler, Philox&) {
          if (end == kNone) end = line.head(lane);
          next = std::max(next, line.tail(lane));
          const std::int64_t last = std::min(end, next + kStretch * stride);
          found.counted = counts_ != nullptr;
          take_census(anchors, sampler, counts_.get(), lane, next, last, stride, found);
          next += kStretch * stride;
        });
      } while (next < end);
    }
    return found;
  }

  // The memory as it stands. Rows from `from` on, by lane, are held from then on until the shelf releases them (not in
  // shared memory), and rows are logged from then on if there is a journal; put_down(state) is given what the sampler
  // keeps for every row.
  template <class PutDown>
  Moment freeze(std::vector<std::int64_t> from, std::unique_ptr<Journal> journal, const PutDown& put_down) {
    Moment moment;
    shelf_->write([&] {
      Timeline& timeline = shelf_->timeline;
      if (timeline.others()) timeline.catch_up();
      std::lock_guard<std::mutex> drawing(mutex_);
      anchors_.spare_none();
      anchors_.update();
      for (std::int64_t lane = 0; lane < timeline.lanes(); ++lane) {
        const LaneIndex& index = timeline.lane(lane);
        const std::int64_t settled = index.head - 3;  // a cut changes the two newest rows
        const bool ended = settled >= index.tail && (timeline.flags(timeline.slot(lane, settled)) & kEnded) != 0;
        moment.lanes.push_back({index.tail, index.head, timeline.oldest_start(lane), index.closed.popped(),
                                index.revision, ended});
      }
      moment.key = random_.key();
      moment.position = random_.position();
      moment.batches = batches;
      moment.dropped = dropped;
      const SamplerState state = sampler_->state(anchors_);
      moment.largest = state.largest;
      put_down(state);
      timeline.log_to(std::move(journal));
      if (timeline.others()) return;  // their writers wait for nobody
      for (std::size_t lane = 0; lane < from.size(); ++lane) from[lane] = std::max(from[lane], moment.lanes[lane].tail);
      timeline.hold(std::move(from));
    });
    return moment;
  }

  const Window& window() const { return window_; }
  // Bytes of a batch; 0 if that is not known before it is drawn.
  std::size_t room(std::int64_t n) const { return draws_.partial ? 0 : window_.room(n); }

  // Batches drawn, and priorities that came for rows which could no longer be drawn; changed under `locked`.
  std::int64_t batches = 0, dropped = 0;

 private:
  // mutex_ is only taken by those who hold the shelf's lock, which a fork takes first.
  void before_fork() override { idle_mutex_.lock(); }
  void after_fork() override { idle_mutex_.unlock(); }
  void after_fork_child() override { renew(idle_mutex_); }

  struct Worker {
    Window window;
    std::vector<Row> rows;
    std::vector<float> weights;
  };
  static constexpr int kAttempts = 200;

  // False if another process overwrote rows while they were read.
  bool sample_once(Worker& worker, std::int64_t n, double beta, std::int64_t threads, const Room& room, Drawn& drawn) {
    return shelf_->read([&] {
      {
        std::lock_guard<std::mutex> drawing(mutex_);
        anchors_.update();
        drawn.available = anchors_.count();
        if (drawn.available < n && anchors_.sparing()) {  // better to read twice than to find nothing
          anchors_.spare_none();
          anchors_.update();
          drawn.available = anchors_.count();
        }
        if (drawn.available < (draws_.distinct ? n : 1)) {
          drawn.status = Drawn::Status::kTooFew;
          return true;
        }
        if (draws_.partial) n = std::min(n, drawn.available);
        worker.rows.resize(static_cast<std::size_t>(n));
        worker.weights.resize(static_cast<std::size_t>(n));
        const std::int64_t got = sampler_->draw(anchors_, random_, n, beta, worker.rows.data(), worker.weights.data());
        if (shelf_->timeline.others()) {
          if (got == 0 || (got < n && !draws_.partial)) return false;
          for (std::int64_t i = 0; i < got; ++i)
            if (!anchors_.usable(worker.rows[static_cast<std::size_t>(i)])) return false;
        }
        n = got;
        ++batches;
        if (counts_)
          for (std::int64_t i = 0; i < n; ++i) count(worker.rows[static_cast<std::size_t>(i)]);
      }
      fill(worker, n, threads, room, drawn);
      if (first_torn(worker, n) == n) return true;
      std::lock_guard<std::mutex> drawing(mutex_);
      --batches;
      return false;
    });
  }

  void count(const Row& row) { counts_->add(shelf_->timeline.slot(row.lane, row.serial), row.serial); }

  // Place of the first row that may have been overwritten while it was read; n if none was.
  std::int64_t first_torn(const Worker& worker, std::int64_t n) {
    if (!shelf_->timeline.others()) return n;
    std::lock_guard<std::mutex> drawing(mutex_);
    std::int64_t first = n;
    for (std::int64_t i = n; i-- > 0;)
      if (anchors_.torn(worker.rows[static_cast<std::size_t>(i)])) first = i;
    if (first == n) anchors_.relax();
    return first;
  }

  // Two threads may sample at once, so what a call works with is its own.
  std::unique_ptr<Worker> borrow() {
    {
      std::lock_guard<std::mutex> lock(idle_mutex_);
      if (!idle_.empty()) {
        auto worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    return std::make_unique<Worker>(Worker{window_, {}, {}});
  }
  void give_back(std::unique_ptr<Worker> worker) {
    std::lock_guard<std::mutex> lock(idle_mutex_);
    idle_.push_back(std::move(worker));
  }

  void fill(Worker& worker, std::int64_t n, std::int64_t threads, const Room& room, Drawn& drawn) {
    Window& window = worker.window;
    window.resolve(worker.rows.data(), n, threads);
    const auto& outputs = window.outputs();
    std::vector<std::size_t> begins;
    begins.reserve(outputs.size());
    const std::size_t total = window.lay_out(begins);
    char* begin = room.at;
    if (begin == nullptr) {
      drawn.lease = std::make_unique<Lease>(pool_, total);
      begin = drawn.lease->data();
    } else {
      if (total != room.bytes) throw std::logic_error("a batch of another size than its room");
      for (std::size_t k = 0; k < outputs.size(); ++k) {  // what lay there is nobody's business
        const std::int64_t used = window.values(outputs[k]) * outputs[k].item;
        std::memset(begin + begins[k] + used, 0, Window::padded(used) - static_cast<std::size_t>(used));
      }
    }
    for (std::size_t at : begins) drawn.arrays.push_back(begin + at);
    window.gather(drawn.arrays.data());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      char* to = drawn.arrays[k];
      if (outputs[k].what == What::kWeights) {
        std::memcpy(to, worker.weights.data(), static_cast<std::size_t>(n) * sizeof(float));
      } else if (outputs[k].what == What::kSerials || outputs[k].what == What::kLanes) {
        auto* numbers = reinterpret_cast<std::int64_t*>(to);
        const bool serials = outputs[k].what == What::kSerials;
        for (std::int64_t i = 0; i < n; ++i) {
          const Row& row = worker.rows[static_cast<std::size_t>(i)];
          numbers[i] = serials ? row.serial : row.lane + room.first_lane;
        }
      }
    }
    drawn.size = n;
    drawn.steps = window.steps();
  }

  std::shared_ptr<Shelf> shelf_;
  Window window_;
  Anchors anchors_;
  std::unique_ptr<Sampler> sampler_;
  Draws draws_;
  Philox random_;
  std::mutex mutex_, idle_mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
  std::unique_ptr<DrawCounts> counts_;  // while somebody wants to know
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace relive
