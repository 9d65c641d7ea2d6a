# The installed package, for find_package(leasehold [COMPONENTS locks tasks redis_plus_plus]) and for pkg-config. The
# dependencies of a component are read from what its target links. A new dependency needs no line
# here if leasehold_how_to_find() knows it already.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/leasehold)
set(LEASEHOLD_COMPONENTS core sqlite locks tasks)
# Found only if it is named, so that nobody needs redis-plus-plus who does not use it.
set(LEASEHOLD_OPTIONAL_COMPONENTS "")
if(TARGET leasehold_redis_plus_plus)
  list(APPEND LEASEHOLD_OPTIONAL_COMPONENTS redis_plus_plus)
endif()

# How consumers find the target <library>: sets <out>_CMAKE (lines for the config file) and
# <out>_PC (a pkg-config module, or empty for headers that only our own sources include).
function(leasehold_how_to_find library out)
  set(pc "")
  if(library MATCHES "^PkgConfig::(.+)$")
    set(pc ${CMAKE_MATCH_1})
    set(lines "leasehold_find_module(${pc})")
  elseif(library STREQUAL "Threads::Threads")
    set(lines "find_dependency(Threads)")
  elseif(library MATCHES "^spdlog::")
    set(lines "find_dependency(spdlog)")
    set(pc spdlog)
  elseif(library STREQUAL "SQLite::SQLite3")
    set(lines "find_dependency(SQLite3)")
    set(pc sqlite3)
  elseif(library STREQUAL "OpenSSL::SSL")
    set(lines "find_dependency(OpenSSL)")
    set(pc openssl)
  elseif(library MATCHES "^redis\\+\\+::")
    set(lines "find_dependency(redis++)")
    set(pc redis++)
  elseif(library STREQUAL "nlohmann_json::nlohmann_json")
    set(lines "find_dependency(nlohmann_json)")
  else()
    message(FATAL_ERROR "InstallPackage.cmake: leasehold_how_to_find() does not know ${library}")
  endif()
  set(${out}_CMAKE "  ${lines}\n" PARENT_SCOPE)
  set(${out}_PC "${pc}" PARENT_SCOPE)
endfunction()

# The .pc files find the prefix by a relative path, so that the installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})

set(LEASEHOLD_FIND_DEPENDENCIES "")
foreach(component IN LISTS LEASEHOLD_COMPONENTS LEASEHOLD_OPTIONAL_COMPONENTS)
  get_target_property(libraries leasehold_${component} INTERFACE_LINK_LIBRARIES)
  get_target_property(type leasehold_${component} TYPE)
  set(find_lines "")
  set(PC_REQUIRES "")
  set(PC_REQUIRES_PRIVATE "")
  set(threads "")

  foreach(entry IN LISTS libraries)
    if(NOT entry OR entry MATCHES "BUILD_INTERFACE")
      continue()
    endif()
    # A program that links our static library needs its private dependencies too, but as shared
    # libraries. `pkg-config --static` would demand archives of these, which Debian does not have.
    set(requires PC_REQUIRES)
    if(entry MATCHES "^\\$<LINK_ONLY:(.+)>$")
      set(entry ${CMAKE_MATCH_1})
      if(NOT type STREQUAL "STATIC_LIBRARY")
        set(requires PC_REQUIRES_PRIVATE)
      endif()
    endif()
    if(entry MATCHES "^leasehold(::|_)(.+)$")
      list(APPEND ${requires} "leasehold-${CMAKE_MATCH_2} = ${PROJECT_VERSION}")
      string(APPEND find_lines "  list(APPEND leasehold_wanted ${CMAKE_MATCH_2})\n")
      continue()
    endif()
    leasehold_how_to_find(${entry} how)
    string(APPEND find_lines "${how_CMAKE}")
    if(how_PC)
      list(APPEND ${requires} ${how_PC})
    elseif(entry STREQUAL "Threads::Threads")
      set(threads "-pthread")
    endif()
  endforeach()

  # In the list a component comes after those that it needs. The config file goes through it
  # backwards: each component adds what it needs to those that are wanted.
  string(PREPEND LEASEHOLD_FIND_DEPENDENCIES
    "if(${component} IN_LIST leasehold_wanted)\n${find_lines}endif()\n")

  set(PC_NAME leasehold-${component})
  set(PC_LIBS "")
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set(PC_LIBS "-L\${libdir} -lleasehold_${component} ${threads}")
  endif()
  list(JOIN PC_REQUIRES ", " PC_REQUIRES)
  list(JOIN PC_REQUIRES_PRIVATE ", " PC_REQUIRES_PRIVATE)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/leasehold.pc.in ${PC_NAME}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${PC_NAME}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(EXPORT leasehold-targets NAMESPACE leasehold:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/leasehold-config.cmake.in
  leasehold-config.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a new minor version may be incompatible.
write_basic_package_version_file(leasehold-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/leasehold-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/leasehold-config-version.cmake
        DESTINATION ${config_dir})
