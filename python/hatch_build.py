"""The tag of the wheel: it holds a library and a program for one kind of processor, and nothing that depends on Python's version."""
import pathlib
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if not (pathlib.Path(self.root) / "tutti" / "libtutti.so").exists():
            raise RuntimeError("libtutti.so is missing: `make wheel` builds it and then this package")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data.update(pure_python=False, tag=f"py3-none-{platform}")
