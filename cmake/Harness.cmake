# leasehold_use_harness(<target> <guard>): compiles harness/ (see its README) into the target. <guard>
# is the program that starts child processes, or /proc/self/exe for a program that is its own guard.
function(leasehold_use_harness target guard)
  foreach(name certificates file_tail free_port postgres_server process redis_endpoint redis_process redis_server
               resp_client spawn_guard temp_dir)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/harness/${name}.cpp)
  endforeach()
  target_compile_definitions(${target} PRIVATE LEASEHOLD_SPAWN_GUARD="${guard}")
  target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()
