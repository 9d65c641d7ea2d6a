# leasehold_options: what our own targets are compiled with. Linked PRIVATE, so that neither
# warnings nor sanitizers leak into the programs of those who use the library.
add_library(leasehold_options INTERFACE)
target_compile_features(leasehold_options INTERFACE cxx_std_20)

if(PROJECT_IS_TOP_LEVEL)
  # designated initialisers that leave defaults alone are how our options are meant to be used
  target_compile_options(leasehold_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
    -Wno-missing-field-initializers -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 sees ghosts in libstdc++'s own headers under -Og and the sanitizers
    target_compile_options(leasehold_options INTERFACE -Wno-maybe-uninitialized)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Checks the annotations of lib/src/support/thread_safety.hpp.
    target_compile_options(leasehold_options INTERFACE -Wthread-safety -Werror=thread-safety)
  endif()
endif()

if(LEASEHOLD_SANITIZE)
  target_compile_options(leasehold_options INTERFACE
    -fsanitize=${LEASEHOLD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(leasehold_options INTERFACE -fsanitize=${LEASEHOLD_SANITIZE})
  if(LEASEHOLD_SANITIZE MATCHES "undefined")
    # A third of the time to compile; AddressSanitizer sees a null pointer that is used.
    target_compile_options(leasehold_options INTERFACE -fno-sanitize=null,alignment)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND LEASEHOLD_SANITIZE MATCHES "address")
    # Calls in place of checks in line: slower to run, quicker to compile.
    target_compile_options(leasehold_options INTERFACE
      "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND LEASEHOLD_SANITIZE MATCHES "thread")
    target_compile_options(leasehold_options INTERFACE -Wno-tsan)
  endif()
endif()
