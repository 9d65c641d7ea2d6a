# embed_text(<target> NAMESPACE <ns> HEADER <name> FILES <file>...)
#
# Makes the text of each file available to <target> as leasehold::<ns>::<file name without
# extension>, through a generated header. A line `--#include x` stands for the file include/x beside
# it. Edited files are embedded again at the next build.
# The same file, run by `cmake -P`, is the generator.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(body "")
  foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME_WE)
    string(REGEX REPLACE "[^A-Za-z0-9]" "_" symbol ${name})
    if(symbol MATCHES "^[0-9]")
      string(PREPEND symbol "m")
    endif()
    file(READ ${file} text)
    get_filename_component(dir ${file} DIRECTORY)
    while(text MATCHES "--#include ([a-z_.]+)\n")
      set(line "${CMAKE_MATCH_0}")
      file(READ ${dir}/include/${CMAKE_MATCH_1} included)
      string(REPLACE "${line}" "${included}" text "${text}")
    endwhile()
    string(SHA1 sha1 "${text}")
    if(text MATCHES "\\)text\"")
      message(FATAL_ERROR "${file} contains the end mark of the embedded literal")
    endif()
    string(APPEND body "inline constexpr EmbeddedText ${symbol}{\"${name}\", \"${sha1}\", R\"text(${text})text\"};\n")
    list(APPEND symbols "&${symbol}")
  endforeach()
  list(JOIN symbols ", " symbols)
  list(LENGTH FILES count)
  file(WRITE ${OUTPUT}
"// Generated from the files of the same name; edit those.
#pragma once
#include <array>

#include \"support/embedded_text.hpp\"
namespace leasehold::${NAMESPACE} {
${body}inline constexpr std::array<const EmbeddedText*, ${count}> all{${symbols}};
}  // namespace leasehold::${NAMESPACE}
")
  return()
endif()

set(LEASEHOLD_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(embed_text target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "NAMESPACE;HEADER" "FILES")
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  set(header ${dir}/${ARG_HEADER})
  list(GET ARG_FILES 0 first)
  get_filename_component(source_dir ${first} DIRECTORY)
  file(GLOB included CONFIGURE_DEPENDS ${source_dir}/include/*)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${ARG_FILES}" -DNAMESPACE=${ARG_NAMESPACE}
            -DOUTPUT=${header} -P ${LEASEHOLD_EMBED_SCRIPT}
    DEPENDS ${ARG_FILES} ${included} ${LEASEHOLD_EMBED_SCRIPT}
    COMMENT "Embedding ${ARG_HEADER}"
    VERBATIM)
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${dir})
endfunction()
