#pragma once

// CMake parses these three lines; the version is written nowhere else.
#define REDLOCK_VERSION_MAJOR 0
#define REDLOCK_VERSION_MINOR 1
#define REDLOCK_VERSION_PATCH 0
