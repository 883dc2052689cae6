# The Debian package of `make package`, with the program, the library, the service, and what tools/make_packages.py writes to package-files:
# man pages, completions, the bill of materials. dpkg-shlibdeps finds the packages that it needs, so that it is for the Debian that it was
# built on.
install(FILES ${PROJECT_SOURCE_DIR}/deploy/systemd/tutti.service DESTINATION /usr/lib/systemd/system COMPONENT service EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/share/tutti/tutti.toml DESTINATION /etc/tutti COMPONENT service EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/share/tutti/default DESTINATION /etc/default RENAME tutti COMPONENT service EXCLUDE_FROM_ALL)
install(DIRECTORY ${CMAKE_BINARY_DIR}/package-files/ DESTINATION /usr COMPONENT service EXCLUDE_FROM_ALL)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # `make package` has built what is packed
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_VENDOR "Tutti")
set(CPACK_PACKAGE_CONTACT "Tutti maintainers <maintainers@tutti.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server of language and embedding models for many clients")
set(CPACK_PACKAGE_DESCRIPTION "Tutti serves language and embedding models on CPUs to many clients at once, over HTTP with OpenAI's
interface, gRPC, MQTT and WebSocket, and as a C++ library.")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL Unspecified service)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/share/debian/${script})
endforeach()
include(CPack)
