// `vitrine usdt link` over 1,000 objects with 10,000 sites, beside the compiler that made them; and what
// 10,000 probes cost a program's start: with addresses relative to themselves, as we write them, and
// with absolute ones in a writable section, as a DOF without PC-relative relocations needs them.
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "process.hpp"

namespace {

using bench::Cost, bench::median, bench::run, bench::Words;
namespace fs = std::filesystem;

constexpr int sources = 10;  ///< compiled; one percent of the objects
constexpr int objects = 1'000;
constexpr int functions = 10;  ///< of an object, a site in each

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "usdt_bench: %s failed\n", what.c_str());
  std::exit(1);
}

Cost must(const Words& words, const std::string& errors = "/dev/null") {
  if (const auto cost = run(words, errors)) return *cost;
  std::string command;
  for (std::size_t i = 0; i < std::min<std::size_t>(words.size(), 12); ++i)
    command += words[i] + " ";
  fail(command);
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Functions of a dozen lines, as a program might have them.
std::string source(int number) {
  std::ostringstream out;
  out << "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"load.h\"\n";
  for (int i = 0; i < functions; ++i)
    out << "struct item" << i << " { struct item" << i << " *next; char name[32]; long size; };\n"
        << "__attribute__((used)) static int work_" << number << '_' << i << "(struct item" << i
        << " *list, const char *name, long size) {\n  int found = 0;\n"
        << "  for (struct item" << i << " *at = list; at; at = at->next) {\n"
        << "    if (strcmp(at->name, name) != 0) continue;\n    at->size += size;\n"
        << "    LOAD_PROBE_" << i << "(found, at->name, at->size);\n    ++found;\n  }\n"
        << "  if (!found) fprintf(stderr, \"no %s of %ld\\n\", name, size + " << number
        << ");\n  return found;\n}\n";
  return out.str();
}

/// The objects, of which `sources` were compiled; and what that took.
struct Made {
  std::vector<std::string> paths;
  double compile_ms = 0;  ///< all `sources`
};

Made make_objects(const fs::path& folder) {
  std::string definition = "provider load {\n";
  for (int i = 0; i < functions; ++i)
    definition += "  probe probe__" + std::to_string(i) + "(int, const char *, long);\n";
  write_file(folder / "load.d", definition + "};\n");
  must({VITRINE, "usdt", "header", "-s", folder / "load.d", "-o", folder / "load.h"});
  Made made;
  for (int i = 0; i < sources; ++i) {
    const fs::path path = folder / ("source" + std::to_string(i) + ".c");
    write_file(path, source(i));
    const fs::path compiled = folder / ("compiled" + std::to_string(i) + ".o");
    made.compile_ms +=
        must({"gcc", "-O2", "-g", "-fPIE", "-I" + folder.string(), "-c", path, "-o", compiled})
            .elapsed;
    const std::string bytes = read_file(compiled);
    for (int copy = i; copy < objects; copy += sources) {
      made.paths.push_back(folder / ("object" + std::to_string(copy) + ".o"));
      // No two of a program's objects are the same: each ends in its number.
      write_file(made.paths.back(), bytes + "copy " + std::to_string(1000 + copy));
    }
  }
  return made;
}

Cost link_step(const fs::path& folder, const std::vector<std::string>& paths) {
  Words words{VITRINE, "usdt", "link", "-s", folder / "load.d", "-o", folder / "probes.o"};
  words.insert(words.end(), paths.begin(), paths.end());
  return must(words);
}

void step(const fs::path& folder) {
  const Made made = make_objects(folder);
  std::printf("The object step\n  compiling %d of %d objects took %.0f ms\n", sources, objects,
              made.compile_ms);
  // A first run over a quarter, on copies, for how cost grows.
  std::vector<std::string> quarter;
  fs::create_directory(folder / "quarter");
  for (int i = 0; i < objects; i += 4) {
    const auto& from = made.paths[static_cast<std::size_t>(i)];
    quarter.push_back(folder / "quarter" / fs::path(from).filename());
    fs::copy_file(from, quarter.back());
  }
  const auto show = [](const char* what, std::size_t count, const Cost& cost) {
    std::printf("  %-34s %7.0f ms %9.0f objects/s %8.1f us a site %7ld KiB\n", what, cost.elapsed,
                static_cast<double>(count) / cost.elapsed * 1e3,
                cost.elapsed * 1e3 / static_cast<double>(count * functions), cost.peak);
  };
  show("250 objects, 2,500 sites", quarter.size(), link_step(folder, quarter));
  show("1,000 objects, 10,000 sites", made.paths.size(), link_step(folder, made.paths));
  std::vector<double> times;
  Cost again;
  for (int round = 0; round < 5; ++round) {
    again = link_step(folder, made.paths);
    times.push_back(again.elapsed);
  }
  again.elapsed = median(times);
  show("the same again: nothing to rewrite", made.paths.size(), again);
  std::printf("  again, as a share of compiling 1%% of them: %.2f (wanted: below 1)\n",
              again.elapsed / made.compile_ms);
}

/// Makes the addresses of a probe object absolute ones, in a section that can be written. Returns how
/// many.
int make_absolute(const fs::path& from, const fs::path& to) {
  std::string bytes = read_file(from);
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
  const char* names = bytes.data() + sections[header->e_shstrndx].sh_offset;
  int changed = 0;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (std::strcmp(names + sections[i].sh_name, ".SUNW_dof") == 0)
      sections[i].sh_flags |= SHF_WRITE;
    if (sections[i].sh_type != SHT_RELA ||
        std::strcmp(names + sections[sections[i].sh_info].sh_name, ".SUNW_dof") != 0)
      continue;
    auto* relocations = reinterpret_cast<Elf64_Rela*>(bytes.data() + sections[i].sh_offset);
    for (std::size_t j = 0; j < sections[i].sh_size / sizeof *relocations; ++j) {
      if (ELF64_R_TYPE(relocations[j].r_info) != R_X86_64_PC64) continue;
      relocations[j].r_info = ELF64_R_INFO(ELF64_R_SYM(relocations[j].r_info), R_X86_64_64);
      ++changed;
    }
  }
  write_file(to, bytes);
  return changed;
}

/// What the dynamic linker says of itself: the number behind a heading.
double statistic(const std::string& text, const std::string& heading) {
  const std::size_t at = text.find(heading);
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + heading.size());
}

void starts(const fs::path& folder, const char* what, const fs::path& program) {
  std::vector<double> relocation, total;
  double relative = 0;
  const fs::path said = folder / "said";
  for (int round = 0; round < 41; ++round) {
    must({"env", "LD_DEBUG=statistics", program}, said);
    const std::string text = read_file(said);
    relocation.push_back(statistic(text, "time needed for relocation: "));
    total.push_back(statistic(text, "total startup time in dynamic loader: "));
    relative = statistic(text, "number of relative relocations: ");
  }
  std::printf("  %-34s %8.0f %14.0f %14.0f %14.0f\n", what, relative, median(relocation),
              median(total), static_cast<double>(fs::file_size(program)));
}

void start(const fs::path& folder) {
  write_file(folder / "main.c", "int main(void) { return 0; }\n");
  write_file(folder / "objects.txt", [&] {
    std::string list;
    for (int i = 0; i < objects; ++i)
      list += (folder / ("object" + std::to_string(i) + ".o")).string() + "\n";
    return list;
  }());
  const std::string list = "@" + (folder / "objects.txt").string();
  const int absolute = make_absolute(folder / "probes.o", folder / "absolute.o");
  const auto link = [&](const char* name, const char* probes) {
    must({"gcc", "-pie", folder / "main.c", list, folder / probes, "-o", folder / name});
    return folder / name;
  };
  std::printf("\nA PIE with 10,000 probes starting, medians of 41\n  %-34s %8s %14s %14s %14s\n",
              "", "relative", "relocation", "dynamic linker", "file");
  std::printf("  %-34s %8s %14s %14s %14s\n", "", "reloc.", "cycles", "cycles", "bytes");
  starts(folder, "relative to themselves (ours)", link("ours", "probes.o"));
  starts(folder, (std::to_string(absolute) + " absolute, writable section").c_str(),
         link("theirs", "absolute.o"));
}

}  // namespace

int main() {
  char name[] = "/tmp/vitrine-usdt-bench-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  step(folder);
  start(folder);
  fs::remove_all(folder);
}
