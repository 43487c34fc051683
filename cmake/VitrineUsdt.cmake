# vitrine_usdt_provider(TARGET DEFINITION.d… [LINK_OPTIONS option…]): gives a target static probes.
#
# - Each DEFINITION.h is made before the target's sources are compiled, and is found by #include "DEFINITION.h".
# - `vitrine usdt link` takes the probes' calls out of the target's objects, and what it makes of them is
#   linked (archived) with the target. LINK_OPTIONS are for that command (--strict, …).
#
# TARGET is an executable, a shared, module or static library, or an object library (whose users must
# link it, not only list its $<TARGET_OBJECTS>). May be called several times for a target.
#
# How, and why so. The object step needs all objects of a target and rewrites them where they are, so it
# cannot be a command of its own whose output the target's link depends on: in CMake every such command
# comes before the objects. It is a PRE_LINK command, a part of the link itself: it runs exactly when
# the target is linked again, that is when an object, the definition or the command changed. What it
# makes is named to the linker as an option: as a source or a library, build systems would look
# for a rule that makes it first. The step gives the objects that it rewrites the times they had, so that
# neither Make nor Ninja (which records the time of every object that it made) compiles them again, and
# it changes an object once only, however often it runs. A wrapper of the linker (RULE_LAUNCH_LINK) would
# do the same, but would have to find the objects in command lines of any linker driver or archiver.
# An object library has no link to be a part of; its objects are of another target for those who link it,
# so there the step is a command of its own.

# _vitrine_usdt_command(OUT): the command: VITRINE_COMMAND, or that of this build, or an installed one.
function(_vitrine_usdt_command out)
  if(VITRINE_COMMAND)
    set(${out} ${VITRINE_COMMAND} PARENT_SCOPE)
    return()
  endif()
  foreach(target IN ITEMS vitrine vitrine::vitrine)
    if(TARGET ${target})
      get_target_property(kind ${target} TYPE)
      if(kind STREQUAL "EXECUTABLE")
        set(${out} $<TARGET_FILE:${target}> PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  find_program(VITRINE_COMMAND vitrine)
  if(NOT VITRINE_COMMAND)
    message(FATAL_ERROR "vitrine_usdt_provider: no command `vitrine`: vitrine was built without it "
      "(VITRINE_OBSERVE=OFF). Build it with VITRINE_OBSERVE=ON, or set VITRINE_COMMAND to the path of "
      "the command.")
  endif()
  set(${out} ${VITRINE_COMMAND} PARENT_SCOPE)
endfunction()

# _vitrine_usdt_lld(OUT TARGET): whether lld links it (usdt link --lld).
function(_vitrine_usdt_lld out target)
  get_target_property(options ${target} LINK_OPTIONS)
  get_target_property(type ${target} LINKER_TYPE)
  get_directory_property(directory LINK_OPTIONS)
  set(${out} FALSE PARENT_SCOPE)
  if("${type};${CMAKE_LINKER_TYPE};${CMAKE_C_COMPILER_LINKER_ID};${CMAKE_CXX_COMPILER_LINKER_ID}" MATCHES "LLD" OR
     "${options};${directory};${CMAKE_EXE_LINKER_FLAGS};${CMAKE_SHARED_LINKER_FLAGS};${CMAKE_MODULE_LINKER_FLAGS};\
${CMAKE_C_FLAGS};${CMAKE_CXX_FLAGS}" MATCHES "(-fuse-ld=|--ld-path=)[^ ;]*lld")
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

function(vitrine_usdt_provider target)
  cmake_parse_arguments(arg "" "" "LINK_OPTIONS" ${ARGN})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "vitrine_usdt_provider: no such target: ${target}")
  endif()
  if(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vitrine_usdt_provider: missing provider definition: write "
      "vitrine_usdt_provider(${target} shop.d)")
  endif()
  get_target_property(kind ${target} TYPE)
  if(NOT kind MATCHES "^(EXECUTABLE|(SHARED|MODULE|STATIC|OBJECT)_LIBRARY)$")
    message(FATAL_ERROR "vitrine_usdt_provider: ${target} has no objects for probes (${kind})")
  endif()
  _vitrine_usdt_command(vitrine)

  # CMake 3.27 and later has the linker list what it read; what a link both makes and reads is a cycle to Ninja.
  # A variable of the folder decides, whatever function this is called from.
  cmake_language(DEFER CALL set CMAKE_LINK_DEPENDS_USE_LINKER OFF)
  _vitrine_usdt_lld(lld ${target})
  if(lld)
    list(PREPEND arg_LINK_OPTIONS --lld)
  endif()

  # A folder of the target's own: two targets with one definition must not write one file at once.
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/vitrine_usdt/${target})
  file(MAKE_DIRECTORY ${folder})
  # So must two configurations. Where several are built at once, CMake runs a step only if what it makes has
  # the configuration's name.
  set(made_in ${folder})
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(several)
    set(made_in ${folder}/$<CONFIG>)
    foreach(configuration IN LISTS CMAKE_CONFIGURATION_TYPES)
      file(MAKE_DIRECTORY ${folder}/${configuration})
    endforeach()
  endif()
  target_include_directories(${target} PRIVATE ${folder})
  foreach(definition IN LISTS arg_UNPARSED_ARGUMENTS)
    get_filename_component(definition ${definition} ABSOLUTE)
    get_filename_component(name ${definition} NAME_WLE)
    add_custom_command(OUTPUT ${folder}/${name}.h
      COMMAND ${vitrine} usdt header -s ${definition} -o ${folder}/${name}.h
      DEPENDS ${definition} COMMENT "Probes of ${name}.d for ${target}" VERBATIM)
    target_sources(${target} PRIVATE ${folder}/${name}.h)

    set(probes ${made_in}/${name}_probes.o)
    set(step ${vitrine} usdt link ${arg_LINK_OPTIONS} -s ${definition} -o ${probes}
      $<TARGET_OBJECTS:${target}>)
    if(kind STREQUAL "OBJECT_LIBRARY")
      # Each step after the one before it: the objects are then the same in every build. Ninja orders files,
      # Make targets.
      get_target_property(before ${target} VITRINE_USDT_LAST_STEP)
      if(NOT before)
        set(before)
      endif()
      set_target_properties(${target} PROPERTIES VITRINE_USDT_LAST_STEP ${target}_${name}_probes)
      add_custom_command(OUTPUT ${probes} COMMAND ${step}
        DEPENDS ${definition} $<TARGET_OBJECTS:${target}> ${before}
        COMMENT "Taking probes out of ${target}" VERBATIM COMMAND_EXPAND_LISTS)
      add_custom_target(${target}_${name}_probes DEPENDS ${probes})
      add_dependencies(${target}_${name}_probes ${target} ${before})  # Make knows no rule for another target's objects
      add_library(${target}_${name}_probe_object INTERFACE)
      add_dependencies(${target}_${name}_probe_object ${target}_${name}_probes)
      target_link_libraries(${target}_${name}_probe_object INTERFACE ${probes})
      target_link_libraries(${target} INTERFACE ${target}_${name}_probe_object)
      continue()
    endif()
    add_custom_command(TARGET ${target} PRE_LINK COMMAND ${step} BYPRODUCTS ${probes}
      COMMENT "Taking probes out of ${target}" VERBATIM COMMAND_EXPAND_LISTS)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${definition})
    if(kind STREQUAL "STATIC_LIBRARY")
      # In the archive for who installs it. A linker takes it from there only if nothing it has seen defines
      # the provider's probes, which a program with the same provider does: so in this build it is named.
      set_property(TARGET ${target} APPEND PROPERTY STATIC_LIBRARY_OPTIONS ${probes})
      target_link_options(${target} INTERFACE $<BUILD_INTERFACE:${probes}>)
    else()
      target_link_options(${target} PRIVATE ${probes})
    endif()
  endforeach()
endfunction()
