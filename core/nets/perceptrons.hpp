// Multi-layer perceptrons of one shape, stacked: forward, backward, and the gradient with respect to some inputs.
//
// Parameters of a network lie in a row: each layer's weights [in, out], then its biases. Rows of a batch go through all
// layers some dozens at a time, so that what lies between stays in the first caches.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "nets/dense.hpp"
#include "nets/values.hpp"

namespace relive {

class Perceptrons {
 public:
  using Index = std::ptrdiff_t;

  Perceptrons(Index count, std::vector<Index> sizes, dense::Rule rule, const dense::Kernel& kernel)
      : count_(count), sizes_(std::move(sizes)), rule_(rule), kernel_(kernel) {
    for (std::size_t l = 0; l + 1 < sizes_.size(); ++l) {
      weights_.push_back(width_);
      width_ += (sizes_[l] + 1) * sizes_[l + 1];
      hidden_.push_back(between_);
      if (l + 2 < sizes_.size()) between_ += sizes_[l + 1];
    }
  }

  Index count() const { return count_; }
  Index width() const { return width_; }      // parameters of a network
  Index between() const { return between_; }  // hidden units of a network
  Index inputs() const { return sizes_.front(); }
  Index outputs() const { return sizes_.back(); }

  // Group g is for network g; a lone network takes all groups. What hidden layers give is kept where `hidden` says,
  // [groups, rows * between], unless that is null.
  void forward(const float* flat, Values in, Index groups, Index rows, float* hidden, Values out) const {
    const bool packs = rows >= kChunk;
    const Room room(*this, packs ? panels() : 0);
    for (Index g = 0; g < groups; ++g) {
      const float* parameters = flat + network(g) * width_;
      if (packs && (g == 0 || count_ > 1)) {
        float* to = room.turned;
        for (std::size_t l = 0; l < layers(); ++l)
          if (wide(l)) {
            dense::pack(kernel_, parameters + weights_[l], sizes_[l], sizes_[l + 1], sizes_[l + 1], 1, to, sizes_[l]);
            to += panel_size(sizes_[l], sizes_[l + 1]);
          }
      }
      for (Index r = 0; r < rows; r += kChunk) {
        const Index n = std::min(kChunk, rows - r);
        const float* packed_weights = room.turned;
        const float* from = in.at(g, r);
        Index step = in.row;
        for (std::size_t l = 0; l < layers(); ++l) {
          const bool last = l + 1 == layers();
          const Index next = sizes_[l + 1];
          float* to = last ? out.at(g, r) : hidden ? kept(hidden, g, rows, l, r) : room.buffer[l % 2];
          dense::Product p{n, next, sizes_[l], from, step, 1, parameters + weights_[l], next, to, last ? out.row : next};
          p.bias = parameters + weights_[l] + sizes_[l] * next;
          if (packs && wide(l)) {
            p.b = packed_weights;
            p.b_step = 0;
            packed_weights += panel_size(sizes_[l], next);
          }
          kernel_.multiply(p, last ? dense::Kind::kOutput : dense::Kind::kForward, rule_, room.scratch);
          from = to;
          step = next;
        }
      }
    }
  }

  // Gradients of the parameters from those of the outputs; groups of a lone network are added up.
  void backward(const float* flat, float* grad, Values in, Index groups, Index rows, float* hidden, Values out) const {
    const Room room(*this, turned_size() + beside_size());
    float* const beside = room.turned + turned_size();
    std::memset(grad, 0, static_cast<std::size_t>(count_ * width_) * sizeof(float));
    for (Index g = 0; g < groups; ++g) {
      const float* parameters = flat + network(g) * width_;
      float* mine = grad + network(g) * width_;
      if (g == 0 || count_ > 1)
        for (std::size_t l = 1; l < layers(); ++l)
          turn(parameters, l, room);
      for (Index r = 0; r < rows; r += kChunk) {
        const Index n = std::min(kChunk, rows - r);
        const float* down = out.at(g, r);
        Index step = out.row;
        for (std::size_t l = layers(); l-- > 0;) {
          const Index before = sizes_[l], after = sizes_[l + 1];
          const float* given = l ? kept(hidden, g, rows, l - 1, r) : in.at(g, r);
          const Index given_step = l ? before : in.row;
          float* weights = mine + weights_[l];
          dense::Product p{before, after, n, given, 1, given_step, down, step, weights, after};
          if (wide(l)) lay_beside(p, beside);
          kernel_.multiply(p, dense::Kind::kAdd, rule_, room.scratch);
          kernel_.sum_rows(n, after, down, step, weights + before * after);
          if (l == 0) break;
          down = descend(room, l, n, down, step, given);
          step = before;
        }
      }
    }
  }

  // The gradient of every group's inputs first[g] to first[g] + some, from the outputs' gradient: dQ/da.
  void input_grad(const float* flat, const Index* first, Index some, Index groups, Index rows, float* hidden, Values out,
                  Values found) const {
    const Room room(*this, turned_size() + sizes_[0] * sizes_[1]);
    float* const inputs = room.turned + turned_size();
    for (Index g = 0; g < groups; ++g) {
      const float* parameters = flat + network(g) * width_;
      turn(parameters + first[g] * sizes_[1], some, sizes_[1], inputs);
      for (std::size_t l = 1; l < layers(); ++l)
        if (g == 0 || count_ > 1) turn(parameters, l, room);
      for (Index r = 0; r < rows; r += kChunk) {
        const Index n = std::min(kChunk, rows - r);
        const float* down = out.at(g, r);
        Index step = out.row;
        for (std::size_t l = layers(); l-- > 1;) {
          down = descend(room, l, n, down, step, kept(hidden, g, rows, l - 1, r));
          step = sizes_[l];
        }
        kernel_.multiply({n, some, sizes_[1], down, step, 1, inputs, some, found.at(g, r), found.row},
                  dense::Kind::kPlain, rule_, room.scratch);
      }
    }
  }

 private:
  static constexpr Index kChunk = 60;  // rows that go through all layers together
  static constexpr Index kBeside = 16;  // numbers between rows that would else lie on top of each other in a cache

  // What a pass works in: room for a product, two for what lies between layers, and for weights turned round.
  struct Room {
    Room(const Perceptrons& nets, Index more)
        : all(static_cast<std::size_t>(nets.packed() + 2 * kChunk * nets.widest() + more)),
          scratch(all.data()),
          buffer{scratch + nets.packed(), scratch + nets.packed() + kChunk * nets.widest()},
          turned(buffer[1] + kChunk * nets.widest()) {}
    std::vector<float> all;
    float* scratch;
    float* buffer[2];
    float* turned;
  };

  // Gradients of what layer l gets, from those of what it gives: `given` is what it got from the activation before it.
  const float* descend(const Room& room, std::size_t l, Index n, const float* down, Index step,
                       const float* given) const {
    const Index before = sizes_[l];
    const float* weights = room.turned + turned_at(l);
    float* to = room.buffer[l % 2];
    dense::Product p{n, before, sizes_[l + 1], down, step, 1, weights, wide(l) ? 0 : before, to, before};
    p.given = given;
    p.given_step = before;
    kernel_.multiply(p, dense::Kind::kSlope, rule_, room.scratch);
    return to;
  }

  std::size_t layers() const { return sizes_.size() - 1; }
  Index network(Index group) const { return count_ == 1 ? 0 : group; }
  Index widest() const { return *std::max_element(sizes_.begin(), sizes_.end()); }
  Index packed() const { return std::max(widest(), kChunk) * 16; }
  float* kept(float* hidden, Index g, Index rows, std::size_t l, Index r) const {
    return hidden + (g * between_ + hidden_[l]) * rows + r * sizes_[l + 1];
  }

  // Layers whose weights do not fit the first cache: their matrices are laid out in panels.
  bool wide(std::size_t l) const { return sizes_[l] * sizes_[l + 1] > 8192; }
  Index panel_size(Index depth, Index cols) const { return dense::packed_size(kernel_, depth, cols); }
  Index panels() const {
    Index size = 0;
    for (std::size_t l = 0; l < layers(); ++l)
      if (wide(l)) size += panel_size(sizes_[l], sizes_[l + 1]);
    return size;
  }

  // Where the weights of a layer are that were turned round, and the room that they all take.
  Index turned_at(std::size_t layer) const {
    Index at = 0;
    for (std::size_t l = 1; l < layer; ++l)
      at += wide(l) ? panel_size(sizes_[l + 1], sizes_[l]) : sizes_[l] * sizes_[l + 1];
    return at;
  }
  Index turned_size() const { return turned_at(layers()); }
  void turn(const float* parameters, std::size_t l, const Room& room) const {
    const float* from = parameters + weights_[l];
    float* to = room.turned + turned_at(l);
    if (wide(l))
      dense::pack(kernel_, from, sizes_[l + 1], sizes_[l], 1, sizes_[l + 1], to, sizes_[l + 1]);
    else
      turn(from, sizes_[l], sizes_[l + 1], to);
  }

  // What a gradient of weights is made of, laid out so that caches hold it: rows a little apart, columns in panels.
  Index beside_size() const { return kChunk * (widest() + kBeside) + panel_size(kChunk, widest()); }
  void lay_beside(dense::Product& p, float* room) const {
    const Index pitch = p.rows + kBeside;
    for (Index k = 0; k < p.depth; ++k)
      std::memcpy(room + k * pitch, p.a + k * p.a_step, static_cast<std::size_t>(p.rows) * sizeof(float));
    p.a = room;
    p.a_step = pitch;
    room += kChunk * pitch;
    dense::pack(kernel_, p.b, p.depth, p.cols, p.b_step, 1, room, p.depth);
    p.b = room;
    p.b_step = 0;
  }

  static void turn(const float* from, Index rows, Index cols, float* to) {
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  }

  Index count_, width_ = 0, between_ = 0;
  std::vector<Index> sizes_, weights_, hidden_;
  dense::Rule rule_;
  const dense::Kernel& kernel_;
};

}  // namespace relive
