# The few ways this project makes a target, so that every one gets the same warnings and sanitizers.

# vitrine_flags(target [FOREIGN]): warnings, as errors unless this is part of another project (whose compiler
# may be newer than any we know), and the sanitizers of the preset. A FOREIGN program stands
# for one that we only observe: ThreadSanitizer would add a thread to it and turn its vfork into fork.
function(vitrine_flags target)
  cmake_parse_arguments(arg "FOREIGN" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    $<$<BOOL:${vitrine_IS_TOP_LEVEL}>:-Werror>
    # g++ 12 sees overlapping copies in std::string at -O3 (GCC bug 105651).
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-Wno-restrict>
    # Functions, inlined ones and lines: what profilers and crash reports need. Types and variables would
    # take as long to write as the code, and ten times the room; the dev preset has them.
    $<$<CONFIG:RelWithDebInfo>:-g1>)
  if(VITRINE_SANITIZE AND NOT (arg_FOREIGN AND VITRINE_SANITIZE STREQUAL "thread"))
    target_compile_options(${target} PRIVATE -fsanitize=${VITRINE_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${VITRINE_SANITIZE})
  endif()
endfunction()

# vitrine_layer(name SOURCES … DEPENDS layer…): one folder under src/ as a static library
# `vitrine_<name>`. DEPENDS are the layers below it: what is not named cannot be linked.
function(vitrine_layer name)
  cmake_parse_arguments(arg "SEPARATE" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(vitrine_${name} STATIC ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY VITRINE_LAYERS ${name})
  vitrine_flags(vitrine_${name})
  set_target_properties(vitrine_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(vitrine_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  foreach(layer IN LISTS arg_DEPENDS)
    target_link_libraries(vitrine_${name} PUBLIC vitrine_${layer})
  endforeach()
  target_link_libraries(vitrine_${name} PUBLIC ${arg_LINK})
  if(VITRINE_UNITY AND NOT arg_SEPARATE)
    # Headers of fmt, CLI11 and nlohmann/json cost more than the code that follows them. A file's own
    # names are then seen by its neighbours: that one shadows another's is no mistake.
    set_target_properties(vitrine_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 32)
    target_compile_options(vitrine_${name} PRIVATE -Wno-shadow -Wno-subobject-linkage)
  endif()
endfunction()

# vitrine_test(name SOURCES … LINK …): a GoogleTest program, its cases registered with ctest one by
# one. TIMEOUT bounds each case. Cases run beside those of other programs and their own, but SERIAL ones
# alone (they look at all of the machine), and of those with one LOCK one at a time (they use one thing).
# Test code is not optimised, but where it is its headers of ours that are tested: OPTIMISED. Its sources are compiled
# together, but those of OPTIMISED tests, and those whose names are the same: SEPARATE.
function(vitrine_test name)
  cmake_parse_arguments(arg "SERIAL;OPTIMISED;SEPARATE" "TIMEOUT" "SOURCES;LINK;DEFINITIONS;DEPENDS;LABELS;LOCK;PROPERTIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(VITRINE_SANITIZE)  # ten times slower and more
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  add_executable(${name} ${arg_SOURCES})
  vitrine_flags(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINK} vitrine_test_support GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(NOT arg_OPTIMISED)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
    target_precompile_headers(${name} REUSE_FROM vitrine_test_support)
    list(LENGTH arg_SOURCES sources)
    if(VITRINE_UNITY AND sources GREATER 1 AND NOT arg_SEPARATE)
      # Half the time: the templates that tests share are instantiated once. Eight, for a change of one of them.
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
      target_compile_options(${name} PRIVATE -Wno-shadow -Wno-subobject-linkage)
    endif()
  endif()
  if(arg_DEFINITIONS)
    target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  endif()
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT} ${arg_PROPERTIES})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(arg_LOCK)
    list(APPEND properties RESOURCE_LOCK ${arg_LOCK})
  endif()
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  # A value of a parameterised test is shown as its bytes, addresses and padding among them: another name each time.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
endfunction()

# vitrine_check_published(target VERSION v SLOTS name:bytes… [SONAME name]): fails the build when the
# file produced for `target` lacks what readers of labels depend on.
function(vitrine_check_published target)
  cmake_parse_arguments(arg "" "VERSION;SONAME" "SLOTS" ${ARGN})
  list(JOIN arg_SLOTS "," slots)
  set(script ${vitrine_SOURCE_DIR}/cmake/CheckPublishedSymbols.cmake)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFILE=$<TARGET_FILE:${target}> -DREADELF=${CMAKE_READELF}
            -DVERSION=${arg_VERSION} -DSLOTS=${slots} -DSONAME=${arg_SONAME} -P ${script}
    COMMENT "Checking what readers depend on in ${target}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()
