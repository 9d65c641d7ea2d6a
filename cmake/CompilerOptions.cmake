# leasehold_options: how our own targets are compiled. It is linked PRIVATE, so that programs that use
# the library get neither our warnings nor our sanitizers.
add_library(leasehold_options INTERFACE)
target_compile_features(leasehold_options INTERFACE cxx_std_20)

if(PROJECT_IS_TOP_LEVEL)
  # Options are meant to be given by designated initialisers that name only some members.
  target_compile_options(leasehold_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
    -Wno-missing-field-initializers -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Under -Og and the sanitizers g++ 12 gives false warnings about libstdc++'s own headers.
    target_compile_options(leasehold_options INTERFACE -Wno-maybe-uninitialized)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Checks the annotations of lib/src/support/thread_safety.hpp.
    target_compile_options(leasehold_options INTERFACE -Wthread-safety -Werror=thread-safety)
  endif()
  # A quarter of the time that the usual linker takes. What is shipped does not depend on it.
  find_program(LEASEHOLD_LLD ld.lld)
  if(LEASEHOLD_LLD AND CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_link_options(leasehold_options INTERFACE -fuse-ld=lld)
  endif()
endif()

if(LEASEHOLD_SANITIZE)
  target_compile_options(leasehold_options INTERFACE
    -fsanitize=${LEASEHOLD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(leasehold_options INTERFACE -fsanitize=${LEASEHOLD_SANITIZE})
  if(LEASEHOLD_SANITIZE MATCHES "undefined")
    # They would cost a third of the time to compile, and AddressSanitizer reports the use of a null
    # pointer too.
    target_compile_options(leasehold_options INTERFACE -fno-sanitize=null,alignment)
  endif()
  if(LEASEHOLD_SANITIZE MATCHES "address")
    # Calls instead of inline checks: slower to run, but quicker to compile.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(leasehold_options INTERFACE
        "SHELL:--param asan-instrumentation-with-call-threshold=0")
    elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      target_compile_options(leasehold_options INTERFACE
        "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND LEASEHOLD_SANITIZE MATCHES "thread")
    target_compile_options(leasehold_options INTERFACE -Wno-tsan)
  endif()
endif()
