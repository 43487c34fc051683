// Cells that an operation, its signal handlers and other threads give back: at every instruction of the
// operation, one more arrives from each. The model: every cell ever made is held by the test or is in exactly
// one of the places from which cells are used again.
#include "publish/base/cells.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "publish/stepping.hpp"

namespace vitrine::publish {
namespace {

constexpr unsigned size_class = 1;

/// Every cell that is used again some time, in any order; twice if it is in two places.
std::vector<const Cell*> reachable(Cells& cells) {
  std::vector<const Cell*> found;
  const auto add = [&](const Cell* list) {
    for (; list != nullptr; list = list->next) found.push_back(list);
  };
  for (unsigned i = 0; i < size_classes; ++i) {
    const Cells::Queue& queue = cells.queue(i);
    for (std::uint32_t at = queue.first; at != queue.last; ++at)
      found.push_back(queue.cells[at % Cells::Queue::capacity]);
  }
  for (const Cell* list : cells.free) add(list);
  add(cells.nested);
  add(cells.remote);
  add(cells.parked);
  return found;
}

class Model {
 public:
  Model() : cells_(make_cells()) {}

  [[nodiscard]] Cells& cells() const { return *cells_; }
  Cell* take_one() {
    Cell* cell = nullptr;
    {
      const Work work(*cells_);
      cell = take(work, size_class);
    }
    note(cell);
    return cell;
  }
  /// `cell` may be new to the model: not while anything is interrupted.
  void note(const Cell* cell) {
    if (std::find(all_.begin(), all_.end(), cell) == all_.end()) all_.push_back(cell);
  }
  void give_back_remotely(Cell* cell) const { give_back(cell, nullptr); }
  /// As a handler inside an operation does; it is one if `level` is not 0.
  void give_back_here(Cell* cell) const {
    const Work work(*cells_);
    give_back(cell, &work);
  }

  void check(std::vector<const Cell*> held) const {
    std::vector<const Cell*> found = reachable(*cells_), all = all_;
    found.insert(found.end(), held.begin(), held.end());
    std::sort(found.begin(), found.end());
    std::sort(all.begin(), all.end());
    ASSERT_EQ(found, all) << found.size() << " found of " << all.size();
  }

 private:
  Cells* cells_;
  std::vector<const Cell*> all_;
};

// Without interruptions: what other threads gave back serves again.
TEST(Cells, OtherThreadsGiveBackWhatServesAgain) {
  Model model;
  for (int round = 0; round < 200; ++round) {
    std::vector<Cell*> taken;
    for (int i = 0; i < 40; ++i) taken.push_back(model.take_one());
    for (Cell* cell : taken) model.give_back_remotely(cell);
    ASSERT_NO_FATAL_FAILURE(model.check({}));
  }
}

#if defined(__x86_64__)

Model* model;
Cell* from_elsewhere;  ///< null: nothing to give back
Cell* from_handler;

/// Another thread's, as it were; and a handler's.
void give_back_both() {
  if (from_elsewhere != nullptr) model->give_back_remotely(std::exchange(from_elsewhere, nullptr));
  if (from_handler != nullptr) model->give_back_here(std::exchange(from_handler, nullptr));
}
void give_back_one() {
  if (from_elsewhere != nullptr)
    model->give_back_remotely(std::exchange(from_elsewhere, nullptr));
  else if (from_handler != nullptr)
    model->give_back_here(std::exchange(from_handler, nullptr));
}

/// One operation that takes in `remote` and `nested` cells given back before.
void round_with(int remote, int nested) {
  from_elsewhere = model->take_one();
  from_handler = model->take_one();
  std::vector<Cell*> taken;
  for (int i = 0; i < remote + nested; ++i) taken.push_back(model->take_one());
  for (int i = 0; i < remote; ++i) model->give_back_remotely(taken[static_cast<std::size_t>(i)]);
  {
    const Work outer(model->cells());
    for (int i = remote; i < remote + nested; ++i)
      model->give_back_here(taken[static_cast<std::size_t>(i)]);
  }
  test::Stepping::on();
  Cell* cell = nullptr;
  {
    const Work work(model->cells());
    cell = take_slowly(work, size_class);
  }
  test::Stepping::off();
  model->note(cell);
  std::vector<const Cell*> held{cell};
  if (from_elsewhere != nullptr) held.push_back(from_elsewhere);
  if (from_handler != nullptr) held.push_back(from_handler);
  ASSERT_NO_FATAL_FAILURE(model->check(held));
  for (Cell* left : {cell, from_elsewhere, from_handler}) {
    if (left != nullptr) model->give_back_here(left);
  }
}

TEST(Cells, NothingGivenBackAtAnyInstructionIsLost) {
  for (const auto& [remote, nested] : {std::pair{0, 0}, {1, 0}, {3, 0}, {0, 2}, {2, 2}, {40, 40}}) {
    Model own;
    model = &own;
    const long met =
        test::Stepping::each(give_back_both, [&](long) { round_with(remote, nested); });
    EXPECT_GT(met, 50);
  }
}

TEST(Cells, NothingGivenBackAtAnyTwoInstructionsIsLost) {
  Model own;
  model = &own;
  const long met = test::Stepping::each_two(give_back_one, [](long) { round_with(2, 1); });
  EXPECT_GT(met, 1000);
}

#endif

}  // namespace
}  // namespace vitrine::publish
