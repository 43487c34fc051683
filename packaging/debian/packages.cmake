# Debian packages of a finished build: `./run package`, or cpack in the build folder.
#
#   libvitrine0.1            libvitrine.so.0.1
#   libcustomlabels-vitrine  libcustomlabels.so, libcustomlabels_v0.so
#   libvitrine-dev           headers, the archive for executables, CMake, pkg-config
#   vitrine                  the command, its unit for systemd, and a question about rights
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vitrine)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_CONTACT "vitrine maintainers <maintainers@vitrine.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE vitrine)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(doc ${CMAKE_INSTALL_DATADIR}/doc)
set(lintian ${CMAKE_INSTALL_DATADIR}/lintian/overrides)
set(CPACK_COMPONENTS_ALL)

# vitrine_debian_package(component NAME package SECTION section SUMMARY one-line TEXT lines…
#   [CONTROL file…] [MADE file…]): what the packages have in common. CONTROL files are those of the folder
# `component`, MADE ones are made here or by prepare.cmake.
function(vitrine_debian_package component)
  cmake_parse_arguments(arg "" "NAME;SECTION;SUMMARY" "TEXT;CONTROL;MADE" ${ARGN})
  string(TOUPPER ${component} upper)
  list(JOIN arg_TEXT "\n" text)
  list(TRANSFORM arg_CONTROL PREPEND ${CMAKE_CURRENT_LIST_DIR}/${component}/)
  list(APPEND arg_CONTROL ${arg_MADE})
  foreach(pair IN ITEMS "PACKAGE_NAME=${arg_NAME}" "PACKAGE_SECTION=${arg_SECTION}"
      "DESCRIPTION=${arg_SUMMARY}\n${text}" "PACKAGE_CONTROL_EXTRA=${arg_CONTROL}")
    string(REGEX MATCH "^([^=]*)=(.*)$" matched "${pair}")
    set(CPACK_DEBIAN_${upper}_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}" PARENT_SCOPE)
  endforeach()
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  # Only in packages: `cmake --install` has no use for them.
  install(FILES debian/copyright DESTINATION ${doc}/${arg_NAME} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES debian/changelog DESTINATION ${doc}/${arg_NAME} RENAME changelog.Debian
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  set(overrides ${CMAKE_CURRENT_BINARY_DIR}/debian/${component}.overrides)
  file(WRITE ${overrides} "# It is not uploaded to Debian, where that would be a bug's number.\n"
    "${arg_NAME}: initial-upload-closes-no-bugs *\n")
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${component}/lintian-overrides)
    file(READ ${CMAKE_CURRENT_LIST_DIR}/${component}/lintian-overrides more)
    file(APPEND ${overrides} "${more}")
  endif()
  install(FILES ${overrides} DESTINATION ${lintian} RENAME ${arg_NAME}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

set(CPACK_VITRINE_LABELS_SYMBOLS ${CMAKE_CURRENT_BINARY_DIR}/debian/symbols)
vitrine_debian_package(labels NAME libcustomlabels-vitrine SECTION libs
  SUMMARY "publishes thread labels for profilers (Custom Labels ABI)"
  TEXT "Programs that are linked with libcustomlabels.so or libcustomlabels_v0.so"
       "publish which request, tenant or trace each of their threads is serving, and"
       "a context of the process. Profilers and debuggers read both from outside."
  CONTROL triggers
  MADE ${CPACK_VITRINE_LABELS_SYMBOLS})
set(CPACK_DEBIAN_LABELS_PACKAGE_MULTIARCH same)

if(VITRINE_OBSERVE)
  set(shlibs ${CMAKE_CURRENT_BINARY_DIR}/debian/shlibs)
  configure_file(debian/library/shlibs.in ${shlibs} @ONLY)
  vitrine_debian_package(library NAME libvitrine${soversion} SECTION libs
    SUMMARY "reads labels, contexts, probes and profiles of live processes"
    TEXT "The library finds thread labels, process contexts and static probes in any"
         "process and reads them from outside, by address arithmetic and BPF. It"
         "traces the probes, and profiles the process by label."
    CONTROL triggers
    MADE ${shlibs})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_MULTIARCH same)
endif()

vitrine_debian_package(development NAME libvitrine-dev SECTION libdevel
  SUMMARY "labels, contexts and probes: development files"
  TEXT "Headers, libraries, a CMake package and pkg-config files, for programs that"
       "publish labels, contexts and static probes, or read them in other processes.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_MULTIARCH same)
set(depends "libcustomlabels-vitrine (= ${version})")
if(VITRINE_OBSERVE)
  string(APPEND depends ", libvitrine${soversion} (= ${version})")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${depends}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "vitrine")

if(VITRINE_OBSERVE)
  vitrine_debian_package(command NAME vitrine SECTION utils
    SUMMARY "shows which requests threads of a live service serve, and where time goes"
    TEXT "Finds the thread labels, the process context and the static probes that"
         "processes publish, and reads them from outside, without stopping a thread:"
         "which request, tenant or trace each thread is serving, where CPU time and"
         "waiting time go by label, and on whose behalf a probe fires. It also checks"
         "publishers, processes DTrace providers, and sends profiles to OpenTelemetry."
    CONTROL config templates postinst prerm postrm conffiles)
  set(depends "debconf (>= 0.5) | debconf-2.0")
  foreach(library IN LISTS VITRINE_LAZY_LIBRARIES)  # no tool sees them in the program
    file(REAL_PATH ${library} library)
    execute_process(COMMAND dpkg-query --search ${library} OUTPUT_VARIABLE package ERROR_QUIET)
    if(NOT package)  # its package is older than the merger of / and /usr
      string(REGEX REPLACE "^/usr/" "/" library ${library})
      execute_process(COMMAND dpkg-query --search ${library} OUTPUT_VARIABLE package ERROR_QUIET)
    endif()
    if(package MATCHES "^([^:]+):")
      string(APPEND depends ", ${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libcurl4, libcap2-bin")
  install(FILES ${PROJECT_SOURCE_DIR}/README.md debian/command/README.Debian
    DESTINATION ${doc}/vitrine COMPONENT command EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${doc}/vitrine RENAME changelog
    COMPONENT command EXCLUDE_FROM_ALL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${doc}/vitrine
    COMPONENT command EXCLUDE_FROM_ALL)
  install(FILES debian/command/vitrine-profile.service debian/command/vitrine-agent.service
    DESTINATION lib/systemd/system COMPONENT command EXCLUDE_FROM_ALL)
  install(FILES debian/command/agent.toml DESTINATION /etc/vitrine COMPONENT command EXCLUDE_FROM_ALL)
  install(FILES debian/command/vitrine-profile.default DESTINATION /etc/default RENAME vitrine-profile
    COMPONENT command EXCLUDE_FROM_ALL)
endif()

set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/prepare.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/finish.cmake)
include(CPack)
