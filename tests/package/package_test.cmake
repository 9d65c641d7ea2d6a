# Run by ctest with BUILD_DIR, CONSUMER, WORK_DIR, LIBDIR, CXX, VERSION and
# OPTIONAL_COMPONENTS.
cmake_minimum_required(VERSION 3.25)

# run(<what> <command>...): sets `output`; if the command fails, the test ends with what it printed.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed (${result}): ${ARGN}\n${output}\n${errors}")
  endif()
  message(STATUS "${what}: ok")
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_version)
  if(NOT output STREQUAL "leasehold ${VERSION}\n")
    message(FATAL_ERROR "the consumer printed '${output}' instead of 'leasehold ${VERSION}'")
  endif()
endfunction()

set(first ${WORK_DIR}/first)
set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
run("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${first})
# An installed tree can be moved: nothing in it depends on where it was installed or built.
file(RENAME ${first} ${prefix})

# Once without the optional components, which then nobody looks for, and once with each of them.
foreach(components "" ${OPTIONAL_COMPONENTS})
  run("configure with find_package" ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK_DIR}/build${components} -G Ninja
      -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Debug
      # Another Leasehold that is installed on this machine must not be found.
      -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DOPTIONAL_COMPONENTS=${components})
  run("build with find_package" ${CMAKE_COMMAND} --build ${WORK_DIR}/build${components})
  run("run, built with find_package" ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR}
      ${WORK_DIR}/build${components}/consumer)
  expect_version()
endforeach()

find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
foreach(modules leasehold-locks leasehold-tasks "leasehold-locks;leasehold-tasks")
  run("ask pkg-config for ${modules}" ${PKG_CONFIG} --cflags --libs ${modules})
  separate_arguments(flags UNIX_COMMAND "${output}")
  foreach(part locks tasks)
    if("leasehold-${part}" IN_LIST modules)
      string(TOUPPER -DWITH_${part} define)
      list(APPEND flags ${define})
    endif()
  endforeach()
  run("build with pkg-config" ${CXX} -std=c++20 ${CONSUMER}/main.cpp -o ${WORK_DIR}/consumer ${flags})
  run("run, built with pkg-config" ${WORK_DIR}/consumer)
  expect_version()
endforeach()
