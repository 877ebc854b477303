"""For Conan 2, of this checkout: conan create cmake/packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout

required_conan_version = ">=2.0"


class RedlockConan(ConanFile):
    name = "redlock"
    description = "Distributed locks on Redis"
    license = "MIT"
    topics = ("redis", "lock", "mutex", "distributed", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_tls": [True, False]}
    default_options = {"with_tls": False}
    no_copy_source = True

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "include", "redlock", "version.hpp"))
        self.version = ".".join(re.findall(r"^#define REDLOCK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE))

    def export_sources(self):
        for pattern in ("include/*", "LICENSE"):
            copy(self, pattern, src=self._root, dst=self.export_sources_folder)

    def layout(self):
        basic_layout(self)

    def requirements(self):
        self.requires("hiredis/1.2.0", transitive_headers=True)
        if self.options.with_tls:
            self.requires("openssl/[>=1.1.1 <4]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "*.hpp", src=os.path.join(self.source_folder, "include"), dst=os.path.join(self.package_folder, "include"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "redlock")
        core = self.cpp_info.components["core"]
        core.set_property("cmake_target_name", "redlock::redlock")
        core.set_property("pkg_config_name", "redlock")
        core.requires = ["hiredis::hiredis"]
        core.system_libs = ["pthread"] if self.settings.os in ("Linux", "FreeBSD") else []
        core.bindirs = core.libdirs = []
        if self.options.with_tls:
            tls = self.cpp_info.components["tls"]
            tls.set_property("cmake_target_name", "redlock::tls")
            tls.set_property("pkg_config_name", "redlock-tls")
            tls.requires = ["core", "openssl::ssl"]
            tls.bindirs = tls.libdirs = []
