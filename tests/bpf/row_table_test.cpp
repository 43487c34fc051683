// Rows of samples: what programs add on several CPUs, and what the reader takes meanwhile, step by step
// in random order, and at once, is each sample once.
#include "bpf/row_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "bpf/span_logs.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::uint32_t half = 16, bits = 10;
constexpr std::uint64_t keys = 24;  // more than there are rows
constexpr std::uint64_t spans = 6;  // keys with one model

vitrine_row_key key_of(std::uint64_t number) {
  // Two of them have equal places and equal first words.
  return {{(number / 2) << 5 | 1, number << 1 | 1}};
}

/// How many samples of a key were in a stretch of time, and their time off the CPU.
struct Sum {
  std::uint64_t samples = 0, off_ns = 0;
  bool operator==(const Sum&) const = default;
};
using Sums = std::map<std::pair<std::uint64_t, std::uint64_t>, Sum>;

struct Sample {
  std::uint64_t key = 0, time_ns = 0, off_ns = 0;

  /// Samples of a few keys differ by their spans alone. Those of some have no model.
  [[nodiscard]] std::optional<std::uint64_t> model() const {
    return key % 4 == 3 ? std::nullopt : std::optional(key / spans);
  }
};

void add(Sums& sums, const Sample& sample, std::uint64_t samples = 1) {
  Sum& sum = sums[{sample.key, sample.time_ns >> bits}];
  sum.samples += samples;
  sum.off_ns += sample.off_ns;
}

/// A whole sample, or of one with a model its span and its time alone.
struct Record {
  Sample sample;
  std::uint32_t row = 0, generation = 0, model = 0;
  bool is_span = false;
};

/// The buffer of records, with room for a few.
struct Ring {
  std::deque<Record> records;
  std::size_t room = 8;
};

/// Room for few samples of spans, so that some go to the ring buffer.
constexpr std::size_t places = 4;

vitrine_span_sample span_of(const Record& record) {
  vitrine_span_sample span{};
  span.time_ns = record.sample.time_ns;
  span.trace_id[0] = record.sample.key;
  span.trace_id[1] = ~record.sample.key;
  span.span_id = record.sample.off_ns;
  span.generation = record.generation;
  span.model = record.model;
  span.row = record.row;
  return span;
}

Record record_of(const vitrine_span_sample& span) {
  EXPECT_EQ(span.trace_id[1], ~span.trace_id[0]);
  return {
      {span.trace_id[0], span.time_ns, span.span_id}, span.row, span.generation, span.model, true};
}

/// The program on one CPU: what rows.bpf.h does, in steps.
struct Program {
  std::vector<vitrine_row>* rows = nullptr;
  Ring* ring = nullptr;
  std::array<std::uint64_t, 4>* met = nullptr;
  std::span<vitrine_span_place> log;
  std::size_t logged = 0;
  Sample sample;
  vitrine_row_key key{}, model_key{};
  std::uint32_t generation = 0, attempt = 0, number = 0, model = 0;
  enum class At {
    idle,
    meets,
    finds,
    adds,
    finds_model,
    sends,
    finishes,
    finishes_model
  } at = At::idle;
  bool sent = false, begins_model = false, is_span = false;

  void begin(const Sample& next, std::uint32_t generation_now) {
    sample = next;
    key = key_of(sample.key);
    generation = generation_now;
    attempt = 0;
    number = model = 0;
    begins_model = is_span = false;
    at = At::finds;
    if (!sample.model()) return;
    model_key = key_of(keys + *sample.model());
    at = At::meets;
  }

  /// Where the sample goes that is not added to a row.
  void send() {
    attempt = 0;
    at = sample.model() ? At::finds_model : At::sends;
  }

  bool send_to(const Record& record) {
    const vitrine_span_sample span = span_of(record);
    if (is_span && !log.empty() && vitrine_span_put(&log[logged % log.size()], &span) != 0) {
      ++logged;
      return true;
    }
    if (ring->records.size() >= ring->room) return false;
    ring->records.push_back(record);
    return true;
  }

  /// Returns whether the sample was lost.
  bool step(Sums& fired) {
    switch (at) {
      case At::meets: {
        std::uint64_t& its = (*met)[sample.key % met->size()];
        if (its == sample.key + 1)
          at = At::finds;
        else
          send();
        its = sample.key + 1;
        return false;
      }
      case At::finds: {
        if (attempt == VITRINE_ROW_TRIES) {
          send();
          return false;
        }
        const std::uint32_t place = vitrine_row_place(&key, generation, half, attempt++);
        const std::uint32_t found = vitrine_row_try(&(*rows)[place], &key);
        if (found == VITRINE_ROW_OTHER) return false;
        if (found != VITRINE_ROW_BUSY) number = place + 1;
        if (found == VITRINE_ROW_KNOWN)
          at = At::adds;
        else
          send();
        return false;
      }
      case At::finds_model: {
        if (attempt == VITRINE_ROW_TRIES) {
          at = At::sends;
          return false;
        }
        const std::uint32_t place = vitrine_row_place(&model_key, generation, half, attempt++);
        const std::uint32_t found = vitrine_row_try(&(*rows)[place], &model_key);
        if (found == VITRINE_ROW_OTHER) return false;
        begins_model = found == VITRINE_ROW_CLAIMED;
        is_span = found == VITRINE_ROW_KNOWN;
        if (begins_model || is_span) model = place + 1;
        at = At::sends;
        return false;
      }
      case At::adds:
        if (vitrine_row_add(&(*rows)[number - 1], sample.time_ns, bits, sample.off_ns)) {
          add(fired, sample);
          at = At::idle;
        } else {
          number = 0;
          send();
        }
        return false;
      case At::sends:
        sent = send_to({sample, number, generation, model, is_span});
        if (sent) add(fired, sample);
        at = number != 0 ? At::finishes : begins_model ? At::finishes_model : At::idle;
        return !sent;
      case At::finishes:
        vitrine_row_finish(&(*rows)[number - 1], &key, sent ? 1 : 0);
        at = begins_model ? At::finishes_model : At::idle;
        return false;
      case At::finishes_model:
        vitrine_row_finish(&(*rows)[model - 1], &model_key, sent ? 1 : 0);
        at = At::idle;
        return false;
      case At::idle:
        break;
    }
    return false;
  }
};

/// What bpf/profiler.cpp and observe/profile do with what they get.
struct Reader {
  Reader(RowTable& its, SpanLogs& logs) : table(&its), span_logs(&logs) {}

  RowTable* table;
  SpanLogs* span_logs;
  std::uint32_t generation = 0;  ///< that samples are of now
  Sums taken;
  std::map<std::uint32_t, std::uint64_t> key_of_row, model_of_row;
  std::deque<Record> later;  ///< of the next generation, with room for a few
  std::size_t room = 0;
  /// Those of later generations that had no room, as rows and as models: they are not known until the row is freed.
  std::set<std::uint32_t> dropped;
  std::uint64_t spans_taken = 0, put_aside = 0, dropped_models = 0, lost_spans = 0, lost = 0,
                late = 0, late_spans = 0, logged = 0, waited = 0, unknown = 0;

  void take(Record record) {
    if (!RowTable::are_kept(record.generation, generation)) {
      ++(record.is_span ? late_spans : late);
      if (record.is_span) {
        ++lost;
        return;
      }
      record.row = record.model = 0;
    }
    if (record.is_span && !model_of_row.contains(record.model)) {
      ASSERT_TRUE(dropped.contains(record.model) || record.generation != generation)
          << "its model came before";
      ++lost_spans, ++lost;
      if (table->add(record.row, true)) dropped.insert(record.row);
      return;
    }
    if (record.is_span) {  // all but its span is its model's
      ASSERT_EQ(model_of_row[record.model], record.sample.model());
      ++spans_taken;
    } else if (record.model != 0) {
      model_of_row[record.model] = *record.sample.model();
      dropped.erase(record.model);
      table->add_model(record.model);
    }
    add(taken, record.sample);
    if (!table->add(record.row, record.is_span)) return;
    key_of_row[record.row] = record.sample.key;
    dropped.erase(record.row);
  }
  void take_later() {
    for (const Record& record : std::exchange(later, {})) take(record);
  }
  /// As LoadedProfiler::take_spans().
  void take_spans(std::uint32_t until, bool is_last) {
    logged += span_logs->take([&](const vitrine_span_sample& span) {
      if (RowTable::is_later(span.generation, until)) return false;
      const bool is_known =
          !RowTable::are_kept(span.generation, generation) || table->has_model(span.model);
      if (is_known) {
        take(record_of(span));
      } else if (is_last) {
        ++unknown, ++lost;
        if (span.row != 0) dropped.insert(span.row);
      } else {
        ++waited;
      }
      return is_known || is_last;
    });
  }
  /// While `ending` ends.
  void take_until(std::uint32_t ending, const Record& record) {
    if (record.generation == ending) return take(record);
    if (later.size() < room) {
      ++put_aside;
      return later.push_back(record);
    }
    ++lost;
    if (record.row != 0) dropped.insert(record.row);
    if (record.model == 0 || record.is_span) return;
    dropped.insert(record.model);
    ++dropped_models;
  }
  /// All rows, and what is referred to, are begun anew.
  void end() {
    key_of_row.clear();
    model_of_row.clear();
  }
  void take(const RowPart& part) {
    if (!key_of_row.contains(part.row)) {
      ASSERT_TRUE(dropped.contains(part.row)) << "its first sample came before";
      lost += part.samples;
      return;
    }
    add(taken, {key_of_row[part.row], part.time_ns, part.off_ns}, part.samples);
  }
  RowTable::Sink sink() {
    return [this](const RowPart& part) { take(part); };
  }
};

std::uint64_t samples_in(const Sums& sums) {
  std::uint64_t out = 0;
  for (const auto& [at, sum] : sums) out += sum.samples;
  return out;
}

class Interleavings : public testing::TestWithParam<unsigned> {};

TEST_P(Interleavings, HaveEachSampleOnceOrLost) {
  std::mt19937 random(GetParam());
  const auto below = [&](std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most - 1)(random);
  };
  std::vector<vitrine_row> rows(std::size_t{2} * half);
  RowTable table(rows);
  Ring ring;
  std::array<Program, 3> programs;
  std::vector<vitrine_span_place> logs(programs.size() * places);
  SpanLogs span_logs(logs, places);
  std::array<std::uint64_t, 4> met{};
  for (std::size_t n = 0; n < programs.size(); ++n) {
    Program& program = programs[n];
    program.rows = &rows, program.ring = &ring, program.met = &met;
    // One finds its log full at all times, as one beside a late reader does.
    if (n != 0) program.log = std::span(logs).subspan(n * places, places);
  }
  Reader reader(table, span_logs);
  Sums fired;
  std::uint64_t now = 1, without_room = 0;
  std::uint32_t generation = 0;
  const auto consume = [&](std::size_t most) {
    reader.take_later();
    for (; most != 0 && !ring.records.empty(); --most) {
      reader.take(ring.records.front());
      ring.records.pop_front();
    }
  };
  const auto run_on = [&](Program& program) {
    if (program.at == Program::At::idle) program.begin({below(keys), now, below(1000)}, generation);
    without_room += program.step(fired) ? 1 : 0;
  };
  for (int step = 0; step < 60'000; ++step) {
    now += below(40);
    if (below(10) != 0) {
      run_on(programs[below(programs.size())]);
    } else if (below(3) != 0) {
      consume(below(4));
      if (below(4) == 0) reader.take_spans(generation, false);
    } else if (below(4) != 0) {
      table.take(reader.sink());
    } else {
      const std::uint32_t ending = generation;
      reader.take_later();
      reader.room = below(6);
      table.end(ending + 1, reader.sink());
      reader.lost += table.forget(ending + 1);  // of records that were dropped
      reader.generation = ++generation;
      for (Program& program : programs)  // those that are under way end: let_programs_end()
        while (program.at != Program::At::idle && program.generation == ending) run_on(program);
      do {
        for (std::uint64_t n = below(20); n != 0; --n) run_on(programs[below(programs.size())]);
        // At times the reader's time ends before the buffer is empty.
        for (std::uint64_t most = below(3) == 0 ? below(4) : ring.room;
             most != 0 && !ring.records.empty(); --most) {
          reader.take_until(ending, ring.records.front());
          ring.records.pop_front();
        }
      } while (below(2) != 0);
      reader.take_spans(ending, true);
      table.end(ending, reader.sink());
      reader.end();
    }
  }
  for (Program& program : programs)
    while (program.at != Program::At::idle) run_on(program);
  consume(~std::size_t{0});
  reader.take_spans(generation, true);
  // take() looks no more at rows of spans that nothing was added to.
  for (const std::uint32_t each : {0U, 1U}) table.end(each, reader.sink());
  reader.lost += table.forget(0) + table.forget(1);
  EXPECT_EQ(samples_in(reader.taken) + reader.lost, samples_in(fired));
  for (const auto& [at, sum] : reader.taken) {
    EXPECT_LE(sum.samples, fired[at].samples);
    EXPECT_LE(sum.off_ns, fired[at].off_ns);
  }
  EXPECT_GT(without_room, 0U) << "the buffer was full at times";
  EXPECT_GT(reader.spans_taken, 0U);
  EXPECT_GT(reader.logged, 0U);
  EXPECT_GT(reader.waited, 0U) << "a model came after its span";
  EXPECT_GT(reader.unknown, 0U);
  EXPECT_GT(reader.put_aside, 0U);
  EXPECT_GT(reader.dropped_models, 0U);
  EXPECT_GT(reader.lost_spans, 0U);
  EXPECT_GT(reader.late, 0U) << "the buffer was not emptied in time";
  EXPECT_GT(reader.late_spans, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Interleavings, testing::Range(1U, 41U));

TEST(RowTable, GivesEachSampleOnceWhileThreadsAdd) {
  std::vector<vitrine_row> rows(std::size_t{2} * half);
  RowTable table(rows);
  std::array<Sums, 2> fired;
  std::mutex mutex;  // of `records`: that is not what is tested
  std::deque<Record> records;
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint64_t> clock{1};
  std::array<std::atomic<std::uint32_t>, 2> under_way{};  // in which generation, plus one
  std::array<std::thread, 2> threads;
  for (std::size_t me = 0; me < threads.size(); ++me) {
    threads[me] = std::thread([&, me] {
      std::mt19937 random(static_cast<unsigned>(me));
      for (int n = 0; n < 200'000; ++n) {
        Sample sample{random() % keys, clock.fetch_add(1), random() % 100};
        std::uint32_t its = 0;
        do {
          its = generation;
          under_way[me] = its + 1;
        } while (its != generation);
        const vitrine_row_key key = key_of(sample.key);
        vitrine_row* row = nullptr;
        std::uint32_t number = 0, found = VITRINE_ROW_OTHER;
        for (std::uint32_t i = 0; i < VITRINE_ROW_TRIES && found == VITRINE_ROW_OTHER; ++i) {
          number = vitrine_row_place(&key, its, half, i);
          row = &rows[number];
          found = vitrine_row_try(row, &key);
        }
        const bool added = found == VITRINE_ROW_KNOWN &&
                           vitrine_row_add(row, sample.time_ns, bits, sample.off_ns) != 0;
        if (!added) {
          const bool is_first = found == VITRINE_ROW_CLAIMED;
          const std::lock_guard lock(mutex);
          records.push_back({sample, is_first ? number + 1 : 0, its, 0, false});
          if (is_first) vitrine_row_finish(row, &key, 1);
        }
        under_way[me] = 0;
        Sum& sum = fired[me][{sample.key, 0}];
        sum.samples += 1;
        sum.off_ns += sample.off_ns;
      }
      under_way[me] = ~0U;
    });
  }
  std::vector<vitrine_span_place> logs(places);
  SpanLogs span_logs(logs, places);
  Reader reader(table, span_logs);
  const auto consume = [&] {
    std::deque<Record> mine;
    {
      const std::lock_guard lock(mutex);
      mine.swap(records);
    }
    for (const Record& record : mine) reader.take(record);
  };
  for (std::uint32_t now = 0; under_way[0] != ~0U || under_way[1] != ~0U; ++now) {
    consume();
    table.take(reader.sink());
    if (now % 8 != 7) continue;
    const std::uint32_t ending = generation++;
    reader.generation = generation;
    for (const auto& its : under_way)
      while (its == ending + 1) std::this_thread::yield();
    consume();
    table.end(ending, reader.sink());
    // What was sent by those of the new generation is known by now, or comes next.
  }
  for (std::thread& thread : threads) thread.join();
  consume();
  for (const std::uint32_t each : {0U, 1U}) table.end(each, reader.sink());
  Sums all, taken;
  for (const Sums& its : fired)
    for (const auto& [at, sum] : its) {
      all[at].samples += sum.samples;
      all[at].off_ns += sum.off_ns;
    }
  for (const auto& [at, sum] : reader.taken) {
    taken[{at.first, 0}].samples += sum.samples;
    taken[{at.first, 0}].off_ns += sum.off_ns;
  }
  EXPECT_EQ(taken, all);
}

TEST(RowTable, CountsWhatIsForgotten) {
  std::vector<vitrine_row> rows(std::size_t{2} * half);
  RowTable table(rows);
  const vitrine_row_key key = key_of(3);
  vitrine_row& row = rows[vitrine_row_place(&key, 0, half, 0)];
  ASSERT_EQ(vitrine_row_try(&row, &key), VITRINE_ROW_CLAIMED);
  ASSERT_EQ(vitrine_row_try(&row, &key), VITRINE_ROW_BUSY);
  vitrine_row_finish(&row, &key, 1);
  ASSERT_EQ(vitrine_row_try(&row, &key), VITRINE_ROW_KNOWN);
  EXPECT_EQ(vitrine_row_add(&row, 5, bits, 0), 1);
  EXPECT_EQ(vitrine_row_add(&row, 6, bits, 0), 1);
  table.end(0, [](const RowPart&) { FAIL() << "its first sample has not come in"; });
  EXPECT_EQ(table.forget(0), 2u);
  EXPECT_EQ(row.key[0], 0u);
  EXPECT_FALSE(table.add(0));
  EXPECT_FALSE(table.add(2 * half + 1));
}

TEST(RowTable, RefusesWhatACellHasNoRoomFor) {
  vitrine_row row{};
  EXPECT_EQ(vitrine_row_add(&row, 5, bits, VITRINE_ROW_SUM >> VITRINE_ROW_COUNT_BITS), 0);
  EXPECT_EQ(vitrine_row_add(&row, 5, bits, 1), 1);
  // The same cell, and another stretch of time.
  EXPECT_EQ(vitrine_row_add(&row, 5 + (std::uint64_t{VITRINE_ROW_CELLS} << bits), bits, 1), 0);
  for (std::uint32_t n = 1; n < VITRINE_ROW_SAMPLES; ++n)
    ASSERT_EQ(vitrine_row_add(&row, 5, bits, 0), 1);
  EXPECT_EQ(vitrine_row_add(&row, 5, bits, 0), 0);
}

}  // namespace
}  // namespace vitrine::bpf
