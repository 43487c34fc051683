// The page: a profile inside one HTML file that shows it, with no network.
//
// The page is built from web/ (one template with its script and style in it) and holds a marker
// where the data goes, inside <script type="application/json">. This file writes that data; its
// other end is web/src/data.ts. Only these two know version 1 of this layout:
//
//   version 1, title, start_ms (Unix), duration_ns, frequency, group_by [key…],
//   compare [key, left value, right value] or [],
//   remarks [what was lost or went wrong…]
//   strings [text…]              every text below is an index here
//   frames    {name, module, source, problem, line, kind, inlined}   what a stack is made of:
//             kind 0 native, 1 kernel, 2 jit, 3 no symbol, 4 marks a stack that is not whole
//             line: where the function begins
//   nodes     {frame, up, line?} all stacks as one tree, parents first: the parent of node i is
//             i - up[i], and up[i] = 0 is a root. A stack is the node of its innermost frame. line
//             is the line of the frame's source that was executed there, 0 where that is not known.
//   label_sets {size, key, value}   size[i] entries of key and value belong to set i
//   links     {trace, span}      hex
//   processes {pid, command, executable}
//   threads   {tid, name}
//   samples   {time_us, value_ns, off_cpu, node, labels, process, thread, cpu, link, count?}, by
//             time; time_us is since the sample before (the first: since start); count is how many
//             samples it is the sum of, where one is more than 1
//
// Tables are columns: {a: […], b: […]} of one length. -1 is no entry. Numbers stay below 2^53.
#include "profile/html.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

using namespace page;

enum PageKind : std::uint8_t { page_unknown = 3, page_not_whole = 4 };

struct PageFrame {
  Index name, module, source, problem;
  std::uint32_t line;
  std::uint8_t kind;
  bool inlined;
  bool operator==(const PageFrame&) const = default;
};

struct PageFrameHash {
  std::size_t operator()(const PageFrame& frame) const {
    std::size_t hash = mix(frame.name, frame.module);
    hash = mix(hash, frame.source);
    hash = mix(hash, frame.problem);
    return mix(hash, std::uint64_t{frame.line} << 9 | std::uint64_t{frame.kind} << 1 |
                         std::uint64_t{frame.inlined});
  }
};

/// Of a thread: its id, and its name among the strings.
using PageThread = std::pair<std::uint32_t, Index>;
/// A frame, and the line of its source that was executed; 0: not known.
using Place = std::pair<Index, std::uint32_t>;
struct PairHash {
  std::size_t operator()(const std::pair<std::uint32_t, std::uint32_t>& pair) const {
    return mix(pair.first, pair.second);
  }
};

/// Stacks as a tree of frames.
class Tree {
 public:
  Tree(const Profile& profile, Strings& strings) : profile_(profile), strings_(strings) {
    node_of_.assign(profile.stacks.size(), none);
    places_of_.resize(profile.locations.size());
  }

  /// The node of a stack's innermost frame; none: it has no frames.
  Index node_of(Index stack) {
    if (stack >= profile_.stacks.size()) return none;
    if (node_of_[stack] == none) node_of_[stack] = insert(profile_.stacks[stack]);
    return node_of_[stack];
  }

  [[nodiscard]] std::string frames_json() const {
    Column name, module, source, problem, line, kind, inlined;
    for (const PageFrame& frame : frames_.values()) {
      name.add_index(frame.name);
      module.add_index(frame.module);
      source.add_index(frame.source);
      problem.add_index(frame.problem);
      line.add(frame.line);
      kind.add(frame.kind);
      inlined.add(frame.inlined ? 1 : 0);
    }
    return object({{"name", name.json()},
                   {"module", module.json()},
                   {"source", source.json()},
                   {"problem", problem.json()},
                   {"line", line.json()},
                   {"kind", kind.json()},
                   {"inlined", inlined.json()}});
  }

  [[nodiscard]] std::string nodes_json() const {
    Column frame, up, line;
    bool lines = false;
    for (Index node = 0; node < nodes_.size(); ++node) {
      const Place& place = places_.values()[nodes_[node].place];
      frame.add(place.first);
      up.add(nodes_[node].parent == none ? 0 : node - nodes_[node].parent);
      line.add(place.second);
      lines = lines || place.second != 0;
    }
    std::vector<std::pair<std::string_view, std::string>> columns{{"frame", frame.json()},
                                                                  {"up", up.json()}};
    if (lines) columns.emplace_back("line", line.json());
    return object(columns);
  }

 private:
  struct Node {
    Index parent, place;
  };

  /// The place that a frame with this line is.
  Index place(const PageFrame& frame, std::uint32_t line) {
    return places_.add(Place{frames_.add(frame), line});
  }

  Index child(Index parent, Index place) {
    const std::uint64_t key = std::uint64_t{parent} << 32 | place;
    const auto [at, fresh] = children_.try_emplace(key, static_cast<Index>(nodes_.size()));
    if (fresh) nodes_.push_back({parent, place});
    return at->second;
  }

  Index insert(const Stack& stack) {
    Index node = none;
    if (const std::string_view mark = end_mark(stack.end); !mark.empty())
      node = child(
          node, place(PageFrame{strings_.of(mark), none, none, none, 0, page_not_whole, false}, 0));
    for (auto at = stack.locations.rbegin(); at != stack.locations.rend(); ++at)
      if (*at < profile_.locations.size())
        for (const Index place : places_of(*at)) node = child(node, place);
    return node;
  }

  /// Outermost first.
  const std::vector<Index>& places_of(Index index) {
    std::vector<Index>& places = places_of_[index];
    if (!places.empty()) return places;
    const Location& location = profile_.locations[index];
    const Mapping* mapping = entry(profile_.mappings, location.mapping);
    const Index module = mapping != nullptr ? strings_.of(mapping->file) : none;
    const Index problem = location.problem.empty() ? none : strings_.of(location.problem);
    std::string scratch;
    const std::vector<std::string_view> names = frame_names(profile_, location, scratch);
    std::vector<std::pair<const Function*, std::uint32_t>> lines;
    for (const Line& line : location.lines)
      if (const Function* function = entry(profile_.functions, line.function))
        lines.emplace_back(function, line.line);
    // Without a symbol there is one name, of the file: addresses on their own would add nothing.
    const bool nameless = lines.empty() && location.kind != FrameKind::kernel;
    const auto kind =
        nameless ? std::uint8_t{page_unknown} : static_cast<std::uint8_t>(location.kind);
    for (std::size_t i = names.size(); i-- > 0;) {
      const auto [function, line] =
          i < lines.size() ? lines[i] : std::pair<const Function*, std::uint32_t>{};
      const bool known = function != nullptr && !function->file.empty();
      places.push_back(
          place(PageFrame{strings_.of(names[i]), module, known ? strings_.of(function->file) : none,
                          problem, known ? function->start_line : 0, kind, i + 1 < names.size()},
                known ? line : 0));
    }
    return places;
  }

  const Profile& profile_;
  Strings& strings_;
  Interner<PageFrame, PageFrameHash> frames_;
  Interner<Place, PairHash> places_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Index> children_;
  std::vector<Index> node_of_;
  std::vector<std::vector<Index>> places_of_;
};

std::string label_sets_json(const Profile& profile, Strings& strings) {
  Column size, key, value;
  for (const LabelSet& set : profile.label_sets) {
    size.add(set.size());
    for (const Label& label : set) {
      key.add(strings.of(label.key));
      value.add(strings.of(label.value));
    }
  }
  return object({{"size", size.json()}, {"key", key.json()}, {"value", value.json()}});
}

std::string links_json(const Profile& profile, Strings& strings) {
  Column trace, span;
  for (const Link& link : profile.links) {
    trace.add(strings.of(hex_text(link.trace_id)));
    span.add(strings.of(hex_text(link.span_id)));
  }
  return object({{"trace", trace.json()}, {"span", span.json()}});
}

std::string processes_json(const Profile& profile, Strings& strings) {
  Column pid, command, executable;
  for (const Process& process : profile.processes) {
    pid.add(process.pid);
    command.add(strings.of(process.command));
    executable.add(strings.of(process.executable));
  }
  return object(
      {{"pid", pid.json()}, {"command", command.json()}, {"executable", executable.json()}});
}

struct SampleTables {
  std::string samples, threads;
};

SampleTables samples_json(const Profile& profile, Tree& tree, Strings& strings) {
  std::vector<std::size_t> by_time(profile.samples.size());
  std::iota(by_time.begin(), by_time.end(), std::size_t{0});
  std::ranges::stable_sort(by_time, {}, [&](std::size_t i) { return profile.samples[i].time_ns; });

  const auto known = [](Index index, std::size_t size) { return index < size ? index : none; };
  Interner<PageThread, PairHash> threads;
  Column time, value, off_cpu, node, labels, process, thread, cpu, link, count;
  bool sums = false;
  std::uint64_t before = 0;
  for (const std::size_t i : by_time) {
    const Sample& sample = profile.samples[i];
    const std::uint64_t at = (std::max(sample.time_ns, profile.start_ns) - profile.start_ns) / 1000;
    time.add(at - before);
    before = at;
    value.add(sample.value_ns);
    off_cpu.add(sample.measure == Measure::off_cpu ? 1 : 0);
    node.add_index(tree.node_of(sample.stack));
    labels.add_index(known(sample.labels, profile.label_sets.size()));
    process.add_index(known(sample.process, profile.processes.size()));
    thread.add(threads.add(PageThread{sample.tid, strings.of(sample.thread_name)}));
    cpu.add(sample.cpu);
    link.add_index(known(sample.link, profile.links.size()));
    count.add(sample.count);
    sums = sums || sample.count != 1;
  }
  Column tid, name;
  for (const auto& [id, text_of] : threads.values()) {
    tid.add(id);
    name.add(text_of);
  }
  std::vector<std::pair<std::string_view, std::string>> columns{
      {"time_us", time.json()},  {"value_ns", value.json()}, {"off_cpu", off_cpu.json()},
      {"node", node.json()},     {"labels", labels.json()},  {"process", process.json()},
      {"thread", thread.json()}, {"cpu", cpu.json()},        {"link", link.json()}};
  if (sums) columns.emplace_back("count", count.json());
  return {object(columns), object({{"tid", tid.json()}, {"name", name.json()}})};
}

std::string number(std::uint64_t value) {
  return fmt::format("{}", std::min(value, exact));
}

std::string data_json(const Profile& profile, const EncodeOptions& options) {
  Strings strings;
  Tree tree(profile, strings);
  const SampleTables tables = samples_json(profile, tree, strings);
  const std::string label_sets = label_sets_json(profile, strings);
  const std::string links = links_json(profile, strings);
  const std::string processes = processes_json(profile, strings);
  return object({{"version", "1"},
                 {"title", text(options.title)},
                 {"start_ms", number(profile.start_ns / 1'000'000)},
                 {"duration_ns", number(profile.duration_ns)},
                 {"frequency", number(profile.frequency)},
                 {"group_by", texts(options.group_by)},
                 {"compare", texts(options.compare)},
                 {"remarks", texts(remarks(profile))},
                 {"strings", strings.json()},
                 {"frames", tree.frames_json()},
                 {"nodes", tree.nodes_json()},
                 {"label_sets", label_sets},
                 {"links", links},
                 {"processes", processes},
                 {"threads", tables.threads},
                 {"samples", tables.samples}});
}

}  // namespace

Result<std::string> encode_html(const Profile& profile, const EncodeOptions& options) {
  constexpr std::string_view marker = "{\"vitrine\":\"data\"}";
  const std::string_view page = page_template();
  const std::size_t at = page.find(marker);
  if (at == std::string_view::npos)
    return fail(ErrorCode::failed, "the page template has no place for data",
                "run npm run build in web/ and build again");
  std::string html(page.substr(0, at));
  html += data_json(profile, options);
  html += page.substr(at + marker.size());
  return html;
}

}  // namespace vitrine::profile
