// Recurrent networks of one shape, side by side: a layer, a gated recurrent unit (Cho et al. 2014), a layer.
//
// Sequences lie by time, the longest first: of the rows, the first steps of all come first, then the second steps of
// those that have one, and so on; counts[t] says how many are still going at step t. Some dozens of sequences go
// through all their steps together.
//
// Parameters of a network lie in a row: the first layer's weights [in, units] and biases; those of the two gates
// [2 units, 2 units] from input and state to reset and update; of new content from the input, then from the state,
// [units, units] and biases each; of the last layer [units, out] and biases.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "nets/dense.hpp"
#include "nets/values.hpp"

namespace relive {

class Recurrent {
 public:
  using Index = std::ptrdiff_t;

  Recurrent(Index count, Index inputs, Index units, Index outputs, const dense::Kernel& kernel)
      : count_(count), in_(inputs), units_(units), out_(outputs), kernel_(kernel) {
    const Index shapes[kLayers][2] = {
        {in_, units_}, {2 * units_, 2 * units_}, {units_, units_}, {units_, units_}, {units_, out_}};
    for (int l = 0; l < kLayers; ++l) {
      weights_[l] = width_;
      biases_[l] = width_ + shapes[l][0] * shapes[l][1];
      width_ = biases_[l] + shapes[l][1];
    }
  }

  Index count() const { return count_; }
  Index width() const { return width_; }                   // parameters of a network
  Index record() const { return dense::kParts * units_; }  // what is kept of a row
  Index inputs() const { return in_; }
  Index units() const { return units_; }
  Index outputs() const { return out_; }

  // Group g is for network g; a lone network takes all groups. States begin as `states` [groups, sequences, units] says,
  // which follows them, or at zero if that is null. Records are kept where `kept` says [groups, rows, record], unless null.
  void forward(const float* flat, Values in, Index groups, const std::vector<Index>& counts, float* states, float* kept,
               Values out) const {
    Packed packed(*this, false);
    std::vector<float> mine(static_cast<std::size_t>(kChunk * (record() + units_)));
    float* const local = mine.data() + kChunk * units_;
    const Index sequences = counts.empty() ? 0 : counts[0], all = total(counts);
    for (Index g = 0; g < groups; ++g) {
      const float* parameters = flat + network(g) * width_;
      if (g == 0 || count_ > 1) packed.forward(parameters);
      for (Index first = 0; first < sequences; first += kChunk) {
        const Index most = std::min(kChunk, sequences - first);
        float* state = mine.data();
        if (states)
          state = states + (g * sequences + first) * units_;
        else
          std::memset(state, 0, static_cast<std::size_t>(most * units_) * sizeof(float));
        Index row = first;
        for (std::size_t t = 0; t < counts.size() && counts[t] > first; row += counts[t++]) {
          const Index n = std::min(most, counts[t] - first);
          float* records = kept ? kept + (g * all + row) * record() : local;
          const auto layer = [&](int l, int from, int to, Index depth, Index cols) {
            layer_(n, records + from * units_, record(), depth, packed.at(l), parameters + biases_[l], cols,
                   records + to * units_, record(), dense::Kind::kOutput);
          };
          layer_(n, in.at(g, row), in.row, in_, packed.at(kFirst), parameters + biases_[kFirst], units_, records,
                 record(), dense::Kind::kForward);
          for (Index i = 0; i < n; ++i)
            std::memcpy(records + i * record() + dense::kBefore * units_, state + i * units_,
                        static_cast<std::size_t>(units_) * sizeof(float));
          layer(kGates, dense::kInput, dense::kReset, 2 * units_, 2 * units_);
          layer(kFresh, dense::kInput, dense::kContent, units_, units_);
          layer(kHold, dense::kBefore, dense::kHeld, units_, units_);
          kernel_.gate(n, units_, records, state);
          layer_(n, state, units_, units_, packed.at(kLast), parameters + biases_[kLast], out_, out.at(g, row), out.row,
                 dense::Kind::kOutput);
        }
      }
    }
  }

  // Gradients of the parameters from those of the outputs; groups of a lone network are added up. Those of the inputs go
  // where `in_grad` says, unless it is null. `states` [groups, sequences, units] has the gradients of the last states, and
  // then those of the first ones. Records are used up.
  void backward(const float* flat, float* grad, Values in, Index groups, const std::vector<Index>& counts, float* kept,
                Values out, const Values* in_grad, float* states) const {
    Packed packed(*this, true);
    std::vector<float> mine(static_cast<std::size_t>(kChunk * units_ + kChunk * 16));
    float *const below = mine.data(), *const scratch = below + kChunk * units_;
    const Index sequences = counts.empty() ? 0 : counts[0], all = total(counts);
    std::memset(grad, 0, static_cast<std::size_t>(count_ * width_) * sizeof(float));
    for (Index g = 0; g < groups; ++g) {
      float* to = grad + network(g) * width_;
      if (g == 0 || count_ > 1) packed.backward(flat + network(g) * width_);
      for (Index first = 0; first < sequences; first += kChunk) {
        float* const down = states + (g * sequences + first) * units_;
        std::size_t t = 0;
        Index row = first;
        bool begun = !zero(down, std::min(kChunk, sequences - first) * units_);
        for (; t < counts.size() && counts[t] > first; ++t) row += counts[t];
        while (t-- > 0) {
          row -= counts[t];
          const Index n = std::min(kChunk, counts[t] - first), step = record();
          float* records = kept + (g * all + row) * step;
          const float* above = out.at(g, row);
          if (!begun && !(begun = any(out, g, row, n))) {  // nothing comes down yet
            for (Index i = 0; in_grad && i < n; ++i)
              std::memset(in_grad->at(g, row + i), 0, static_cast<std::size_t>(in_) * sizeof(float));
            continue;
          }
          // weights += values^T grads, and biases += grads summed
          const auto learn = [&](int l, const float* values, Index apart, Index rows, const float* grads, Index cols,
                                 Index grads_apart) {
            kernel_.multiply({rows, cols, n, values, 1, apart, grads, grads_apart, to + weights_[l], cols},
                             dense::Kind::kAdd, dense::Rule::kRelu, scratch);
            kernel_.sum_rows(n, cols, grads, grads_apart, to + biases_[l]);
          };
          learn(kLast, records + dense::kAfter * units_, step, units_, above, out_, out.row);
          kernel_.multiply({n, units_, out_, above, out.row, 1, packed.at(kLast), 0, down, units_}, dense::Kind::kAdd,
                           dense::Rule::kRelu, nullptr);
          kernel_.ungate(n, units_, records, down);
          learn(kGates, records + dense::kInput * units_, step, 2 * units_, records + dense::kReset * units_, 2 * units_,
                step);
          learn(kFresh, records + dense::kInput * units_, step, units_, records + dense::kContent * units_, units_, step);
          learn(kHold, records + dense::kBefore * units_, step, units_, records + dense::kHeld * units_, units_, step);
          // Held, reset and update lie together, and so do reset, update and content.
          kernel_.multiply({n, units_, 3 * units_, records + dense::kHeld * units_, step, 1, packed.at(kHold), 0, down, units_},
                           dense::Kind::kAdd, dense::Rule::kRelu, nullptr);
          dense::Product p{n, units_, 3 * units_, records + dense::kReset * units_, step, 1, packed.at(kFresh), 0, below, units_};
          p.given = records + dense::kInput * units_;
          p.given_step = step;
          kernel_.multiply(p, dense::Kind::kSlope, dense::Rule::kRelu, nullptr);
          learn(kFirst, in.at(g, row), in.row, in_, below, units_, units_);
          if (in_grad)
            kernel_.multiply({n, in_, units_, below, units_, 1, packed.at(kFirst), 0, in_grad->at(g, row), in_grad->row},
                             dense::Kind::kPlain, dense::Rule::kRelu, nullptr);
        }
      }
    }
  }

  static Index total(const std::vector<Index>& counts) {
    Index sum = 0;
    for (const Index count : counts) sum += count;
    return sum;
  }

 private:
  enum Layer { kFirst, kGates, kFresh, kHold, kLast, kLayers };
  static constexpr Index kChunk = 48;  // sequences that go through all steps together

  // Weights as products take them: forwards each layer's, backwards those that gradients go down through.
  class Packed {
   public:
    Packed(const Recurrent& nets, bool back) : nets_(nets) {
      const Index u = nets.units_;
      const Index sizes[kLayers][2] = {{back ? u : nets.in_, back ? nets.in_ : u},
                                       {back ? 0 : 2 * u, 2 * u},
                                       {back ? 3 * u : u, u},
                                       {back ? 3 * u : u, u},
                                       {back ? nets.out_ : u, back ? u : nets.out_}};
      Index room = 0;
      for (int l = 0; l < kLayers; ++l) {
        places_[l] = room;
        room += dense::packed_size(nets.kernel_, sizes[l][0], sizes[l][1]);
      }
      all_.resize(static_cast<std::size_t>(room));
    }
    const float* at(int layer) const { return all_.data() + places_[layer]; }

    void forward(const float* flat) {
      const Index u = nets_.units_;
      put(kFirst, flat, nets_.in_, u, false, 0, nets_.in_);
      put(kGates, flat + nets_.weights_[kGates], 2 * u, 2 * u, false, 0, 2 * u);
      put(kFresh, flat + nets_.weights_[kFresh], u, u, false, 0, u);
      put(kHold, flat + nets_.weights_[kHold], u, u, false, 0, u);
      put(kLast, flat + nets_.weights_[kLast], u, nets_.out_, false, 0, u);
    }

    void backward(const float* flat) {
      const Index u = nets_.units_;
      const float* gates = flat + nets_.weights_[kGates];
      put(kFirst, flat, nets_.in_, u, true, 0, u);
      put(kLast, flat + nets_.weights_[kLast], u, nets_.out_, true, 0, nets_.out_);
      put(kHold, flat + nets_.weights_[kHold], u, u, true, 0, 3 * u);
      put(kHold, gates + u * 2 * u, u, 2 * u, true, u, 3 * u);
      put(kFresh, gates, u, 2 * u, true, 0, 3 * u);
      put(kFresh, flat + nets_.weights_[kFresh], u, u, true, 2 * u, 3 * u);
    }

   private:
    // Weights [rows, cols], turned round or not, below `before` rows of others.
    void put(int layer, const float* from, Index rows, Index cols, bool turned, Index before, Index depth) {
      float* to = all_.data() + places_[layer] + before * nets_.kernel_.cols;
      if (turned)
        dense::pack(nets_.kernel_, from, cols, rows, 1, cols, to, depth);
      else
        dense::pack(nets_.kernel_, from, rows, cols, cols, 1, to, depth);
    }

    const Recurrent& nets_;
    Index places_[kLayers];
    std::vector<float> all_;
  };

  void layer_(Index n, const float* from, Index apart, Index depth, const float* weights, const float* biases, Index cols,
              float* to, Index to_apart, dense::Kind kind) const {
    dense::Product p{n, cols, depth, from, apart, 1, weights, 0, to, to_apart};
    p.bias = biases;
    kernel_.multiply(p, kind, dense::Rule::kRelu, nullptr);
  }

  bool any(Values out, Index g, Index row, Index n) const {
    for (Index i = 0; i < n; ++i)
      for (Index c = 0; c < out_; ++c)
        if (!(out.at(g, row + i)[c] == 0)) return true;
    return false;
  }

  static bool zero(const float* values, Index count) {
    return std::all_of(values, values + count, [](float value) { return value == 0; });
  }

  Index network(Index group) const { return count_ == 1 ? 0 : group; }

  Index count_, in_, units_, out_, width_ = 0;
  Index weights_[kLayers], biases_[kLayers];
  const dense::Kernel& kernel_;
};

}  // namespace relive
