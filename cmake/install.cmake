include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/redlock)
set(pkgconfig_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)

install(TARGETS redlock EXPORT redlockTargets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT redlockTargets NAMESPACE redlock:: DESTINATION ${package_dir})
install(FILES ${tls_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/redlock)

if(TARGET redlock_tool)
  # Where it was built: the headers are installed without building anything.
  install(TARGETS redlock_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool OPTIONAL)
endif()

configure_package_config_file(cmake/redlockConfig.cmake.in redlockConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(redlockConfigVersion.cmake COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)

# Relative to the folder of the .pc files, so that the installed tree may be moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/redlock.pc.in redlock.pc @ONLY)
configure_file(cmake/redlock-tls.pc.in redlock-tls.pc @ONLY)

install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redlockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/redlockConfigVersion.cmake
              cmake/FindRedlockHiredis.cmake
        DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redlock.pc ${CMAKE_CURRENT_BINARY_DIR}/redlock-tls.pc DESTINATION ${pkgconfig_dir})

# --- libredlock-dev: `cpack` in the build folder ----------------------------------------------------------------------
# Without the tool, which is not the same on all architectures.
if(PROJECT_IS_TOP_LEVEL)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libredlock-dev RENAME copyright)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME libredlock-dev)
  set(CPACK_PACKAGE_CONTACT "the redlock authors <redlock@localhost>")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL Unspecified)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libhiredis-dev (>= 0.14.1)")
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libssl-dev, pkg-config")
  include(CPack)
endif()
