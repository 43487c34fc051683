// Every bound on what we take from another process or file, with its reason. What a bound cuts is
// flagged in the result, never dropped silently (docs/formats/custom-labels.md,
// "What a reader must check").
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vitrine::limits {

/// Bounds on one reading of label sets. Callers may raise them up to the hard caps.
struct LabelLimits {
  std::size_t labels_per_set = 256;            ///< hard cap 4,096
  std::size_t key_bytes = 1024;                ///< hard cap 64 KiB
  std::size_t value_bytes = 16 * 1024;         ///< hard cap 1 MiB
  std::size_t bytes_per_thread = 64 * 1024;    ///< hard cap 4 MiB
  std::size_t bytes_per_snapshot = 64U << 20;  ///< hard cap 1 GiB; threads past it are reported
};

inline constexpr LabelLimits hard_label_limits{4096, 64 * 1024, 1U << 20, 4U << 20, 1U << 30};

/// `asked`, but not above the hard caps.
constexpr LabelLimits within_hard_caps(LabelLimits asked) {
  constexpr LabelLimits most = hard_label_limits;
  return {std::min(asked.labels_per_set, most.labels_per_set),
          std::min(asked.key_bytes, most.key_bytes), std::min(asked.value_bytes, most.value_bytes),
          std::min(asked.bytes_per_thread, most.bytes_per_thread),
          std::min(asked.bytes_per_snapshot, most.bytes_per_snapshot)};
}

/// The lowest address a user mapping can have in practice (vm.mmap_min_addr): below it, a pointer
/// is a small integer that was taken for a pointer.
inline constexpr std::uint64_t lowest_address = 64 * 1024;

inline constexpr unsigned sampling_frequency = 10'000;  ///< samples a second a CPU

inline constexpr std::size_t context_payload_bytes = 1U << 20;  ///< eBPF profiler takes 64 KiB
inline constexpr std::size_t context_attributes = 1024;         ///< per message list
inline constexpr std::size_t context_nesting = 16;              ///< AnyValue depth
inline constexpr std::size_t context_mappings = 64;             ///< looked at in one process
inline constexpr std::size_t key_map_entries = 256;             ///< key index is one byte

inline constexpr std::size_t definitions = 16;  ///< label slots of one process; two are usual
/// What one search of a process for its modules and definitions may read: seconds, where an honest
/// process with hundreds of libraries takes milliseconds.
inline constexpr std::uint64_t search_requests = 2U << 20;
inline constexpr std::uint64_t search_bytes = 2ULL << 30;
inline constexpr std::size_t search_windows = 8 * 1024;  ///< KiB of it kept meanwhile
inline constexpr std::size_t search_notes = 64;          ///< complaints kept about one process

inline constexpr std::size_t modules = 16 * 1024;  ///< link-map nodes of one process
/// What is kept of the modules of one process: bytes. A thousand libraries have 2 MiB.
inline constexpr std::size_t module_bytes = 16U << 20;
/// The same of all processes that are traced or profiled together.
inline constexpr std::size_t all_module_bytes = 256U << 20;
inline constexpr std::size_t symbols = 1U << 20;              ///< looked at in one module
inline constexpr std::size_t relocations = 4U << 20;          ///< looked at in one module
inline constexpr std::size_t symbol_name_table = 256U << 20;  ///< bytes of .strtab searched
inline constexpr std::size_t program_headers = 1024;          ///< of one module
inline constexpr std::uint64_t file_symbols = 16U << 20;  ///< of one file: Chromium has two million
inline constexpr std::uint64_t sections = 1U << 20;       ///< of one file: 64 MiB of headers
inline constexpr std::uint64_t file_segments = 128 * 1024;  ///< of one file; PN_XNUM is 65,535
inline constexpr std::uint64_t section_names = 64U << 20;   ///< bytes of .shstrtab
inline constexpr std::uint64_t note_section = 256U << 20;   ///< bytes: some four million probes
// Of a file that is listed without a worker (PlainNotes).
inline constexpr std::size_t plain_headers = 64U << 10;  ///< bytes of all headers: 1,000 sections
inline constexpr std::uint64_t plain_notes = 1U << 20;   ///< bytes: some 15,000 probes
inline constexpr std::size_t name_bytes = 4096;          ///< symbol, path and soname strings
inline constexpr std::size_t threads = 1U << 20;         ///< of one process (kernel: pid_max)
inline constexpr std::size_t stack_reads =
    2048;  ///< pages of arguments (6 MiB at most) passed over
inline constexpr std::size_t map_lines = 1U << 20;  ///< of /proc/PID/maps

inline constexpr std::size_t note_problems = 256;       ///< reported of one section; others counted
inline constexpr std::size_t probe_notes = 1U << 20;    ///< of one section; libjvm has 566
inline constexpr std::size_t enumerators = 256 * 1024;  ///< given to the probes of one file
inline constexpr std::size_t argument_text = 64 * 1024;  ///< bytes of one site's argument list
inline constexpr std::size_t argument_depth = 32;  ///< parentheses in one operand; compilers: 2

inline constexpr std::uint64_t dof_bytes = 256U << 20;           ///< of one DOF, as Oracle's parser
inline constexpr std::uint64_t dof_header_bytes = 4096;          ///< of its header; 64 are usual
inline constexpr std::uint64_t dof_section_header_bytes = 4096;  ///< 32 are usual
inline constexpr std::uint64_t dof_search_bytes = 1ULL << 30;    ///< of a file without sections
inline constexpr std::size_t dof_problems = 256;  ///< reported of one DOF; others counted
/// Decoding: a record of 76 bytes may have 255 types of its own, or share them with every other.
inline constexpr std::uint64_t dof_expansion = 256;               ///< times the DOF's own size,
inline constexpr std::uint64_t dof_decoded_bytes = 256ULL << 20;  ///< and never more than this
/// Longest names that DTrace takes. Beyond them illumos and Oracle refuse the whole DOF.
inline constexpr std::size_t dof_provider_name = 63;
inline constexpr std::size_t dof_probe_name = 63;
inline constexpr std::size_t dof_function_name = 127;
inline constexpr std::size_t dof_read_function_name = 191;  ///< FreeBSD writes as much
inline constexpr std::size_t dof_type_name = 127;
inline constexpr std::size_t dof_record_sites = 65'535;  ///< of a kind: a count of 16 bits
inline constexpr std::size_t dof_arguments = 255;        ///< a count of 8 bits
/// Of all sites of a file together: some 200 MiB. 10,000 sites with nine have a tenth of it.
inline constexpr std::size_t dof_site_arguments = 1U << 20;

/// Of a provider definition, mostly what the C preprocessor brought along: <windows.h> is 4 MiB.
inline constexpr std::size_t definition_bytes = 16U << 20;
inline constexpr std::size_t definition_probes = 64 * 1024;  ///< of one file; the JVM has 500
inline constexpr std::size_t definition_nesting = 32;  ///< parentheses of a declarator; people: 3
inline constexpr std::size_t definition_derivations = 32;  ///< stars and brackets of one declarator

inline constexpr std::size_t frames = 8192;  ///< of one stack: a word each of what can be copied
inline constexpr std::size_t stack_depth = 1024;          ///< frames kept of one stack; usual: 512
inline constexpr std::size_t stack_copy = 64 * 1024;      ///< bytes: the kernel copies no more
inline constexpr std::uint64_t stack_bytes = 1ULL << 30;  ///< of one stack; usual: 8 MiB
inline constexpr std::uint64_t cfi_section = 1ULL << 30;  ///< bytes; libchdb has 40 MiB
inline constexpr std::uint64_t cfi_unpacked = 64U << 20;  ///< bytes of .debug_frame, kept
inline constexpr std::size_t cfi_entries = 4U << 20;      ///< of one file; libchdb has 600,000
inline constexpr std::size_t cfi_entry_bytes = 256 * 1024;  ///< longest in libLLVM: some 20 KiB
inline constexpr std::size_t cfi_states = 64;               ///< remembered at once; compilers: 1
inline constexpr std::size_t cfi_windows = 2048;            ///< KiB of a file's CFI kept
inline constexpr std::size_t expression_steps = 256;  ///< of one DWARF expression; compilers: 12
inline constexpr std::size_t expression_depth = 32;   ///< of its stack

inline constexpr std::size_t export_request = 64U << 20;   ///< bytes, as OTLP recommends to servers
inline constexpr std::size_t export_response = 64 * 1024;  ///< bytes read of a collector's response
inline constexpr std::size_t export_message = 256;         ///< bytes of its message, for a note
inline constexpr std::size_t export_smallest =
    16 * 1024;                                   ///< bytes: a refused request is not split further
inline constexpr unsigned export_tries = 30;     ///< of a request that may never be accepted
inline constexpr std::size_t export_notes = 64;  ///< kept until they are taken; the rest counted
inline constexpr std::size_t spool_requests = 256 * 1024;  ///< waiting: 34 MiB for their places

/// Of one profile; what is beyond is counted as lost. 4 million are ten minutes of 64 CPUs at 99 Hz.
inline constexpr std::size_t profile_samples = 4U << 20;
inline constexpr std::size_t profile_stacks = 1U << 20;         ///< different ones
inline constexpr std::size_t profile_frames = 32U << 20;        ///< of all its stacks: 128 MiB
inline constexpr std::size_t profile_locations = 4U << 20;      ///< different ones
inline constexpr std::size_t profile_mappings = 1U << 20;       ///< of all its processes
inline constexpr std::size_t profile_label_sets = 1U << 20;     ///< and as many trace links
inline constexpr std::size_t profile_label_bytes = 256U << 20;  ///< of all its label sets
/// Of a profile that is read from a file: bytes of it, decompressed, and of all texts of its tables.
inline constexpr std::size_t profile_file_bytes = 512U << 20;
inline constexpr std::size_t profile_text_bytes = 512U << 20;
inline constexpr std::size_t profile_strings = 4U << 20;
inline constexpr std::size_t configuration_bytes = 1U << 20;  ///< of a file of settings
/// Of a process's environment, as much as a program may be started with in one argument (MAX_ARG_STRLEN),
/// and as many resource attributes.
inline constexpr std::size_t environment_bytes = 128 * 1024;
inline constexpr std::size_t environment_attributes = 64;
inline constexpr std::size_t observed_processes = 16 * 1024;  ///< by one trace or profile at once
inline constexpr std::size_t code_files = 8 * 1024;  ///< open at once, to have their symbols later

/// Copies in memory, of files whose file system may stop responding.
inline constexpr std::uint64_t copied_file = 128U << 20;   ///< of one
inline constexpr std::uint64_t copied_files = 256U << 20;  ///< of all: beyond, no more are made

/// Of the debug information of one file; all within the memory of a worker.
inline constexpr std::size_t dwarf_units = 1U << 20;      ///< libchdb has 10,000
inline constexpr std::size_t dwarf_ranges = 16U << 20;    ///< of one unit, and of all units' own
inline constexpr std::size_t dwarf_scope = 1024;          ///< bytes of the names around a function
inline constexpr std::size_t dwarf_functions = 4U << 20;  ///< of one unit, inlined ones included
inline constexpr std::size_t dwarf_kept = 8U << 20;       ///< functions and ranges of units kept
inline constexpr std::size_t dwarf_depth = 256;           ///< entries within entries; compilers: 40
inline constexpr std::size_t symbol_batch = 4096;         ///< addresses a request to a worker
inline constexpr std::size_t symbol_response = 64U << 20;  ///< bytes of its response
inline constexpr std::size_t symbol_unfolded = 256U
                                               << 20;     ///< bytes of its names, repeated ones too
inline constexpr std::size_t symbol_files = 4096;         ///< known to one symboliser
inline constexpr std::size_t symbol_frames = 256 * 1024;  ///< addresses whose frames are kept
inline constexpr std::uint64_t symbol_kept_memory = 1ULL << 30;  ///< of a worker, between requests
inline constexpr std::size_t demangled_bytes = 4096;             ///< longer: as it was
inline constexpr std::size_t kernel_symbols = 4U << 20;          ///< 200,000 with modules are usual
inline constexpr std::size_t kernel_symbol_bytes = 512U << 20;   ///< of /proc/kallsyms
inline constexpr std::size_t perf_map_bytes = 64U << 20;         ///< large JVMs write 20 MiB
inline constexpr std::size_t perf_map_symbols = 1U << 20;

inline constexpr std::size_t query_bytes = 4096;           ///< of one condition or list
inline constexpr std::size_t query_steps = 256;            ///< comparisons and their connectives
inline constexpr std::size_t query_nesting = 64;           ///< parentheses and negations
inline constexpr std::size_t query_captured = 4096;        ///< bytes asked for by bytes(arg0, N)
inline constexpr std::size_t traced_functions = 20'000;    ///< of one file; 14 s to attach to
inline constexpr std::size_t listed_functions = 1U << 20;  ///< of one file
inline constexpr std::uint32_t site_programs = 1U << 20;   ///< different probes of one trace
inline constexpr std::size_t groups = 10'000;        ///< rows of a reduction; the rest are one
inline constexpr std::size_t metric_groups = 1'000;  ///< rows with series of their own: 30 each
inline constexpr std::size_t pending_starts = 64 * 1024;  ///< latencies under way
inline constexpr std::uint32_t kept_starts = 16 * 1024;   ///< of those with their arguments

}  // namespace vitrine::limits
