# vitrine_embed(target FILE FUNCTION HEADER): a source for `target` that defines FUNCTION, declared in
# HEADER as `std::string_view FUNCTION()`, returning the bytes of FILE. Plain CMake and C++: nothing
# of it depends on the target's architecture. Run as a script (-P), this file writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${FILE}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "^(.*)::([^:]*)$" "\\1;\\2" parts "${FUNCTION}")
  list(GET parts 0 space)
  list(GET parts 1 name)
  file(WRITE "${OUTPUT}" "// Written by cmake/VitrineEmbed.cmake.
#include \"${HEADER}\"
namespace ${space} {
namespace {
constexpr char bytes[] = {
${bytes}};
}
std::string_view ${name}() { return {bytes, sizeof bytes}; }
}
")
  return()
endif()

set(vitrine_embed_script ${CMAKE_CURRENT_LIST_FILE})
function(vitrine_embed target file function header)
  get_filename_component(name ${file} NAME_WE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}_embedded.cpp)
  add_custom_command(OUTPUT ${output} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFILE=${file} -DFUNCTION=${function} -DHEADER=${header}
            -DOUTPUT=${output} -P ${vitrine_embed_script}
    DEPENDS ${file} ${vitrine_embed_script}
    COMMENT "Embedding ${name}")
  target_sources(${target} PRIVATE ${output})
endfunction()
