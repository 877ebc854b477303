#[[
Finds hiredis, wherever `#include <hiredis/hiredis.h>` can be made to work. Used by redlock itself and by its installed
configuration. Gives:

  redlock::hiredis              the include directory that has hiredis/hiredis.h, and the library

Tried in this order: hiredis' own CMake package (hiredis::hiredis), pkg-config, a plain search. pkg-config serves as a
hint only: up to 1.0 its include directory is .../include/hiredis, one level too deep. CMAKE_PREFIX_PATH is honoured by
all three. The names are redlock's own because a second definition of hiredis::hiredis would break hiredis' package.
]]

find_package(hiredis CONFIG QUIET)
if(TARGET hiredis::hiredis)
  get_target_property(RedlockHiredis_package_dirs hiredis::hiredis INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT RedlockHiredis_package_dirs)
    set(RedlockHiredis_package_dirs "")
  endif()
  list(TRANSFORM RedlockHiredis_package_dirs APPEND "/.." OUTPUT_VARIABLE RedlockHiredis_parents)
  find_path(RedlockHiredis_INCLUDE_DIR hiredis/hiredis.h
            HINTS ${RedlockHiredis_package_dirs} ${RedlockHiredis_parents})
  set(RedlockHiredis_LIBRARY hiredis::hiredis)
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(RedlockHiredis_PC QUIET hiredis)
  endif()
  list(TRANSFORM RedlockHiredis_PC_INCLUDE_DIRS APPEND "/.." OUTPUT_VARIABLE RedlockHiredis_parents)
  find_path(RedlockHiredis_INCLUDE_DIR hiredis/hiredis.h
            HINTS ${RedlockHiredis_PC_INCLUDE_DIRS} ${RedlockHiredis_parents} ${RedlockHiredis_PC_INCLUDEDIR})
  find_library(RedlockHiredis_LIBRARY hiredis HINTS ${RedlockHiredis_PC_LIBRARY_DIRS} ${RedlockHiredis_PC_LIBDIR})
endif()
mark_as_advanced(RedlockHiredis_INCLUDE_DIR RedlockHiredis_LIBRARY)

if(RedlockHiredis_INCLUDE_DIR)
  file(STRINGS "${RedlockHiredis_INCLUDE_DIR}/hiredis/hiredis.h" RedlockHiredis_VERSION
       REGEX "^#define HIREDIS_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM RedlockHiredis_VERSION REPLACE "^#define HIREDIS_[A-Z]+ ([0-9]+).*$" "\\1")
  list(JOIN RedlockHiredis_VERSION "." RedlockHiredis_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(RedlockHiredis
  REQUIRED_VARS RedlockHiredis_LIBRARY RedlockHiredis_INCLUDE_DIR
  VERSION_VAR RedlockHiredis_VERSION
  REASON_FAILURE_MESSAGE "Debian's package is libhiredis-dev. For a copy elsewhere set CMAKE_PREFIX_PATH.")

if(RedlockHiredis_FOUND AND NOT TARGET redlock::hiredis)
  add_library(redlock::hiredis INTERFACE IMPORTED)
  target_include_directories(redlock::hiredis INTERFACE "${RedlockHiredis_INCLUDE_DIR}")
  target_link_libraries(redlock::hiredis INTERFACE "${RedlockHiredis_LIBRARY}")
endif()
