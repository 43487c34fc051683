#include "check/file_subject.hpp"

#include <elf.h>

#include "elf/dynamic_section.hpp"

namespace vitrine::check {
namespace {

constexpr std::string_view library = "libcustomlabels";

void find_profiles(FileSubject& subject) {
  const LabelFacts& labels = subject.labels;
  const auto add = [&](Profile profile, bool usable, bool traces) {
    if (usable) subject.published.add(profile);
    if (usable || traces) subject.intended.add(profile);
  };
  const bool named_v0 = is_v0_library_name(subject.file_name);
  const bool named_v1 = is_v1_library_name(subject.file_name);
  const bool no_slot = !labels.v0.there() && !labels.v1.there();
  if (!subject.relocatable) {
    add(Profile::custom_labels_v0, labels.v0.exported.has_value(),
        labels.v0.there() || (no_slot && labels.prefer_v0 && labels.version.there()));
    // What is called like a label library, or has its version, was meant to be one.
    const bool traces = no_slot && !labels.prefer_v0 &&
                        (labels.version.exported || ((named_v0 || named_v1) && !subject.program));
    add(Profile::custom_labels_v1, labels.v1.exported.has_value(), labels.v1.there() || traces);
    add(Profile::otep_4947, labels.thread_context.exported.has_value(),
        labels.thread_context.there());
  }
  add(Profile::sdt, !subject.sdt.sites.empty(),
      !subject.sdt.sections.empty() || subject.sdt.base_section ||
          // Semaphores of DTrace's kind are in a section of the same name.
          (subject.sdt.semaphore_section && subject.dof.file.dofs.empty()));
  // What a search of the segments could not read may have been anything.
  add(Profile::dof, !subject.dof.file.dofs.empty(),
      !subject.dof.file.problems.empty() && !subject.dof.file.searched);
}

}  // namespace

bool is_v0_library_name(std::string_view file_name) {
  const std::size_t at = file_name.find(library);
  return at != file_name.npos && file_name.find(".so", at + library.size()) != file_name.npos;
}

bool is_v1_library_name(std::string_view file_name) {
  return (file_name.find(library) != file_name.npos && file_name.ends_with(".so")) ||
         file_name.ends_with("customlabels.node");
}

Result<std::unique_ptr<FileSubject>> FileSubject::of(FileDescriptor opened, std::string path,
                                                     std::string file_name) {
  auto subject = std::make_unique<FileSubject>();
  subject->path = std::move(path);
  subject->file_name = std::move(file_name);
  subject->file = TRY(vitrine::file::FileMemory::from(std::move(opened)));
  Memory& memory = *subject->file;
  auto elf = TRY(elf::read_file(memory));
  subject->elf = std::move(elf);
  subject->program = elf::is_program(memory, subject->elf);
  subject->relocatable = subject->elf.type == ET_REL;
  const auto size = static_cast<std::uint64_t>(subject->file->identity().size);
  subject->labels = read_label_facts(memory, subject->elf);
  subject->labels.prefer_v0 = subject->labels.version.value == 0U;
  subject->sdt = read_sdt_facts(memory, subject->elf, size);
  subject->dof = read_dof_facts(memory, subject->elf, size);
  find_profiles(*subject);
  return subject;
}

}  // namespace vitrine::check
